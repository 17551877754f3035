//! Sequential read and rewrite against the raw stream and the local file system.

use std::cell::RefCell;

use anyhow::Result;
use braid_client::{File, OpenOptions, TlsPolicy};
use braid_testbed::stats::Summary;

use super::target::{self, CALL_BYTES};
use crate::{
    bench::{Bench, WorkCost},
    measure::Measure,
    references::{
        local_file::LocalFile,
        stream::{Stream, Streamed},
    },
};

/// The limit of TLS's CPU time, as a multiple of the plain connection's.
const TLS_FACTOR_MAX: f64 = 2.5;

/// Sizes of the sequential rows.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Size of the file: small enough for any machine's page cache, larger than the processor's
    /// caches.
    pub file: u64,
    /// Bytes of a sample: the file several times.
    pub sample: u64,
}

impl Sizes {
    /// For this run.
    pub fn of(bench: &Bench) -> Self {
        bench.size(
            Self { file: 1 << 30, sample: 4 << 30 },
            Self { file: 128 << 20, sample: 512 << 20 },
        )
    }

    /// Once without timing, to warm up caches; then a timed sample.
    pub fn passes(&self, bench: &Bench, mut pass: impl FnMut() -> Result<()>) -> Result<WorkCost> {
        pass()?;
        bench.take(|| (0..self.sample / self.file).try_for_each(|_| pass()))
    }
}

/// A sample of any kind in these rows.
type Sample = Streamed;

/// `read`.
pub fn read(bench: &Bench) -> Result<Vec<Measure>> {
    let sizes = Sizes::of(bench);
    let files = Files::open(bench, "/read", sizes.file)?;
    let buffer = RefCell::new(vec![0; CALL_BYTES]);
    let all = |file: &File| target::read(file, sizes.file, &mut buffer.borrow_mut());
    let samples = in_turn(bench, sizes, &files, &all, LocalFile::read)?;
    Ok(samples.report("read", "page-cache read", 1.3, true))
}

/// `rewrite`.
pub fn rewrite(bench: &Bench) -> Result<Vec<Measure>> {
    let sizes = Sizes::of(bench);
    let files = Files::open(bench, "/rewrite", sizes.file)?;
    let buffer = vec![0xa5; CALL_BYTES];
    let all = |file: &File| target::write(file, sizes.file, &buffer);
    let samples = in_turn(bench, sizes, &files, &all, LocalFile::write)?;
    let mut measures = samples.report("rewrite", "local rewrite", 1.4, false);
    measures.extend(new_file(bench, sizes, &buffer)?);
    Ok(measures)
}

/// New files, compared with new local files: shown without a target, since it measures how the
/// machine allocates pages.
fn new_file(bench: &Bench, sizes: Sizes, buffer: &[u8]) -> Result<Vec<Measure>> {
    let client = bench.cluster()?.client(TlsPolicy::default())?;
    let options = OpenOptions::new().read(true).write(true).create(true);
    let mut subject = || {
        let file = client.open("/new", &options)?;
        let taken = bench.take(|| target::write(&file, sizes.file, buffer))?;
        file.close()?;
        client.unlink("/new")?;
        Ok(taken)
    };
    let mut local = || bench.take(|| LocalFile::make(&bench.scratch, "new", sizes.file).map(drop));
    let samples = bench.alternate::<WorkCost>(&mut [&mut local, &mut subject])?;
    let mut measures = Vec::new();
    for (name, taken) in ["rewrite.new_local_file", "rewrite.new_file"].into_iter().zip(&samples) {
        let cpu = taken.iter().map(|one| one.cpu_per_gib(sizes.file));
        let rate = taken.iter().map(|one| one.mb_per_second(sizes.file));
        measures.push(Measure::new(
            format!("{name}.cpu"),
            "s/GiB",
            Summary::of(cpu).expect("there is a sample"),
        ));
        measures.push(Measure::new(
            format!("{name}.rate"),
            "MB/s",
            Summary::of(rate).expect("there is a sample"),
        ));
    }
    Ok(measures)
}

/// The same file over plain connections and over TLS.
struct Files {
    plain: File,
    tls: Option<File>,
}

impl Files {
    fn open(bench: &Bench, path: &str, bytes: u64) -> Result<Self> {
        let open = |tls| target::file(&bench.cluster()?.client(tls)?, path, bytes);
        let plain = open(TlsPolicy::default())?;
        Ok(Self { plain, tls: bench.tls.then(|| open(TlsPolicy::Always)).transpose()? })
    }
}

