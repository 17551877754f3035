//! One run, from the first look at the cluster to the removal of what it made.

use std::{
    sync::atomic::AtomicBool,
    thread,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use braid_client::{Client, FileIndex};

use crate::{
    bench::{Bench, Told},
    bound::Limits,
    error::{BenchError, Result},
    iods, limits,
    options::{MIN_BYTES, Options},
    report::{Asked, REPORT_FORMAT, Report},
    rows,
    scratch::{Scratch, leftovers},
};

/// What part of the free space a run may take.
const SHARE_OF_FREE: u64 = 10;
/// Sets of files of one row's size that are there at a time: one shared file, one file per task, and those of the limits.
const SETS_OF_FILES: u64 = 3;

/// Measures limits and rows, and removes what it made. `tell` hears of each result as it comes; setting `stop` ends the run.
///
/// # Errors
/// As [`BenchError`] says; what was made is removed after an error too.
pub fn run(
    client: &Client,
    options: &Options,
    host: &str,
    stop: &AtomicBool,
    tell: &(dyn Fn(Told<'_>) + Sync),
) -> Result<Report> {
    options.check()?;
    let began = Instant::now();
    let iods = iods::usable(client)?;
    let wanted = rows::wanted(options, iods.len())?;
    let bytes = bytes(client, options, &iods)?;
    rows::check(&wanted, bytes)?;
    let leftovers = leftovers(client, &options.at)?;
    let scratch = Scratch::new(client, &options.at)?;
    let bench = Bench {
        client,
        scratch: &scratch,
        options,
        stop,
        sample: options.sample(wanted.len()),
        limit_sample: options.limit_sample(limits::count(iods.len())),
        iods,
        bytes,
        tell,
    };
    let (mut limits, mut rows) = (Limits { all: Vec::new(), iods: bench.iods.clone() }, Vec::new());
    let mut files = rows::Files::new(&bench);
    // A sample of everything, then the next of everything: what drifts over a run is in the spread of each row.
    for _ in 0..options.samples {
        limits.add(limits::measure(&bench)?);
        rows::measure(&bench, &limits, &mut files, &wanted, &mut rows)?;
    }
    drop(files);
    let report = Report {
        format: REPORT_FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        began: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        seconds: began.elapsed().as_secs_f64(),
        host: host.to_owned(),
        processors: thread::available_parallelism().map_or(1, usize::from),
        asked: Asked {
            row_ms: options.row_time.as_millis() as u64,
            samples: options.samples,
            bytes: bench.bytes,
            tasks: options.tasks(),
            quick: options.quick,
            preset: options.preset.clone(),
        },
        iods: bench.iods.iter().map(iods::Iod::name).collect(),
        limits: limits.all,
        rows,
        leftovers,
    };
    scratch.remove()?;
    Ok(report)
}

/// How long the files of a row are: what was asked for, as far as a tenth of the free space goes, on the fullest disk too.
fn bytes(client: &Client, options: &Options, iods: &[iods::Iod]) -> Result<u64> {
    let whole = client.statfs(FileIndex::ROOT)?.available.0;
    let sharing = |device: u64| iods.iter().filter(|iod| iod.device == device).count() as u64;
    let parts = iods.len() as u64;
    let fullest = iods.iter().map(|iod| iod.available / sharing(iod.device) * parts).min().unwrap_or(0);
    let free = whole.min(fullest);
    room(options.bytes_max, free)
}

fn room(asked: u64, free: u64) -> Result<u64> {
    let may = free / SHARE_OF_FREE / SETS_OF_FILES;
    let bytes = asked.min(may) / MIN_BYTES * MIN_BYTES;
    if bytes == 0 {
        return Err(BenchError::TooMuch { wanted: MIN_BYTES, files: SETS_OF_FILES, free });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_takes_at_most_a_tenth_of_what_is_free() {
        assert_eq!(room(1 << 30, 1 << 40), Ok(1 << 30));
        assert_eq!(room(1 << 30, 100 << 20), Ok(3 << 20));
        assert_eq!(room(1 << 30, 30 << 20), Ok(1 << 20));
        assert!(matches!(room(1 << 30, 29 << 20), Err(BenchError::TooMuch { .. })));
    }
}
