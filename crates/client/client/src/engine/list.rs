//! List I/O: many pieces of a file in one call.
//!
//! ```text
//!   pieces, in any order, overlapping      (offset, memory) (offset, memory) …
//!        |  lay: each byte of the file once, ascending
//!        v
//!   extents + slices of the memory ──► a strided view if regular, else lists that fit
//!       |                              one message (I2)
//!        |  read: overlapping pieces are copied from the piece that received the bytes
//!        v
//!   the number of bytes of each piece
//! ```

use std::io::{IoSlice, IoSliceMut};

use braid_layout::{Extent, View};
use braid_net::Driver;
use braid_types::{
    Status,
    limits::{FILE_BYTES_MAX, LIST_EXTENTS_MAX},
};

use super::{FileView, OpenFile};
use crate::{
    error::{Error, Result},
    plan::{PlacedExtent, laid_extents, place_extents, strided_view},
};

/// One piece of a list to read.
#[derive(Debug)]
pub struct ReadPiece<'b> {
    /// Its offset in the file.
    pub offset: u64,
    /// The memory for its bytes.
    pub memory: IoSliceMut<'b>,
    /// The number of bytes read: less than the capacity only at the end of the file. Set by the
    /// call.
    pub bytes: usize,
}

impl<'b> ReadPiece<'b> {
    /// Reads from `offset` into all of `memory`.
    pub fn new(offset: u64, memory: &'b mut [u8]) -> Self {
        Self { offset, memory: IoSliceMut::new(memory), bytes: 0 }
    }
}

/// One piece of a list to write.
#[derive(Clone, Copy, Debug)]
pub struct WritePiece<'b> {
    /// Its offset in the file.
    pub offset: u64,
    /// Its bytes.
    pub memory: IoSlice<'b>,
}

impl<'b> WritePiece<'b> {
    /// Writes all of `memory` at `offset`.
    pub fn new(offset: u64, memory: &'b [u8]) -> Self {
        Self { offset, memory: IoSlice::new(memory) }
    }
}

