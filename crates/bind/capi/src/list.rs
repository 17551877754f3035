//! List I/O: one call with many pieces, each an offset of the file and a place in memory, in any order.

use std::ffi::{c_int, c_void};

use braid_client::{ReadPiece, WritePiece};
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
pub unsafe extern "C" fn braid_read_list(
    file: c_int,
    pieces: *const braid_piece,
    count: usize,
) -> ssize_t {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`; also below.
        let pieces = unsafe { array(pieces, count, "pieces") }?;
        // SAFETY: as above.
        unsafe { read(&*readable(file)?, pieces) }
    })
}

/// Writes all pieces: one request to each I/O daemon, however many there are. Where pieces overlap in the file the later one of the list
/// is there after it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_write_list(
    file: c_int,
    pieces: *const braid_piece,
    count: usize,
) -> ssize_t {
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
    let piece = |piece: &braid_piece| {
        // SAFETY: the caller's promise.
        let memory = unsafe { memory(piece.memory.cast(), piece.bytes, "memory") }?;
        Ok(ReadPiece::new(offset(piece)?, memory))
    };
    check_sum(pieces.iter().map(|piece| piece.bytes))?;
    let mut pieces = pieces.iter().map(piece).collect::<Outcome<Vec<_>>>()?;
    Ok(open.file().read_pieces(&mut pieces)? as ssize_t)
}

/// # Safety
/// The memory of each piece as [`array`].
pub(crate) unsafe fn write(open: &OpenFile, pieces: &[braid_piece]) -> Outcome<ssize_t> {
    let piece = |piece: &braid_piece| {
        // SAFETY: the caller's promise.
        let memory = unsafe { array(piece.memory.cast(), piece.bytes, "memory") }?;
        Ok(WritePiece::new(offset(piece)?, memory))
    };
    check_sum(pieces.iter().map(|piece| piece.bytes))?;
    let pieces = pieces.iter().map(piece).collect::<Outcome<Vec<_>>>()?;
    Ok(open.file().write_pieces(&pieces)? as ssize_t)
}

fn offset(piece: &braid_piece) -> Outcome<u64> {
    let offset = position(piece.offset, "offset")?;
    let end = offset.checked_add(piece.bytes as u64).filter(|end| i64::try_from(*end).is_ok());
    let past = || {
        Failure::new(libc::EFBIG, format!("list: the piece at {offset} ends past the largest file"))
    };
    end.map(|_| offset).ok_or_else(past)
}
