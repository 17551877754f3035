//! One run, from the query of the cluster to the removal of its files.

use std::{
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use braid_client::Client;

use crate::{
    bench::{Bench, Progress},
    bottleneck::Limits,
    error::{BenchError, Result},
    iods, limits,
    options::{MIN_BYTES, Options},
    pace::{Clock, Paced, Pacer, SystemClock},
    report::{REPORT_FORMAT, Report, RequestedOptions, Row},
    rows::{self, RowSpec},
    scratch::{Scratch, stale_directories},
    subject::Subject,
};

/// A run may use one part in this many of the free space.
const SHARE_OF_FREE: u64 = 10;
/// Sets of files of one row's size that exist at a time: one shared file, one file per task, and
/// those of the limits.
const SETS_OF_FILES: u64 = 3;

/// Measures limits and rows, and removes its files. `tell` receives each result; setting `stop`
/// ends the run.
///
/// # Errors
/// As [`BenchError`] describes; the files are removed after an error too.
pub fn run(
    client: &Client,
    options: &Options,
    host: &str,
    stop: &AtomicBool,
    tell: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Report> {
    run_on(client, Arc::new(SystemClock::new()), options, host, stop, tell)
}

/// The same for any file system and any clock.
fn run_on(
    subject: &dyn Subject,
    clock: Arc<dyn Clock>,
    options: &Options,
    host: &str,
    stop: &AtomicBool,
    tell: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Report> {
    options.check()?;
    let client = Paced::new(subject, Pacer::new(clock, options.time_limit()));
    let began = client.pacer().now();
    let iods = client.iods()?;
    let wanted = rows::wanted(options, iods.len())?;
    let bytes = bytes(&client, options, &iods)?;
    rows::check(&wanted, bytes)?;
    let leftovers = stale_directories(&client, &options.at)?;
    let scratch = Scratch::new(&client, &options.at)?;
    let mut bench = Bench {
        client: &client,
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
    let first = measure_limits(&bench, &mut limits);
    // The fill rate is known now.
    bench.bytes =
        options.bytes_in_time(bytes, limits.fill_rate()).max(rows::bytes_min(&wanted)).min(bytes);
    let measured = first.and_then(|()| measure_rows(&bench, &mut limits, &wanted, &mut rows));
    let (bytes, names) = (bench.bytes, bench.iods.iter().map(iods::Iod::name).collect());
    match measured {
        Err(BenchError::OutOfTime) => {}
        other => other?,
    }
    scratch.remove()?;
    Ok(Report {
        format: REPORT_FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        began: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        seconds: (client.pacer().now() - began).as_secs_f64(),
        host: host.to_owned(),
        processors: thread::available_parallelism().map_or(1, usize::from),
        asked: RequestedOptions {
            row_ms: options.row_time.as_millis() as u64,
            samples: options.samples,
            bytes,
            tasks: options.tasks(),
            quick: options.quick,
            preset: options.preset.clone(),
        },
        iods: names,
        limits: limits.all,
        left_out: wanted.iter().skip(rows.len()).map(|spec| spec.name.clone()).collect(),
        rows,
        leftovers,
    })
}

/// One sample of each limit, as far as time allows: in a quick run half of the remaining time is
/// for the rows.
fn measure_limits(bench: &Bench<'_>, limits: &mut Limits) -> Result<()> {
    let mut found = Vec::new();
    let measured = bench.client.pacer().with_half_the_time(|| limits::measure(bench, &mut found));
    limits.add(found);
    match measured {
        Err(BenchError::OutOfTime) => Ok(()),
        other => other,
    }
}

/// Takes a sample of everything, then the next of everything: a drift during a run shows in the
/// spread of each row. The limits have their first sample already.
/// limits is there.
fn measure_rows(
    bench: &Bench<'_>,
    limits: &mut Limits,
    wanted: &[RowSpec],
    rows: &mut Vec<Row>,
) -> Result<()> {
    let mut files = rows::Files::new(bench);
    for round in 0..bench.options.samples {
        if round > 0 {
            measure_limits(bench, limits)?;
        }
        rows::measure(bench, limits, &mut files, wanted, rows)?;
    }
    Ok(())
}

/// Size of a row's files: the requested size, but at most a tenth of the free space, also on the
/// fullest disk.
fn bytes(client: &Paced<'_>, options: &Options, iods: &[iods::Iod]) -> Result<u64> {
    let whole = client.available()?;
    let sharing = |device: u64| iods.iter().filter(|iod| iod.device == device).count() as u64;
    let parts = iods.len() as u64;
    let fullest =
        iods.iter().map(|iod| iod.available / sharing(iod.device) * parts).min().unwrap_or(0);
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
mod slow;

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