impl<D: Driver> OpenFile<D> {
    /// Reads pieces of the file, in any order, also overlapping ones; each byte is sent once.
    /// Returns the number of bytes read in total; each piece contains its own number.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn read_pieces(&self, pieces: &mut [ReadPiece<'_>]) -> Result<usize> {
        let list = pieces
            .iter()
            .map(|piece| Extent { offset: piece.offset, bytes: piece.memory.len() as u64 });
        let laid = place_extents(&list.collect::<Vec<_>>());
        let got =
            self.read_ascending(&laid_extents(&laid), &mut own_memory(&laid, pieces)).await? as u64;
        share(&laid, end_of(&laid, got), pieces);
        Ok(pieces.iter().map(|piece| piece.bytes).sum())
    }

    /// Writes pieces of the file in any order. Where pieces overlap, the later one in the list is
    /// stored, as if they were written one after the other. Bytes that another piece overwrites are
    /// not sent. Returns the number of bytes in all pieces.
    ///
    /// # Errors
    /// With the path and the daemon; any of the pieces may have been written.
    pub async fn write_pieces(&self, pieces: &[WritePiece<'_>]) -> Result<usize> {
        let list = pieces
            .iter()
            .map(|piece| Extent { offset: piece.offset, bytes: piece.memory.len() as u64 });
        let list: Vec<Extent> = list.collect();
        self.check_end(&list)?;
        let laid = place_extents(&list);
        let own = |run: &PlacedExtent| {
            IoSlice::new(&pieces[run.piece].memory[run.at as usize..(run.at + run.bytes) as usize])
        };
        let memory: Vec<IoSlice<'_>> = laid.iter().map(own).collect();
        self.write_ascending(&laid_extents(&laid), &memory).await?;
        Ok(pieces.iter().map(|piece| piece.memory.len()).sum())
    }

    /// Reads a list of extents of the file, in any order and possibly overlapping, into the
    /// buffers, one after the other. Returns the number of bytes read in total, which is less than
    /// requested only if the list passes the end of the file. Then an ascending list has filled the
    /// buffers up to that number; for any other list, use [`OpenFile::read_pieces`], which returns
    /// the number of each piece.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn read_list(
        &self,
        extents: &[Extent],
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<usize> {
        if ascends(extents) {
            return self.read_ascending(extents, buffers).await;
        }
        let mut memory = buffers.iter_mut().map(|buffer| &mut **buffer);
        let mut rest: &mut [u8] = &mut [];
        let mut pieces = Vec::new();
        for extent in extents {
            let (mut offset, mut left) = (extent.offset, extent.bytes);
            while left > 0 {
                if rest.is_empty() {
                    let Some(next) = memory.next() else { break };
                    rest = next;
                    continue;
                }
                let taken = left.min(rest.len() as u64);
                let (own, tail) = std::mem::take(&mut rest).split_at_mut(taken as usize);
                pieces.push(ReadPiece::new(offset, own));
                (rest, left, offset) = (tail, left - taken, offset.saturating_add(taken));
            }
        }
        self.read_pieces(&mut pieces).await
    }

    /// Writes the buffers to a list of extents of the file, in any order. Where extents overlap,
    /// the later one is stored. If the buffers are shorter than the list, the last extents are not
    /// written. Returns the number of written bytes.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn write_list(&self, extents: &[Extent], buffers: &[IoSlice<'_>]) -> Result<usize> {
        if ascends(extents) {
            self.check_end(extents)?;
            return self.write_ascending(extents, buffers).await;
        }
        let mut memory = buffers.iter().map(|buffer| &buffer[..]);
        let mut rest: &[u8] = &[];
        let mut pieces = Vec::new();
        for extent in extents {
            let (mut offset, mut left) = (extent.offset, extent.bytes);
            while left > 0 {
                if rest.is_empty() {
                    let Some(next) = memory.next() else { break };
                    rest = next;
                    continue;
                }
                let taken = left.min(rest.len() as u64);
                let (own, tail) = rest.split_at(taken as usize);
                pieces.push(WritePiece::new(offset, own));
                (rest, left, offset) = (tail, left - taken, offset.saturating_add(taken));
            }
        }
        self.write_pieces(&pieces).await
    }

    async fn read_ascending(
        &self,
        extents: &[Extent],
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<usize> {
        let mut done = 0;
        for (view, start, bytes) in self.calls_of(&below_the_largest(extents))? {
            let mut rest = advanced_mut(buffers, done, bytes);
            let wanted: usize = rest.iter().map(|buffer| buffer.len()).sum();
            let got = self.read_at(&view, start, &mut rest).await?;
            done += got;
            if got < wanted || (wanted as u64) < bytes {
                break;
            }
        }
        Ok(done)
    }

    async fn write_ascending(&self, extents: &[Extent], buffers: &[IoSlice<'_>]) -> Result<usize> {
        let mut done = 0;
        for (view, start, bytes) in self.calls_of(extents)? {
            done += self.write_at(&view, start, &advanced(buffers, done, bytes)).await?;
        }
        Ok(done)
    }

    /// The calls for an ascending list: view, position, bytes.
    fn calls_of(&self, extents: &[Extent]) -> Result<Vec<(FileView, u64, u64)>> {
        let call = |list: &[Extent]| {
            let (view, start) = strided_view(list).unwrap_or_else(|| (View::extents(list), 0));
            let view =
                FileView::new(view).map_err(|error| error.during("read or write", self.path()))?;
            Ok((view, start, list.iter().map(|extent| extent.bytes).sum()))
        };
        match strided_view(extents) {
            Some(_) => Ok(vec![call(extents)?]),
            None => extents.chunks(LIST_EXTENTS_MAX).map(call).collect(),
        }
    }

    /// Nothing of a list is written if some of it cannot be written.
    fn check_end(&self, extents: &[Extent]) -> Result<()> {
        let passes = |extent: &&Extent| {
            extent.bytes > 0 && extent.offset.saturating_add(extent.bytes) > FILE_BYTES_MAX
        };
        let Some(Extent { offset, bytes }) = extents.iter().find(passes) else { return Ok(()) };
        let why = format!("{bytes} bytes from offset {offset} go past byte {FILE_BYTES_MAX}");
        Err(Error::new(Status::TooLarge, why)
            .with_hint("a smaller offset")
            .during("write", self.path()))
    }
}

/// Whether a list ascends, without overlaps and without empty extents.
fn ascends(extents: &[Extent]) -> bool {
    let end =
        |extent: &Extent| extent.offset.checked_add(extent.bytes).filter(|_| extent.bytes > 0);
    extents.iter().all(|extent| end(extent).is_some())
        && extents.is_sorted_by(|before, after| end(before).is_some_and(|end| end <= after.offset))
}

/// An ascending list without the parts past the largest file.
fn below_the_largest(extents: &[Extent]) -> std::borrow::Cow<'_, [Extent]> {
    let end = |extent: &Extent| extent.offset.saturating_add(extent.bytes);
    match extents.last() {
        Some(last) if end(last) > FILE_BYTES_MAX => {
            let below = extents.iter().filter(|extent| extent.offset < FILE_BYTES_MAX);
            below
                .map(|extent| Extent {
                    bytes: extent.bytes.min(FILE_BYTES_MAX - extent.offset),
                    ..*extent
                })
                .collect()
        }
        _ => extents.into(),
    }
}

