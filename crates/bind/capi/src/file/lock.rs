//! Locks on byte ranges of a file. Every client of the cluster sees them, mounts included.

use std::{
    ffi::c_int,
    sync::atomic::{AtomicU64, Ordering},
};

use braid_client::{LockCancelHandle, LockRange, LockRequest, LockSpace};

use super::OpenFile;
use crate::ffi::{Failure, Outcome, call, pointers::position, table};

/// Lock owners are numbers within a session: those of one process must differ.
pub(super) fn new_lock_owner() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Locks a byte range of the file, as fcntl(2) does for an open file description (F_OFD_SETLK):
/// `bytes` from `offset`, and without end when `bytes` is 0. The lock is exclusive, or shared with
/// other readers. With `wait` the call waits without limit; without it, EAGAIN reports a
/// conflicting lock. Offsets are those of the file, whatever the view. The lock belongs to the
/// descriptor and ends with it.
#[unsafe(no_mangle)]
pub extern "C" fn braid_lock(
    file: c_int,
    offset: i64,
    bytes: i64,
    exclusive: c_int,
    wait: c_int,
) -> c_int {
    call(|| {
        let open = table::file(file)?;
        let (start, last) = range(offset, bytes)?;
        let (index, pid) = (open.file().index(), std::process::id());
        let lock = LockRequest {
            file: index,
            space: LockSpace::Range,
            owner: open.lock_owner,
            pid,
            start,
            last,
            exclusive: exclusive != 0,
        };
        if wait != 0 {
            open.cluster.client.lock_range(&lock, &LockCancelHandle::new())?;
            return Ok(0);
        }
        match open.cluster.client.try_lock_range(&lock)? {
            None => Ok(0),
            Some(holder) => Err(Failure::new(
                libc::EAGAIN,
                format!(
                    "lock: process {} has locked bytes {} to {}; try: again later, or with wait",
                    holder.pid, holder.start, holder.last
                ),
            )),
        }
    })
}

/// Unlocks a byte range that this descriptor has locked.
#[unsafe(no_mangle)]
pub extern "C" fn braid_unlock(file: c_int, offset: i64, bytes: i64) -> c_int {
    call(|| {
        let open = table::file(file)?;
        let (start, last) = range(offset, bytes)?;
        let range = LockRange {
            file: open.file().index(),
            space: LockSpace::Range,
            owner: open.lock_owner,
            start,
            last,
        };
        open.cluster.client.unlock_range(&range)?;
        Ok(0)
    })
}

/// First and last byte.
fn range(offset: i64, bytes: i64) -> Outcome<(u64, u64)> {
    let (start, bytes) = (position(offset, "offset")?, position(bytes, "bytes")?);
    let last = match bytes.checked_sub(1) {
        None => i64::MAX.unsigned_abs(),
        Some(more) => start.saturating_add(more).min(i64::MAX.unsigned_abs()),
    };
    Ok((start, last))
}

/// Releases the locks of a descriptor that is closed. If that fails now, the client releases them
/// when the metadata server is reachable again. So it is no error of the close.
pub(super) fn release_locks(open: &OpenFile) {
    let (client, file) = (&open.cluster.client, open.file().index());
    if client.has_locks(file, open.lock_owner) {
        let _ = client.unlock_owners(file, &[(LockSpace::Range, open.lock_owner)]);
    }
}
