//! Writes at the cursor or at a position, from one buffer or several.

use std::{
    ffi::{c_int, c_void},
    io::{IoSlice, Write},
};

use libc::{iovec, ssize_t};

use super::writable;
use crate::ffi::{
    Outcome, call,
    pointers::{array, io_slices, position},
};

/// As write(2), at the cursor of the view. Writes all bytes, or returns -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_write(file: c_int, buffer: *const c_void, bytes: usize) -> ssize_t {
    call(|| {
        let open = writable(file)?;
        // SAFETY: the promise of C's caller, see `pointers`.
        let buffer: &[u8] = unsafe { array(buffer.cast(), bytes, "buffer") }?;
        Ok((&*open.file()).write(buffer)? as ssize_t)
    })
}

/// As writev(2), at the cursor of the view, with any number of buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_writev(file: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    call(|| {
        let open = writable(file)?;
        // SAFETY: as above.
        let buffers = unsafe { io_slices(iov, super::seek::iov_count(count)?) }?;
        Ok((&*open.file()).write_vectored(&buffers)? as ssize_t)
    })
}

/// As pwrite(2), at a position of the view. The cursor does not move.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pwrite(
    file: c_int,
    buffer: *const c_void,
    bytes: usize,
    at: i64,
) -> ssize_t {
    call(|| {
        // SAFETY: as above.
        let buffer = unsafe { array(buffer.cast(), bytes, "buffer") }?;
        write_at(file, &[IoSlice::new(buffer)], at)
    })
}

/// As pwritev(2), at a position of the view, with any number of buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pwritev(
    file: c_int,
    iov: *const iovec,
    count: c_int,
    at: i64,
) -> ssize_t {
    call(|| {
        // SAFETY: as above.
        let buffers = unsafe { io_slices(iov, super::seek::iov_count(count)?) }?;
        write_at(file, &buffers, at)
    })
}

fn write_at(file: c_int, buffers: &[IoSlice<'_>], at: i64) -> Outcome<ssize_t> {
    let open = writable(file)?;
    Ok(open.file().write_vectored_at(buffers, position(at, "position")?)? as ssize_t)
}