/// The memory of each extent, in order.
fn own_memory<'p>(laid: &[PlacedExtent], pieces: &'p mut [ReadPiece<'_>]) -> Vec<IoSliceMut<'p>> {
    // The unused rest of each piece's memory, and where it begins: the extents of a piece ascend.
    let mut rest: Vec<(u64, &mut [u8])> =
        pieces.iter_mut().map(|piece| (0, &mut *piece.memory)).collect();
    let own = |run: &PlacedExtent| {
        let (from, memory) = &mut rest[run.piece];
        let (_, left) = std::mem::take(memory).split_at_mut((run.at - *from) as usize);
        let (own, left) = left.split_at_mut(run.bytes as usize);
        (*from, *memory) = (run.at + run.bytes, left);
        IoSliceMut::new(own)
    };
    laid.iter().map(own).collect()
}

/// The end of the file if `got` bytes of the extents came; past everything if all came.
fn end_of(laid: &[PlacedExtent], mut got: u64) -> u64 {
    for run in laid {
        if got < run.bytes {
            return run.offset + got;
        }
        got -= run.bytes;
    }
    u64::MAX
}

/// Copies bytes to every piece that were read for another piece, and counts the bytes of each.
fn share(laid: &[PlacedExtent], end: u64, pieces: &mut [ReadPiece<'_>]) {
    let mut runs_bytes = vec![0; pieces.len()];
    laid.iter().for_each(|run| runs_bytes[run.piece] += run.bytes);
    for at in 0..pieces.len() {
        let (offset, piece_bytes) = (pieces[at].offset, pieces[at].memory.len() as u64);
        let mine = end.saturating_sub(offset).min(piece_bytes);
        pieces[at].bytes = mine as usize;
        if runs_bytes[at] < piece_bytes {
            share_with(at, laid, mine, pieces);
        }
    }
}

/// Copies those of the first `mine` bytes of a piece that were read for others.
fn share_with(at: usize, laid: &[PlacedExtent], mine: u64, pieces: &mut [ReadPiece<'_>]) {
    let offset = pieces[at].offset;
    let first = laid.partition_point(|run| run.offset + run.bytes <= offset);
    for run in laid[first..]
        .iter()
        .take_while(|run| run.offset < offset + mine)
        .filter(|run| run.piece != at)
    {
        let (from, to) = (run.offset.max(offset), (run.offset + run.bytes).min(offset + mine));
        let (source, target) = ((run.at + from - run.offset) as usize, (from - offset) as usize);
        // The indices differ, so both exist.
        if let Ok([theirs, mine]) = pieces.get_disjoint_mut([run.piece, at]) {
            let bytes = (to - from) as usize;
            mine.memory[target..target + bytes]
                .copy_from_slice(&theirs.memory[source..source + bytes]);
        }
    }
}

/// The buffers from byte `skip`, at most `bytes` bytes.
pub(super) fn advanced<'b>(
    buffers: &'b [IoSlice<'_>],
    mut skip: usize,
    mut bytes: u64,
) -> Vec<IoSlice<'b>> {
    let mut rest = Vec::with_capacity(buffers.len());
    for buffer in buffers {
        let skipped = skip.min(buffer.len());
        let taken = bytes.min((buffer.len() - skipped) as u64) as usize;
        (skip, bytes) = (skip - skipped, bytes - taken as u64);
        if taken > 0 {
            rest.push(IoSlice::new(&buffer[skipped..skipped + taken]));
        }
    }
    rest
}

/// As [`advanced`], for receiving.
pub(super) fn advanced_mut<'b>(
    buffers: &'b mut [IoSliceMut<'_>],
    mut skip: usize,
    mut bytes: u64,
) -> Vec<IoSliceMut<'b>> {
    let mut rest = Vec::with_capacity(buffers.len());
    for buffer in buffers {
        let skipped = skip.min(buffer.len());
        let taken = bytes.min((buffer.len() - skipped) as u64) as usize;
        (skip, bytes) = (skip - skipped, bytes - taken as u64);
        if taken > 0 {
            rest.push(IoSliceMut::new(&mut buffer[skipped..skipped + taken]));
        }
    }
    rest
}
