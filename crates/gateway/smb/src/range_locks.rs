//! Byte-range locks of all opens of this gateway, which READ and WRITE respect. MS-FSA 2.1.4.10.
//!
//! Locks of mounts, NFS and other gateways exclude each other's, but stop no READ or WRITE here:
//! they are advisory, and looking them up would cost each READ a call.
//!
//! Invariant: an open has the same locks here as in its own list.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use braid_smb_wire::NtStatus;

use crate::file_state::StreamKey;

/// A byte-range lock of an open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeLock {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes, maybe none.
    pub length: u64,
    /// Exclusive, or shared with other shared locks.
    pub exclusive: bool,
}

impl RangeLock {
    /// The last byte; none for a lock of no bytes.
    pub fn last(&self) -> Option<u64> {
        Some(self.offset + self.length.checked_sub(1)?)
    }

    /// Whether ranges overlap. One of no bytes overlaps with what it is inside of, but not with
    /// what begins there.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self.last(), other.last()) {
            (Some(last), Some(others)) => self.offset <= others && other.offset <= last,
            (None, Some(last)) => other.offset < self.offset && self.offset <= last,
            (Some(last), None) => self.offset < other.offset && other.offset <= last,
            (None, None) => false,
        }
    }
}

/// What is done with bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// They are read.
    Read,
    /// They are written.
    Write,
}

/// The locks of each file.
#[derive(Debug, Default)]
pub struct RangeLocks {
    files: Mutex<HashMap<StreamKey, Vec<(u64, RangeLock)>>>,
    /// All locks: mostly none, so that nothing is locked or looked up.
    count: AtomicUsize,
}

impl RangeLocks {
    /// Adds a lock of an open.
    pub fn add(&self, file: StreamKey, open: u64, lock: RangeLock) {
        let mut files = self.files();
        files.entry(file).or_default().push((open, lock));
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Adds locks of an open of a stream, all or none: no other server knows of them.
    ///
    /// # Errors
    /// `LOCK_NOT_GRANTED` if a lock of another open conflicts.
    pub fn add_all(
        &self,
        stream: StreamKey,
        open: u64,
        locks: &[RangeLock],
    ) -> Result<(), NtStatus> {
        let mut files = self.files();
        let held = files.get(&stream).map_or(&[][..], Vec::as_slice);
        let conflicts = |lock: &RangeLock| {
            held.iter().any(|(owner, held)| {
                *owner != open && (held.exclusive || lock.exclusive) && held.overlaps(lock)
            })
        };
        if locks.iter().any(conflicts) {
            return Err(NtStatus::LOCK_NOT_GRANTED);
        }
        files.entry(stream).or_default().extend(locks.iter().map(|lock| (open, *lock)));
        self.count.fetch_add(locks.len(), Ordering::Release);
        Ok(())
    }

    /// Removes a lock of an open.
    pub fn remove(&self, file: StreamKey, open: u64, lock: RangeLock) {
        self.remove_where(file, 1, |held| *held == (open, lock));
    }

    /// Removes all locks of an open.
    pub fn remove_all(&self, file: StreamKey, open: u64) {
        self.remove_where(file, usize::MAX, |(owner, _)| *owner == open);
    }

    fn remove_where(&self, file: StreamKey, most: usize, is: impl Fn(&(u64, RangeLock)) -> bool) {
        let mut files = self.files();
        let Some(locks) = files.get_mut(&file) else { return };
        let mut removed = 0;
        locks.retain(|held| {
            let goes = removed < most && is(held);
            removed += usize::from(goes);
            !goes
        });
        if locks.is_empty() {
            files.remove(&file);
        }
        self.count.fetch_sub(removed, Ordering::Release);
    }

    /// Whether a lock conflicts with one of another open because one of them has no bytes: the
    /// metadata server does not know of those.
    pub fn is_excluded(&self, file: StreamKey, open: u64, lock: &RangeLock) -> bool {
        let excludes = |(owner, held): &(u64, RangeLock)| {
            *owner != open
                && (held.length == 0 || lock.length == 0)
                && (held.exclusive || lock.exclusive)
                && held.overlaps(lock)
        };
        self.files().get(&file).is_some_and(|locks| locks.iter().any(excludes))
    }

    /// Whether a lock covers one of the first `bytes` bytes of a file.
    pub fn is_locked(&self, file: StreamKey, bytes: u64) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let covers = |(_, lock): &(u64, RangeLock)| lock.length > 0 && lock.offset < bytes;
        self.files().get(&file).is_some_and(|locks| locks.iter().any(covers))
    }

