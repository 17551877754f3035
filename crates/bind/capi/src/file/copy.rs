//! Copies between open files.

use std::ffi::c_int;

use libc::ssize_t;

use super::{readable, writable};
use crate::ffi::{call, pointers::position};

/// As copy_file_range(2): copies up to `bytes` bytes from offset `from_at` of `from` to offset
/// `to_at` of `to`. The I/O daemons copy where both files have the same placement; otherwise the
/// bytes pass through this program. Offsets are those of the files, whatever their views; cursors
/// do not move. Returns the number of bytes copied. It is smaller than `bytes` where the source
/// ends and where one call would take too long, and 0 at the end of the source. EINVAL when the
/// ranges are in one file and overlap.
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
        // No more than the result can hold.
        let bytes = bytes.min(isize::MAX as usize) as u64;
        Ok(target.file().copy_range_from(&source.file(), from_at, to_at, bytes)? as ssize_t)
    })
}
