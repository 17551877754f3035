//! Requests of 1 to 100,000 extents, in one call.

use anyhow::{Result, ensure};
use braid_client::{File, OpenOptions, ReadPiece, View, WritePiece};

use super::{
    Growth, Plan,
    series::{Series, Unit},
    stage::{Amount, Stage},
    transfer::STRIPE_BYTES,
};
use crate::daemons::IODS;

/// Bytes of an extent.
const PIECE_BYTES: u64 = 512;
/// Distance of the starts of two extents: there is a gap between them.
const APART_BYTES: u64 = 2048;
/// Extents of a sample, in this many calls.
const SAMPLE_PIECES: u64 = 1_000_000;
const CALLS: std::ops::RangeInclusive<u64> = 10..=20_000;

pub const PLAN: Plan = Plan {
    name: "pieces",
    about: "requests of pieces of 512 bytes, every 2 KiB or so: a list read, a list written, a \
        view read",
    size: "pieces",
    sizes: &[1, 10, 100, 1000, 10_000, 100_000],
    quick: &[1, 1000, 100_000],
    run,
};

fn run(growth: &Growth, sizes: &[u64]) -> Result<Vec<Series>> {
    let mut read = Series::flat("read_list", "pieces that no formula describes", Unit::Each);
    let mut write = Series::flat("write_list", "the same, written", Unit::Each);
    let mut view = Series::flat("read_view", "as many pieces, by a formula", Unit::Each);
    let stage = Stage::start(growth, IODS)?;
    let client = stage.client()?;
    let options = OpenOptions::new().read(true).write(true).create_new(true);
    let file = client.open("/pieces", &options.stripe_size(STRIPE_BYTES).iod_count(IODS as u16))?;
    let most = *sizes.last().unwrap_or(&1);
    for at in (0..most * APART_BYTES).step_by(CALL_BYTES) {
        file.write_at(&vec![0x5a; CALL_BYTES], at)?;
    }
    let formula = file.with_view(View::strided(0, PIECE_BYTES, APART_BYTES))?;
    for &size in sizes {
        let calls = growth.amount((SAMPLE_PIECES / size).clamp(*CALLS.start(), *CALLS.end()));
        let amount = Amount::Count(calls * size);
        let offsets: Vec<u64> = (0..size).map(offset).collect();
        let mut buffer = vec![0; (size * PIECE_BYTES) as usize];
        let buffers = buffer.len() as u64;
        read.push(stage.calls(size, amount, buffers, || {
            (0..calls).try_for_each(|_| read_list(&file, &offsets, &mut buffer))
        })?);
        write.push(stage.calls(size, amount, buffers, || {
            (0..calls).try_for_each(|_| write_list(&file, &offsets, &buffer))
        })?);
        view.push(stage.calls(size, amount, buffers, || {
            (0..calls).try_for_each(|_| read_view(&formula, &mut buffer))
        })?);
    }
    Ok(vec![read, write, view])
}

/// Bytes of one call that fills the file.
const CALL_BYTES: usize = 1 << 20;

/// Multiples of the golden ratio: a few distances, in an order without a period, so that no view
/// describes them.
fn offset(piece: u64) -> u64 {
    let mixed = (piece + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    piece * APART_BYTES + mixed % (APART_BYTES - PIECE_BYTES)
}

fn read_list(file: &File, offsets: &[u64], buffer: &mut [u8]) -> Result<()> {
    let wanted = buffer.len();
    let memory = buffer.chunks_mut(PIECE_BYTES as usize);
    let mut pieces: Vec<ReadPiece<'_>> =
        offsets.iter().zip(memory).map(|(at, memory)| ReadPiece::new(*at, memory)).collect();
    let read = file.read_pieces(&mut pieces)?;
    ensure!(read == wanted, "only {read} bytes were read");
    Ok(())
}

fn write_list(file: &File, offsets: &[u64], buffer: &[u8]) -> Result<()> {
    let memory = buffer.chunks(PIECE_BYTES as usize);
    let pieces: Vec<WritePiece<'_>> =
        offsets.iter().zip(memory).map(|(at, memory)| WritePiece::new(*at, memory)).collect();
    let written = file.write_pieces(&pieces)?;
    ensure!(written == buffer.len(), "only {written} bytes were written");
    Ok(())
}

fn read_view(file: &File, buffer: &mut [u8]) -> Result<()> {
    let read = file.read_at(buffer, 0)?;
    ensure!(read == buffer.len(), "only {read} bytes were read");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_meet_and_no_formula_says_where_they_are() {
        let at: Vec<u64> = (0..1000).map(offset).collect();
        assert!(at.windows(2).all(|pair| pair[0] + PIECE_BYTES <= pair[1]));
        let apart: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let repeats =
            |period: usize| apart.iter().zip(&apart[period..]).all(|(one, other)| one == other);
        assert!((1..500).all(|period| !repeats(period)));
    }
}
