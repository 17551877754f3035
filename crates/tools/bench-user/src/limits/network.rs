//! The rates of transfers to and from each daemon, one daemon at a time and all together, and the
//! time of a call.
//!
//! The transfers use one short extent of an object, written and read repeatedly: it stays in the
//! daemon's memory, and no disk is involved. Where the network is faster than the daemon's memory
//! copies, those are measured.

use super::limit;
use crate::{
    bench::Bench,
    bottleneck::TransferDirection,
    error::Result,
    iods::Iod,
    pace::PacedFile,
    report::{Limit, LimitKind},
    sample::{Step, rate, time},
};

/// Number of limits of each daemon.
pub(super) const EACH: usize = 3;
/// Number of limits of all daemons together.
pub(super) const ALL: usize = 3;

/// Maximum size of a request.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Smaller requests would measure round trips.
const REQUEST_BYTES_MIN: usize = 256 << 10;
/// Maximum number of connections to one daemon.
const STREAMS_MAX: u32 = 4;
/// Number of requests that should fit into a sample.
const REQUESTS_IN_SAMPLE: f64 = 4.0;

/// The rates to and from one daemon, and the round trip.
pub(super) fn one(bench: &Bench<'_>, iod: &Iod) -> Result<Vec<Limit>> {
    let streams = bench.options.tasks().min(STREAMS_MAX);
    let file = bench.file_on(iod, &format!("network-{}", iod.id))?;
    let request = request_bytes(bench, &file)?;
    let files: Vec<&PacedFile> = (0..streams).map(|_| &file).collect();
    let stretches: Vec<u64> = (0..u64::from(streams)).collect();
    let how = format!(
        "{streams} streams of requests of up to 4 MiB, repeated, from and to the daemon's memory"
    );
    let id = Some(iod.id.0);
    let send = transfer(bench, TransferDirection::Send, &files, &stretches, request)?;
    let receive = transfer(bench, TransferDirection::Receive, &files, &stretches, request)?;
    let round_trips = time(bench, bench.limit_sample, || file.size().map(drop))?;
    Ok(vec![
        limit(LimitKind::Send, id, format!("the network to {}", iod.name()), how.as_str(), send),
        limit(LimitKind::Receive, id, format!("the network from {}", iod.name()), how, receive),
        limit(
            LimitKind::RoundTrip,
            id,
            format!("the round trip to {}", iod.name()),
            "a call that asks how long an object is",
            round_trips,
        ),
    ])
}

/// The rates to and from all daemons together.
pub(super) fn all(bench: &Bench<'_>) -> Result<Vec<Limit>> {
    let mut opened = Vec::new();
    for iod in &bench.iods {
        opened.push(bench.file_on(iod, &format!("network-all-{}", iod.id))?);
    }
    let streams = bench.iods.len().max(bench.options.tasks().min(STREAMS_MAX) as usize);
    let request = request_bytes(bench, &opened[0])?;
    let files: Vec<&PacedFile> = (0..streams).map(|at| &opened[at % opened.len()]).collect();
    let stretches: Vec<u64> = (0..streams).map(|at| (at / opened.len()) as u64).collect();
    let how = format!(
        "{streams} streams of requests of up to 4 MiB, repeated, from and to the daemons' memory"
    );
    let send = transfer(bench, TransferDirection::Send, &files, &stretches, request)?;
    let receive = transfer(bench, TransferDirection::Receive, &files, &stretches, request)?;
    let count = bench.iods.len();
    let tasks = bench.options.tasks();
    let asked = (0..tasks as usize).map(|at| &opened[at % opened.len()]);
    let mut calls: Vec<_> = asked.map(|file| Step(|| file.size().map(|_| 1))).collect();
    let calls = rate(bench, bench.limit_sample, &mut calls)?;
    let to = format!("the network to all {count} I/O daemons together");
    let from = format!("the network from all {count} I/O daemons together (incast)");
    Ok(vec![
        limit(LimitKind::SendAll, None, to, how.as_str(), send),
        limit(LimitKind::ReceiveAll, None, from, how, receive),
        limit(
            LimitKind::IodCalls,
            None,
            format!("the calls that I/O daemons serve for {tasks} tasks"),
            "each task asks one daemon how long an object is",
            calls,
        ),
    ])
}

/// Short enough for several requests in a sample, and long enough that waits between requests do
/// not count.
fn request_bytes(bench: &Bench<'_>, file: &PacedFile) -> Result<usize> {
    let buffer = vec![1_u8; REQUEST_BYTES_MIN];
    file.write_at(&buffer, 0)?;
    let began = bench.now();
    file.write_at(&buffer, 0)?;
    let rate = REQUEST_BYTES_MIN as f64 / (bench.now() - began).as_secs_f64().max(1e-9);
    let fits = (rate * bench.limit_sample.as_secs_f64() / REQUESTS_IN_SAMPLE) as usize;
    Ok(fits.clamp(REQUEST_BYTES_MIN, REQUEST_BYTES_MAX) >> 18 << 18)
}

fn transfer(
    bench: &Bench<'_>,
    way: TransferDirection,
    files: &[&PacedFile],
    stretches: &[u64],
    request: usize,
) -> Result<f64> {
    let mut steps: Vec<_> = files
        .iter()
        .zip(stretches)
        .map(|(file, stretch)| {
            let mut buffer = vec![1_u8; request];
            let offset = stretch * request as u64;
            Step(move || {
                Ok(match way {
                    TransferDirection::Send => file.write_at(&buffer, offset)?,
                    TransferDirection::Receive => file.read_at(&mut buffer, offset)?,
                } as u64)
            })
        })
        .collect();
    rate(bench, bench.limit_sample, &mut steps)
}
