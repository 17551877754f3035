//! Copying between open files.

use std::ffi::c_int;

use libc::ssize_t;

use super::{readable, writable};
use crate::border::{call, pointers::position};

/// As copy_file_range(2): copies up to `bytes` bytes from `from` at `from_at` to `to` at `to_at`, within the I/O daemons where both files
/// lie alike on them, else through this program. Positions are the files', whatever the views; cursors stay. Returns how many bytes were
/// copied: fewer where the source ends, and where one call would take too long, 0 at the source's end; EINVAL when the ranges are of one
/// file and overlap.
#[unsafe(no_mangle)]
pub extern "C" fn braid_copy_range(
    from: c_int,
    from_at: i64,
    to: c_int,
    to_at: i64,
    bytes: usize,
) -> ssize_t {
    call(|| {
        let (source, target) = (readable(from)?, writable(to)?);
        let (from_at, to_at) = (position(from_at, "from_at")?, position(to_at, "to_at")?);
        // No more than the result can say.
        let bytes = bytes.min(isize::MAX as usize) as u64;
        Ok(target.file().copy_range_from(&source.file(), from_at, to_at, bytes)? as ssize_t)
    })
}
