//! Reads at the cursor or at a position, into one buffer or several.

use std::{
    ffi::{c_int, c_void},
    io::{IoSliceMut, Read},
};

use libc::{iovec, ssize_t};

use super::readable;
use crate::ffi::{
    Outcome, call,
    pointers::{io_slices_mut, memory, position},
};

/// As read(2), at the cursor of the view. Returns fewer bytes than asked for only at the end of the
/// file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_read(file: c_int, buffer: *mut c_void, bytes: usize) -> ssize_t {
    call(|| {
        let open = readable(file)?;
        // SAFETY: the promise of C's caller, see `pointers`.
        let buffer = unsafe { memory(buffer.cast(), bytes, "buffer") }?;
        Ok((&*open.file()).read(buffer)? as ssize_t)
    })
}

/// As readv(2), at the cursor of the view, with any number of buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_readv(file: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    call(|| {
        let open = readable(file)?;
        // SAFETY: as above.
        let mut buffers = unsafe { io_slices_mut(iov, super::seek::iov_count(count)?) }?;
        Ok((&*open.file()).read_vectored(&mut buffers)? as ssize_t)
    })
}

/// As pread(2), at a position of the view. The cursor does not move.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pread(
    file: c_int,
    buffer: *mut c_void,
    bytes: usize,
    at: i64,
) -> ssize_t {
    call(|| {
        // SAFETY: as above.
        let buffer = unsafe { memory(buffer.cast(), bytes, "buffer") }?;
        read_at(file, &mut [IoSliceMut::new(buffer)], at)
    })
}

/// As preadv(2), at a position of the view, with any number of buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_preadv(
    file: c_int,
    iov: *const iovec,
    count: c_int,
    at: i64,
) -> ssize_t {
    call(|| {
        // SAFETY: as above.
        let mut buffers = unsafe { io_slices_mut(iov, super::seek::iov_count(count)?) }?;
        read_at(file, &mut buffers, at)
    })
}

fn read_at(file: c_int, buffers: &mut [IoSliceMut<'_>], at: i64) -> Outcome<ssize_t> {
    let open = readable(file)?;
    Ok(open.file().read_vectored_at(buffers, position(at, "position")?)? as ssize_t)
}