    /// Checks that an open may read or write bytes.
    ///
    /// # Errors
    /// `FILE_LOCK_CONFLICT`.
    pub fn check(
        &self,
        file: StreamKey,
        open: u64,
        (offset, length): (u64, u64),
        access: Access,
    ) -> Result<(), NtStatus> {
        if length == 0 || self.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let length = length.min((u64::MAX - offset).saturating_add(1));
        let bytes = RangeLock { offset, length, exclusive: false };
        let excludes = |(owner, lock): &(u64, RangeLock)| {
            // A shared lock keeps everybody from writing, also its owner.
            let concerns = match lock.exclusive {
                true => *owner != open,
                false => access == Access::Write,
            };
            concerns && lock.length > 0 && lock.overlaps(&bytes)
        };
        match self.files().get(&file).is_some_and(|locks| locks.iter().any(excludes)) {
            true => Err(NtStatus::FILE_LOCK_CONFLICT),
            false => Ok(()),
        }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<StreamKey, Vec<(u64, RangeLock)>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use braid_share::FileIndex;

    use super::*;

    const FILE: StreamKey = StreamKey { file: FileIndex(7), stream: 0 };

    fn range(offset: u64, length: u64, exclusive: bool) -> RangeLock {
        RangeLock { offset, length, exclusive }
    }

    #[test]
    fn an_exclusive_lock_excludes_others_and_a_shared_one_all_writers() {
        let locks = RangeLocks::default();
        locks.add(FILE, 1, range(0, 10, true));
        locks.add(FILE, 1, range(20, 10, false));
        assert!(locks.is_locked(FILE, 1) && !locks.is_locked(FILE, 0));
        assert!(!locks.is_locked(StreamKey::of_file(FileIndex(8)), 1));
        let conflict = Err(NtStatus::FILE_LOCK_CONFLICT);
        for (open, bytes, access, result) in [
            (1, (0, 10), Access::Write, Ok(())),
            (2, (9, 1), Access::Read, conflict),
            (2, (10, 10), Access::Write, Ok(())),
            (2, (15, 10), Access::Read, Ok(())),
            (2, (15, 10), Access::Write, conflict),
            (1, (29, 1), Access::Write, conflict),
            (2, (5, 0), Access::Read, Ok(())),
            (2, (5, u64::MAX), Access::Read, conflict),
        ] {
            let checked = locks.check(FILE, open, bytes, access);
            assert_eq!(checked, result, "{open} {bytes:?} {access:?}");
        }
        assert_eq!(locks.check(StreamKey { stream: 1, ..FILE }, 2, (0, 1), Access::Read), Ok(()));
    }

    #[test]
    fn a_lock_of_no_bytes_conflicts_inside_of_another_only() {
        let locks = RangeLocks::default();
        locks.add(FILE, 1, range(10, 10, true));
        locks.add(FILE, 1, range(30, 0, false));
        for (lock, result) in [
            (range(10, 0, true), false),
            (range(15, 0, false), true),
            (range(20, 0, true), false),
            (range(25, 10, true), true),
            (range(25, 10, false), false),
            (range(30, 10, true), false),
            (range(10, 10, true), false),
        ] {
            assert_eq!(locks.is_excluded(FILE, 2, &lock), result, "{lock:?}");
            assert!(!locks.is_excluded(FILE, 1, &lock), "its own");
        }
    }

    #[test]
    fn locks_are_removed_one_by_one_or_with_their_open() {
        let locks = RangeLocks::default();
        for (open, lock) in
            [(1, range(0, 1, true)), (2, range(5, 1, false)), (2, range(5, 1, false))]
        {
            locks.add(FILE, open, lock);
        }
        locks.remove(FILE, 2, range(5, 1, false));
        assert!(locks.check(FILE, 1, (5, 1), Access::Write).is_err(), "one is left");
        locks.remove_all(FILE, 2);
        assert_eq!(locks.check(FILE, 1, (5, 1), Access::Write), Ok(()));
        locks.remove(FILE, 2, range(5, 1, false));
        locks.remove_all(FILE, 1);
        assert!(locks.files().is_empty());
        assert_eq!(locks.count.load(Ordering::Relaxed), 0);
    }
}
