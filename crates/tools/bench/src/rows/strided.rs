//! A view of 4 KiB groups every 64 KiB: one call, and one for each group.

use anyhow::{Result, ensure};
use braid_client::{File, TlsPolicy, View};
use braid_testbed::stats::Summary;

use super::target;
use crate::{
    bench::{Bench, WorkCost},
    daemons::IODS,
    measure::Measure,
};

/// Bytes of a group.
const GROUP_BYTES: u64 = 4096;
/// Distance of the starts of two groups.
const STRIDE_BYTES: u64 = 65_536;
/// The library's window (I2): the maximum payload of one request to one I/O daemon.
const WINDOW_BYTES: u64 = 4 << 20;

/// `strided`.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let wanted = bench.size(64_u64 << 20, 8 << 20);
    let cluster = bench.cluster()?;
    let client = cluster.client(TlsPolicy::default())?;
    let bytes = wanted / GROUP_BYTES * STRIDE_BYTES;
    let file = target::file(&client, "/strided", bytes)?;
    let view = file.with_view(View::strided(0, GROUP_BYTES, STRIDE_BYTES))?;
    let mut buffer = vec![0; wanted as usize];
    let requests = requests_of(bench, &view, &mut buffer)?;
    let mut groups = vec![0; wanted as usize];
    let samples = bench.alternate::<WorkCost>(&mut [
        &mut || bench.take(|| in_one_call(&view, &mut buffer)),
        &mut || bench.take(|| group_by_group(&file, &mut groups)),
    ])?;
    ensure!(buffer == groups, "the two ways read different bytes");
    let rate = |of: usize| {
        Summary::of(samples[of].iter().map(|one| one.mb_per_second(wanted))).expect("a sample")
    };
    let each = rate(1);
    let requests_max = (wanted / IODS as u64).div_ceil(WINDOW_BYTES);
    Ok(vec![
        Measure::new("strided.requests", "of an IOD", Summary::once(requests as f64))
            .at_most(requests_max as f64, "I2: payload of an IOD / 4 MiB"),
        Measure::new("strided.call_per_group", "MB/s", each),
        Measure::new("strided.one_call", "MB/s", rate(0))
            .at_least(5.0 * each.median, format!("5 x one call per group, {:.0}", each.median)),
    ])
}

/// The maximum number of requests that an I/O daemon received for the one call. The first call
/// opens connections and presents the capability; the second is counted.
/// capability; the second is counted.
fn requests_of(bench: &Bench, view: &File, buffer: &mut [u8]) -> Result<u64> {
    let calls = || bench.cluster()?.iod_metric("braid_iod_calls_total");
    in_one_call(view, buffer)?;
    let before = calls()?;
    in_one_call(view, buffer)?;
    let after = calls()?;
    Ok(after.iter().zip(&before).map(|(after, before)| after - before).max().unwrap_or_default())
}

fn in_one_call(view: &File, buffer: &mut [u8]) -> Result<()> {
    let read = view.read_at(buffer, 0)?;
    ensure!(read == buffer.len(), "only {read} bytes were read");
    Ok(())
}

fn group_by_group(file: &File, buffer: &mut [u8]) -> Result<()> {
    for (group, at) in
        buffer.chunks_mut(GROUP_BYTES as usize).zip((0..).step_by(STRIDE_BYTES as usize))
    {
        let read = file.read_at(group, at)?;
        ensure!(read == group.len(), "at {at} only {read} bytes were read");
    }
    Ok(())
}
