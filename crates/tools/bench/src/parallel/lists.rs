//! Many small ranges of a file, as a reader of columns needs them: in one call, one read for each,
//! and as many bytes in one extent. The target, one call against one read for each, is for
//! Python's `cat_ranges`; here both are shown without the interpreter, and in `python.rs` with it.

use anyhow::{Result, ensure};
use braid_client::{File, OpenOptions, ReadPiece, TlsPolicy};
use braid_testbed::stats::Summary;

use super::rate;
use crate::{
    bench::{Bench, WorkCost},
    daemons::IODS,
    measure::Measure,
    rows::target,
};

/// Bytes of a range.
const RANGE_BYTES: usize = 4096;
/// Distance of the starts of two ranges, apart from a varying part: no formula describes them.
const APART_BYTES: u64 = 24 << 10;
/// The library's window and the longest list of one message (I2).
const WINDOW_BYTES: u64 = 4 << 20;
const LIST_RANGES_MAX: u64 = 16_384;

/// `lists`.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let count = bench.size(10_000_u64, 2_000);
    let cluster = bench.cluster()?;
    let client = cluster.client(TlsPolicy::default())?;
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = client.open("/parallel-lists", &options)?;
    let bytes = count * APART_BYTES;
    let data: Vec<u8> = (0..bytes).map(|at| (at / 4096 * 31 + at % 241) as u8).collect();
    for (at, part) in (0..).step_by(target::CALL_BYTES).zip(data.chunks(target::CALL_BYTES)) {
        file.write_at(part, at)?;
    }
    let offsets = offsets(count);
    let (mut one, mut each) =
        (vec![0; offsets.len() * RANGE_BYTES], vec![0; offsets.len() * RANGE_BYTES]);
    in_one_call(&file, &offsets, &mut one)?;
    let calls = || bench.cluster()?.iod_metric("braid_iod_calls_total");
    let before = calls()?;
    in_one_call(&file, &offsets, &mut one)?;
    let requests = calls()?
        .iter()
        .zip(&before)
        .map(|(after, before)| after - before)
        .max()
        .unwrap_or_default();
    let mut whole = vec![0; one.len()];
    let samples = bench.alternate::<WorkCost>(&mut [
        &mut || bench.take(|| in_one_call(&file, &offsets, &mut one)),
        &mut || bench.take(|| range_by_range(&file, &offsets, &mut each)),
        &mut || bench.take(|| in_one_piece(&file, &mut whole)),
    ])?;
    let wanted = offsets.iter().flat_map(|at| &data[*at as usize..*at as usize + RANGE_BYTES]);
    ensure!(one.iter().eq(wanted), "the ranges differ from what was written");
    ensure!(one == each, "the two ways read different bytes");
    let wanted_bytes = one.len() as u64;
    let windows = (wanted_bytes / IODS as u64).div_ceil(WINDOW_BYTES);
    let requests_max = windows + count.div_ceil(LIST_RANGES_MAX);
    Ok(vec![
        Measure::new("lists.requests", "of an IOD", Summary::once(requests as f64))
            .at_most(requests_max as f64, "I2: payload of an IOD / 4 MiB + list / 16,384"),
        rate("lists.one_piece", &samples[2], wanted_bytes),
        rate("lists.read_per_range", &samples[1], wanted_bytes),
        rate("lists.one_call", &samples[0], wanted_bytes),
    ])
}

/// The offsets of the ranges, in an irregular order.
fn offsets(count: u64) -> Vec<u64> {
    let random = |at: u64| {
        let mixed = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
    };
    let apart = |at: u64| at * APART_BYTES + random(at) % (APART_BYTES - RANGE_BYTES as u64);
    let mut offsets: Vec<u64> = (0..count).map(apart).collect();
    offsets.sort_by_key(|at| random(*at));
    offsets
}

fn in_one_call(file: &File, offsets: &[u64], buffer: &mut [u8]) -> Result<()> {
    let memory = buffer.chunks_mut(RANGE_BYTES);
    let mut pieces: Vec<ReadPiece<'_>> =
        offsets.iter().zip(memory).map(|(at, memory)| ReadPiece::new(*at, memory)).collect();
    let read = file.read_pieces(&mut pieces)?;
    ensure!(read == offsets.len() * RANGE_BYTES, "only {read} bytes were read");
    Ok(())
}

/// As many bytes in one extent: no list can be faster.
fn in_one_piece(file: &File, buffer: &mut [u8]) -> Result<()> {
    let read = file.read_at(buffer, 0)?;
    ensure!(read == buffer.len(), "only {read} bytes were read");
    Ok(())
}

fn range_by_range(file: &File, offsets: &[u64], buffer: &mut [u8]) -> Result<()> {
    for (at, memory) in offsets.iter().zip(buffer.chunks_mut(RANGE_BYTES)) {
        let read = file.read_at(memory, *at)?;
        ensure!(read == memory.len(), "at {at} only {read} bytes were read");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_and_are_in_no_order() {
        let mut at = offsets(1000);
        assert!(!at.is_sorted());
        at.sort_unstable();
        assert!(at.windows(2).all(|pair| pair[0] + RANGE_BYTES as u64 <= pair[1]));
        let apart: std::collections::BTreeSet<u64> =
            at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(apart.len() > 100, "no formula");
    }
}
