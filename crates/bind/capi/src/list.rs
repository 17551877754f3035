//! List I/O: one call with many pieces, each an offset of the file and a place in memory, in any order.

use std::{
    ffi::{c_int, c_void},
    io::{IoSlice, IoSliceMut},
};

use braid_client::Extent;
use libc::ssize_t;

use crate::{
    border::{
        Failure, Outcome, call,
        pointers::{array, check_sum, memory, position},
    },
    file::{OpenFile, readable, writable},
};

/// One piece: bytes of the file, whatever the view, and the memory that they go to or come from.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct braid_piece {
    /// Where in the file, in bytes.
    pub offset: i64,
    /// The memory.
    pub memory: *mut c_void,
    /// How many bytes.
    pub bytes: usize,
}

/// Reads all pieces: one request to each I/O daemon, however many there are. Pieces may overlap in the file; the memory of no two
/// may. Returns the bytes that were read: fewer than asked for only where pieces are past the end of the file, whose memory stays
/// as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_read_list(file: c_int, pieces: *const braid_piece, count: usize) -> ssize_t {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`; also below.
        let pieces = unsafe { array(pieces, count, "pieces") }?;
        // SAFETY: as above.
        unsafe { read(&*readable(file)?, pieces) }
    })
}

/// Writes all pieces: one request to each I/O daemon, however many there are. Pieces that overlap in the file are EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_write_list(file: c_int, pieces: *const braid_piece, count: usize) -> ssize_t {
    call(|| {
        // SAFETY: as above.
        let pieces = unsafe { array(pieces, count, "pieces") }?;
        // SAFETY: as above.
        unsafe { write(&*writable(file)?, pieces) }
    })
}

/// # Safety
/// The memory of each piece as [`memory`], no two the same.
pub(crate) unsafe fn read(open: &OpenFile, pieces: &[braid_piece]) -> Outcome<ssize_t> {
    let mut bytes = 0;
    for round in rounds(&ordered(pieces)?) {
        // SAFETY: the caller's promise.
        let buffer =
            |piece: &braid_piece| unsafe { memory(piece.memory.cast(), piece.bytes, "memory") }.map(IoSliceMut::new);
        let mut buffers = round.iter().map(buffer).collect::<Outcome<Vec<_>>>()?;
        bytes += open.file().read_list(&extents(&round), &mut buffers)?;
    }
    Ok(bytes as ssize_t)
}

/// # Safety
/// The memory of each piece as [`array`].
pub(crate) unsafe fn write(open: &OpenFile, pieces: &[braid_piece]) -> Outcome<ssize_t> {
    let mut rounds = rounds(&ordered(pieces)?);
    let Some(round) = rounds.pop() else { return Ok(0) };
    if !rounds.is_empty() {
        return Err(Failure::invalid("write list: pieces overlap in the file; try: a call for each"));
    }
    // SAFETY: the caller's promise.
    let buffer = |piece: &braid_piece| unsafe { array(piece.memory.cast(), piece.bytes, "memory") }.map(IoSlice::new);
    let buffers = round.iter().map(buffer).collect::<Outcome<Vec<_>>>()?;
    Ok(open.file().write_list(&extents(&round), &buffers)? as ssize_t)
}

/// The pieces that have bytes, in the order of the file.
fn ordered(pieces: &[braid_piece]) -> Outcome<Vec<braid_piece>> {
    check_sum(pieces.iter().map(|piece| piece.bytes))?;
    let mut ordered: Vec<braid_piece> = pieces.iter().filter(|piece| piece.bytes > 0).copied().collect();
    for piece in &ordered {
        let end = position(piece.offset, "offset")?.checked_add(piece.bytes as u64);
        end.filter(|end| i64::try_from(*end).is_ok()).ok_or_else(|| {
            Failure::new(libc::EFBIG, format!("list: the piece at {} ends past the largest file", piece.offset))
        })?;
    }
    ordered.sort_by_key(|piece| piece.offset);
    Ok(ordered)
}

/// Lists without overlap, each in the order of the file; one, when no pieces overlap.
fn rounds(ordered: &[braid_piece]) -> Vec<Vec<braid_piece>> {
    let mut rounds: Vec<(i64, Vec<braid_piece>)> = Vec::new();
    for piece in ordered {
        let end = piece.offset + piece.bytes as i64;
        match rounds.iter_mut().find(|(free, _)| *free <= piece.offset) {
            Some((free, round)) => {
                *free = end;
                round.push(*piece);
            }
            None => rounds.push((end, vec![*piece])),
        }
    }
    rounds.into_iter().map(|(_, round)| round).collect()
}

fn extents(round: &[braid_piece]) -> Vec<Extent> {
    round.iter().map(|piece| Extent { offset: piece.offset as u64, bytes: piece.bytes as u64 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: i64, bytes: usize) -> braid_piece {
        braid_piece { offset, memory: std::ptr::null_mut(), bytes }
    }

    #[test]
    fn pieces_in_any_order_without_overlap_are_one_list() {
        let pieces = [piece(20, 5), piece(0, 10), piece(7, 0), piece(10, 10)];
        let rounds = rounds(&ordered(&pieces).unwrap());
        assert_eq!(rounds.len(), 1);
        assert_eq!(extents(&rounds[0]).iter().map(|extent| extent.offset).collect::<Vec<_>>(), [0, 10, 20]);
    }

    #[test]
    fn pieces_that_overlap_are_read_in_lists_that_do_not() {
        let rounds = rounds(&ordered(&[piece(0, 10), piece(5, 10), piece(10, 2), piece(15, 1), piece(6, 1)]).unwrap());
        let offsets: Vec<Vec<i64>> =
            rounds.iter().map(|round| round.iter().map(|piece| piece.offset).collect()).collect();
        assert_eq!(offsets, [vec![0, 10, 15], vec![5], vec![6]]);
    }

    #[test]
    fn a_piece_past_the_largest_file_is_refused() {
        assert_eq!(ordered(&[piece(i64::MAX, 1)]).unwrap_err().errno, libc::EFBIG);
        assert_eq!(ordered(&[piece(-1, 1)]).unwrap_err().errno, libc::EINVAL);
    }
}
