//! Converts pointers and counts from C to Rust types, and checks them as far as possible.
//!
//! Every function here relies on one fact that cannot be checked. A pointer that is not NULL points
//! to as much memory as its type and its count say, as long as the call lasts.

use std::{
    ffi::{CStr, OsStr, c_char},
    io::{IoSlice, IoSliceMut},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    slice,
};

use super::failure::{Failure, Outcome};

/// The bytes of a string, without the zero byte that ends it.
///
/// # Safety
/// `text` is NULL, or a string that ends with a zero byte.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Outcome<&'a [u8]> {
    // SAFETY: the caller's promise.
    unsafe { optional_text(text) }.ok_or_else(|| null(name))
}

/// The same; `None` for NULL.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional_text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: not NULL, and by the caller's promise it ends with a zero byte.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// A path of this host; `None` for NULL.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional_path(text: *const c_char) -> Option<PathBuf> {
    // SAFETY: the caller's promise.
    unsafe { optional_text(text) }.map(|bytes| PathBuf::from(OsStr::from_bytes(bytes)))
}

/// The value that a pointer points to.
///
/// # Safety
/// `place` is NULL, or points to a `T` that nothing writes during the call.
pub(crate) unsafe fn value<'a, T>(place: *const T, name: &str) -> Outcome<&'a T> {
    check(place, 1, name)?;
    // SAFETY: not NULL and aligned; the rest is the caller's promise.
    Ok(unsafe { &*place })
}

/// Stores a result where the caller asked for it.
///
/// # Safety
/// `place` is NULL, or points to memory for a `T` that nothing else uses during the call.
pub(crate) unsafe fn put<T>(place: *mut T, value: T, name: &str) -> Outcome<()> {
    check(place, 1, name)?;
    // SAFETY: not NULL and aligned; the rest is the caller's promise. The old content is not
    // dropped: it may be uninitialized.
    unsafe { place.write(value) };
    Ok(())
}

/// An array to read.
///
/// # Safety
/// `first` is NULL, or points to `count` values of `T` that nothing writes during the call.
pub(crate) unsafe fn array<'a, T>(first: *const T, count: usize, name: &str) -> Outcome<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check(first, count, name)?;
    // SAFETY: not NULL, aligned, of a length that memory can have; the rest is the caller's
    // promise.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// Memory to fill.
///
/// # Safety
/// `first` is NULL, or points to `bytes` bytes that nothing else uses during the call.
pub(crate) unsafe fn memory<'a>(first: *mut u8, bytes: usize, name: &str) -> Outcome<&'a mut [u8]> {
    if bytes == 0 {
        return Ok(&mut []);
    }
    check(first, bytes, name)?;
    // SAFETY: not NULL, of a length that memory can have; the rest is the caller's promise. C
    // guarantees that its memory holds some value.
    Ok(unsafe { slice::from_raw_parts_mut(first, bytes) })
}

/// Buffers of an iovec array, to write from.
///
/// # Safety
/// The array as for [`array`], and each of its buffers too.
pub(crate) unsafe fn io_slices<'a>(
    first: *const libc::iovec,
    count: usize,
) -> Outcome<Vec<IoSlice<'a>>> {
    // SAFETY: the caller's promise.
    let vector = unsafe { array(first, count, "iov") }?;
    check_total(vector.iter().map(|piece| piece.iov_len))?;
    let piece = |piece: &libc::iovec| {
        // SAFETY: the caller's promise.
        unsafe { array(piece.iov_base.cast::<u8>().cast_const(), piece.iov_len, "iov_base") }
            .map(IoSlice::new)
    };
    vector.iter().map(piece).collect()
}

/// Buffers of an iovec array, to fill.
///
/// # Safety
/// The array as for [`array`], each of its buffers as for [`memory`]; buffers do not overlap.
pub(crate) unsafe fn io_slices_mut<'a>(
    first: *const libc::iovec,
    count: usize,
) -> Outcome<Vec<IoSliceMut<'a>>> {
    // SAFETY: the caller's promise.
    let vector = unsafe { array(first, count, "iov") }?;
    check_total(vector.iter().map(|piece| piece.iov_len))?;
    let piece = |piece: &libc::iovec| {
        // SAFETY: the caller's promise.
        unsafe { memory(piece.iov_base.cast(), piece.iov_len, "iov_base") }.map(IoSliceMut::new)
    };
    vector.iter().map(piece).collect()
}

/// Fails when the lengths add up to more than ssize_t can hold.
pub(crate) fn check_total(lengths: impl Iterator<Item = usize>) -> Outcome<()> {
    let sum = lengths.fold(0usize, usize::saturating_add);
    if sum > isize::MAX as usize {
        Err(Failure::invalid("the lengths add up to more bytes than ssize_t can hold"))
    } else {
        Ok(())
    }
}

/// A position in a file or in a view's stream.
pub(crate) fn position(value: i64, name: &str) -> Outcome<u64> {
    u64::try_from(value).map_err(|_| Failure::invalid(format!("{name} is negative: {value}")))
}

fn check<T>(first: *const T, count: usize, name: &str) -> Outcome<()> {
    if first.is_null() {
        return Err(null(name));
    }
    if !first.is_aligned() {
        return Err(Failure::invalid(format!("{name} is not aligned for its type")));
    }
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
        _ => Err(Failure::invalid(format!("{name}: {count} of them are larger than any memory"))),
    }
}

fn null(name: &str) -> Failure {
    Failure::new(libc::EFAULT, format!("{name} is NULL"))
}
