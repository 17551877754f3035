//! Many creates at a time: 16 threads of one process, 16 processes; then the metadata server is
//! killed and the files are counted.

use anyhow::{Result, anyhow};
use braid_client::{Client, TlsPolicy};
use braid_testbed::stats::Summary;

use crate::{
    bench::{Bench, WorkCost},
    measure::Measure,
    workers::{create::create, process::Worker},
};

/// Number of threads, and of processes.
const WORKERS: u32 = 16;
/// The minimum rate of 16 threads of one process.
const PER_SECOND_MIN: f64 = 50_000.0;

/// `create_parallel`.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let cluster = bench.cluster()?;
    let each = bench.size(10_000_u32, 1_000);
    let client = cluster.client(TlsPolicy::default())?;
    let mut made = Made { client: &client, count: 0, each };
    let mut more = Made { client: &client, count: 0, each };
    let samples =
        bench.alternate(&mut [&mut || made.by_threads(bench), &mut || more.by_processes(bench)])?;
    let created = u64::from(WORKERS * each);
    let rate = |of: usize| {
        Summary::of(samples[of].iter().map(|taken| taken.per_second(created))).expect("a sample")
    };
    let cpu = |of: usize| {
        Summary::of(samples[of].iter().map(|taken| taken.cpu_us_each(created))).expect("a sample")
    };
    let acknowledged = created * u64::from(made.count + more.count);
    let found = count_after_kill(bench, made.count, more.count)?;
    Ok(vec![
        Measure::new("create_parallel.threads", "per s", rate(0))
            .at_least(PER_SECOND_MIN, "16 threads"),
        Measure::new("create_parallel.threads.cpu", "us each", cpu(0)),
        Measure::new("create_parallel.processes", "per s", rate(1)),
        Measure::new("create_parallel.processes.cpu", "us each", cpu(1)),
        Measure::new("create_parallel.acknowledged", "files", Summary::once(acknowledged as f64)),
        Measure::new(
            "create_parallel.lost",
            "files",
            Summary::once(acknowledged as f64 - found as f64),
        )
        .at_most(0.0, "acknowledged, then kill -9 of the metadata server"),
    ])
}

/// Directories of samples, and their number.
struct Made<'c> {
    client: &'c Client,
    count: u32,
    each: u32,
}

impl Made<'_> {
    fn directory(&mut self, kind: &str) -> Result<String> {
        let path = format!("/{kind}{}", self.count);
        self.client.mkdir(&path, 0o755)?;
        self.count += 1;
        Ok(path)
    }

    fn by_threads(&mut self, bench: &Bench) -> Result<WorkCost> {
        let directory = self.directory("threads")?;
        bench.take(|| create_with_threads(self.client, &directory, "", WORKERS, self.each))
    }

    fn by_processes(&mut self, bench: &Bench) -> Result<WorkCost> {
        let directory = self.directory("processes")?;
        let mut workers = (0..WORKERS)
            .map(|number| creating(bench, &directory, &format!("w{number}-"), self.each))
            .collect::<Result<Vec<_>>>()?;
        let taken = bench.take(|| {
            workers.iter_mut().try_for_each(Worker::go)?;
            workers.iter_mut().try_for_each(|worker| worker.expect_done(self.each.into()))
        })?;
        workers.into_iter().try_for_each(Worker::finish)?;
        Ok(taken)
    }
}

/// Creates `threads * each` files at the same time, sharing the client.
pub fn create_with_threads(
    client: &Client,
    directory: &str,
    prefix: &str,
    threads: u32,
    each: u32,
) -> Result<()> {
    std::thread::scope(|scope| {
        let start = |number| {
            scope.spawn(move || create(client, directory, &format!("{prefix}t{number}-"), each))
        };
        let started: Vec<_> = (0..threads).map(start).collect();
        started
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

/// Kills the metadata server, starts it again, and counts the existing files.
fn count_after_kill(bench: &Bench, threads: u32, processes: u32) -> Result<u64> {
    let cluster = bench.cluster()?;
    cluster.kill_and_restart_mds()?;
    let client = cluster.client(TlsPolicy::default())?;
    let directories = (0..threads)
        .map(|n| format!("/threads{n}"))
        .chain((0..processes).map(|n| format!("/processes{n}")));
    let mut count = 0;
    for directory in directories {
        for entry in client.read_dir(&directory, false)? {
            entry?;
            count += 1;
        }
    }
    Ok(count)
}

/// A process that creates files, started and connected.
fn creating(bench: &Bench, directory: &str, prefix: &str, count: u32) -> Result<Worker> {
    let cluster = bench.cluster()?;
    let (mds, key) = (cluster.mds_address.clone().into(), cluster.key.clone().into());
    Worker::start(&[
        "create".into(),
        mds,
        key,
        directory.into(),
        prefix.into(),
        count.to_string().into(),
    ])
}
