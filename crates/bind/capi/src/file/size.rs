//! The size of a file and its allocated space.

use std::ffi::c_int;

use super::writable;
use crate::ffi::{call, pointers::position, table};

/// As ftruncate(2): truncates the file to `bytes` bytes, or extends it with zeros, whatever the
/// view.
#[unsafe(no_mangle)]
pub extern "C" fn braid_ftruncate(file: c_int, bytes: i64) -> c_int {
    call(|| {
        writable(file)?.file().set_len(position(bytes, "bytes")?)?;
        Ok(0)
    })
}

/// The current size in bytes of the file (not of the view), or -1.
#[unsafe(no_mangle)]
pub extern "C" fn braid_size(file: c_int) -> i64 {
    call(|| Ok(table::file(file)?.file().size()?.cast_signed()))
}

/// As posix_fallocate(3): reserves disk space for a range of the file, and extends the file to the
/// end of the range. With `keep_size` the size does not change.
#[unsafe(no_mangle)]
pub extern "C" fn braid_allocate(file: c_int, offset: i64, bytes: i64, keep_size: c_int) -> c_int {
    call(|| {
        let (offset, bytes) = (position(offset, "offset")?, position(bytes, "bytes")?);
        writable(file)?.file().allocate(offset, bytes, keep_size != 0)?;
        Ok(0)
    })
}

/// Makes a range of the file read as zeros and frees its disk space. The size does not change.
#[unsafe(no_mangle)]
pub extern "C" fn braid_punch_hole(file: c_int, offset: i64, bytes: i64) -> c_int {
    call(|| {
        let (offset, bytes) = (position(offset, "offset")?, position(bytes, "bytes")?);
        writable(file)?.file().punch_hole(offset, bytes)?;
        Ok(0)
    })
}
