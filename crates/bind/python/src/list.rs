//! Lists of pieces in any order, overlapping or not, as the one ascending list that the library takes: one request to each daemon.
//!
//! ```text
//!   asked for     [ d ]   [ b  ]        [a]           in the order of the caller
//!                       [ c  ]
//!   in the file   ...a........[d][ c[ ]b ]...         ascending
//!   the list         a         d  \  e  /             b and c overlap: their union is read once and dealt out
//! ```

use std::io::{IoSlice, IoSliceMut};

use braid_client::{Error, Extent, File, Result, Status};

/// Pieces that overlap each other, or one that overlaps none.
struct Run {
    extent: Extent,
    /// Position of its first byte in the bytes of the list.
    start: u64,
    /// Which pieces it has, as numbers in the caller's order.
    pieces: Vec<usize>,
}

/// Reads pieces of a file: offset, and memory as long as the piece. How many bytes of each there are: fewer only at the end of the file.
pub(crate) fn read(file: &File, mut pieces: Vec<(u64, &mut [u8])>) -> Result<Vec<usize>> {
    let places: Vec<(u64, u64)> = pieces.iter().map(|(offset, memory)| (*offset, memory.len() as u64)).collect();
    let runs = runs(&places)?;
    let extents: Vec<Extent> = runs.iter().map(|run| run.extent).collect();
    let mut unions: Vec<Vec<u8>> = runs.iter().map(|run| vec![0; run.union_bytes()]).collect();
    let got = {
        let mut alone: Vec<Option<&mut [u8]>> = pieces.iter_mut().map(|(_, memory)| Some(&mut **memory)).collect();
        let memory = runs.iter().zip(&mut unions).filter_map(|(run, union)| match run.pieces[..] {
            [piece] => alone[piece].take().map(IoSliceMut::new),
            _ => Some(IoSliceMut::new(union)),
        });
        let mut buffers: Vec<IoSliceMut<'_>> = memory.collect();
        file.read_list(&extents, &mut buffers)? as u64
    };
    let mut counts = vec![0; pieces.len()];
    for (run, union) in runs.iter().zip(&unions) {
        let there = got.saturating_sub(run.start).min(run.extent.bytes);
        for &piece in &run.pieces {
            let (offset, memory) = &mut pieces[piece];
            let skipped = *offset - run.extent.offset;
            let count = there.saturating_sub(skipped).min(memory.len() as u64) as usize;
            if run.pieces.len() > 1 {
                memory[..count].copy_from_slice(&union[skipped as usize..][..count]);
            }
            counts[piece] = count;
        }
    }
    Ok(counts)
}

/// Writes pieces to a file: offset and bytes.
///
/// # Errors
/// [`Status::Invalid`] for pieces that overlap: it would not be said whose bytes stay.
pub(crate) fn write(file: &File, pieces: &[(u64, &[u8])]) -> Result<usize> {
    let places: Vec<(u64, u64)> = pieces.iter().map(|(offset, memory)| (*offset, memory.len() as u64)).collect();
    let runs = runs(&places)?;
    if runs.iter().any(|run| run.pieces.len() > 1) {
        return Err(
            Error::new(Status::Invalid, "pieces that are to be written overlap").with_hint("one write for each")
        );
    }
    let extents: Vec<Extent> = runs.iter().map(|run| run.extent).collect();
    let buffers = runs.iter().flat_map(|run| &run.pieces).map(|piece| IoSlice::new(pieces[*piece].1));
    file.write_list(&extents, &buffers.collect::<Vec<_>>())
}

impl Run {
    /// Memory that is needed beside that of the pieces.
    fn union_bytes(&self) -> usize {
        if self.pieces.len() > 1 { self.extent.bytes as usize } else { 0 }
    }
}

/// The runs of pieces of (offset, bytes), ascending; those of no byte are in none.
fn runs(places: &[(u64, u64)]) -> Result<Vec<Run>> {
    let mut order: Vec<usize> = (0..places.len()).filter(|piece| places[*piece].1 > 0).collect();
    order.sort_by_key(|piece| places[*piece].0);
    let mut runs: Vec<Run> = Vec::with_capacity(order.len());
    for piece in order {
        let (offset, bytes) = places[piece];
        let end = offset
            .checked_add(bytes)
            .ok_or_else(|| Error::new(Status::TooLarge, "a piece ends past the largest file"))?;
        match runs.last_mut() {
            Some(last) if offset < last.extent.offset + last.extent.bytes => {
                last.extent.bytes = last.extent.bytes.max(end - last.extent.offset);
                last.pieces.push(piece);
            }
            last => {
                let start = last.map_or(0, |last| last.start + last.extent.bytes);
                runs.push(Run { extent: Extent { offset, bytes }, start, pieces: vec![piece] });
            }
        }
    }
    Ok(runs)
}
