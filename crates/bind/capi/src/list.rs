//! List I/O: one call with many pieces, in any order. Each piece is a range of the file and a
//! buffer.

use std::ffi::{c_int, c_void};

use braid_client::{ReadPiece, WritePiece};
use libc::ssize_t;

use crate::{
    ffi::{
        Failure, Outcome, call,
        pointers::{array, check_total, memory, position},
    },
    file::{OpenFile, readable, writable},
};

/// One piece: a range of the file, whatever the view, and the buffer for it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct braid_piece {
    /// File offset, in bytes.
    pub offset: i64,
    /// The buffer.
    pub memory: *mut c_void,
    /// Length, in bytes.
    pub bytes: usize,
}

/// Reads all pieces, with one request to each I/O daemon, whatever their number. Ranges of the file
/// may overlap; buffers must not. Returns the number of bytes read. It is smaller than asked for
/// only where pieces are past the end of the file; there the buffers do not change.
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

/// Writes all pieces, with one request to each I/O daemon, whatever their number. Where ranges
/// overlap, the file gets the bytes of the later piece of the list.
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
/// The memory of each piece as [`memory`]; no two pieces share memory.
pub(crate) unsafe fn read(open: &OpenFile, pieces: &[braid_piece]) -> Outcome<ssize_t> {
    let piece = |piece: &braid_piece| {
        // SAFETY: the caller's promise.
        let memory = unsafe { memory(piece.memory.cast(), piece.bytes, "memory") }?;
        Ok(ReadPiece::new(offset(piece)?, memory))
    };
    check_total(pieces.iter().map(|piece| piece.bytes))?;
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
    check_total(pieces.iter().map(|piece| piece.bytes))?;
    let pieces = pieces.iter().map(piece).collect::<Outcome<Vec<_>>>()?;
    Ok(open.file().write_pieces(&pieces)? as ssize_t)
}

fn offset(piece: &braid_piece) -> Outcome<u64> {
    let offset = position(piece.offset, "offset")?;
    let end = offset.checked_add(piece.bytes as u64).filter(|end| i64::try_from(*end).is_ok());
    let past = || {
        Failure::new(
            libc::EFBIG,
            format!("list: the piece at {offset} ends beyond the largest file size"),
        )
    };
    end.map(|_| offset).ok_or_else(past)
}