/// Samples of the stream, the local file, and the file in the cluster, in turn in this order.
fn in_turn(
    bench: &Bench,
    sizes: Sizes,
    files: &Files,
    all: &dyn Fn(&File) -> Result<()>,
    local: fn(&mut LocalFile) -> Result<()>,
) -> Result<Samples> {
    let stream = Stream::start(bench)?;
    let mut local_file = LocalFile::make(&bench.scratch, "local", sizes.file)?;
    let sample = |taken: WorkCost| Sample {
        cpu_per_gib: taken.cpu_per_gib(sizes.sample),
        mb_per_second: taken.mb_per_second(sizes.sample),
    };
    let mut streamed = || stream.sample(bench, sizes.sample);
    let mut beside = || sizes.passes(bench, || local(&mut local_file)).map(sample);
    let mut plain = || sizes.passes(bench, || all(&files.plain)).map(sample);
    let mut over_tls;
    let mut variants: Vec<&mut dyn FnMut() -> Result<Sample>> =
        vec![&mut streamed, &mut beside, &mut plain];
    if let Some(file) = &files.tls {
        over_tls = move || sizes.passes(bench, || all(file)).map(sample);
        variants.push(&mut over_tls);
    }
    bench.alternate(&mut variants).map(Samples)
}

/// Stream, local file, plain, TLS.
struct Samples(Vec<Vec<Sample>>);

impl Samples {
    fn summary(&self, of: usize, pick: fn(&Sample) -> f64) -> Option<Summary> {
        Summary::of(self.0.get(of)?.iter().map(pick))
    }

    fn cpu(&self, of: usize) -> Option<Summary> {
        self.summary(of, |sample| sample.cpu_per_gib)
    }

    fn rate(&self, of: usize) -> Option<Summary> {
        self.summary(of, |sample| sample.mb_per_second)
    }

    fn report(&self, row: &str, local: &str, factor: f64, rate_has_bar: bool) -> Vec<Measure> {
        let present = "there is a sample";
        let (stream, beside) = (self.cpu(0).expect(present), self.cpu(1).expect(present));
        let limit = factor * (stream.median + beside.median);
        let reason =
            format!("{factor} x (raw stream {:.3} + {local} {:.3})", stream.median, beside.median);
        let stream_rate = self.rate(0).expect(present);
        let mut rate = Measure::new(format!("{row}.rate"), "MB/s", self.rate(2).expect(present));
        if rate_has_bar {
            rate = rate.at_least(
                0.8 * stream_rate.median,
                format!("0.8 x raw stream {:.0}", stream_rate.median),
            );
        }
        vec![
            Measure::new(format!("{row}.stream.cpu"), "s/GiB", stream),
            Measure::new(format!("{row}.stream.rate"), "MB/s", stream_rate),
            Measure::new(format!("{row}.local.cpu"), "s/GiB", beside),
            Measure::new(format!("{row}.local.rate"), "MB/s", self.rate(1).expect(present)),
            Measure::new(format!("{row}.cpu"), "s/GiB", self.cpu(2).expect(present))
                .at_most(limit, reason)
                .beside_tls_at_most(self.cpu(3), TLS_FACTOR_MAX),
            rate.beside_tls(self.rate(3)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_of_reading_is_1_3_times_stream_and_page_cache_together() {
        let sample = |cpu_per_gib, mb_per_second| vec![Sample { cpu_per_gib, mb_per_second }];
        let samples = Samples(vec![
            sample(0.2, 4000.0),
            sample(0.1, 9000.0),
            sample(0.4, 3100.0),
            sample(0.9, 1000.0),
        ]);
        let measures = samples.report("read", "page-cache read", 1.3, true);
        let find = |name: &str| measures.iter().find(|measure| measure.name == name).unwrap();
        assert!((find("read.cpu").plain.target.as_ref().unwrap().limit() - 0.39).abs() < 1e-9);
        assert_eq!(find("read.cpu").plain.holds(), Some(false));
        assert_eq!(find("read.cpu").tls.as_ref().unwrap().holds(), Some(true));
        assert_eq!(find("read.rate").plain.holds(), Some(false), "3100 < 0.8 x 4000");
    }
}
