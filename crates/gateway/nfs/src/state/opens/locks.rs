//! Lock states: the locks of a lock owner of one file, and the calls that use them.
//!
//! Linux sends LOCKU, then at the same time FREE_STATEID and a LOCK by the same lock owner. So
//! FREE_STATEID may arrive while a LOCK of the same lock state waits for the metadata server.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_nfs_wire::nfs4::{NfsResult, NfsStatus, StateId};
use bytes::Bytes;

use super::{KIND_LOCK, Known, OpenState, Sequence, States};

/// Ranges that one lock owner holds of one file (I9).
const RANGES_MAX: usize = 65_536;

/// The locks of a lock owner of one file.
#[derive(Debug)]
pub struct LockState<F> {
    pub(super) other: [u8; 12],
    /// The owner that the client named.
    pub owner: Bytes,
    /// The number of the owner at the metadata server.
    pub number: u64,
    /// The open by which it was locked.
    pub open: Arc<OpenState<F>>,
    /// One LOCK or LOCKU of the owner and file at a time.
    pub change: tokio::sync::Mutex<()>,
    inner: Mutex<LockInner>,
}

#[derive(Debug, Default)]
pub(super) struct LockInner {
    pub(super) sequence: Sequence,
    /// Disjoint ranges, first and last byte, that are locked.
    ranges: Vec<(u64, u64)>,
    /// Calls that use it now.
    uses: usize,
}

/// A call or a wait uses a lock state, which is not freed until this is dropped.
#[derive(Debug)]
pub struct LockUse<'a, F> {
    states: &'a States<F>,
    lock: Arc<LockState<F>>,
}

impl<F> LockUse<'_, F> {
    /// One more use, for a task that wraps it with [`States::used_by_task`].
    pub fn for_task(&self) -> Arc<LockState<F>> {
        let _states = self.states.lock();
        self.lock.inner().uses += 1;
        self.lock.clone()
    }
}

impl<F> Deref for LockUse<'_, F> {
    type Target = LockState<F>;

    fn deref(&self) -> &LockState<F> {
        &self.lock
    }
}

impl<F> Drop for LockUse<'_, F> {
    fn drop(&mut self) {
        let mut states = self.states.lock();
        let is_unknown = {
            let mut inner = self.lock.inner();
            inner.uses -= 1;
            // No client has its state id: the first LOCK failed.
            inner.uses == 0 && inner.sequence.0 == 0
        };
        if is_unknown {
            states.remove_lock(&self.lock);
        }
    }
}

impl<F> States<F> {
    /// The lock state of an owner and an open's file for a LOCK, made if it does not exist.
    pub fn lock_state(&self, owner: &Bytes, open: &Arc<OpenState<F>>) -> LockUse<'_, F> {
        let mut inner = self.lock();
        let key = (Bytes::copy_from_slice(owner), open.file.file);
        if let Some(known) = inner.locks.get(&key) {
            return self.used(known.clone());
        }
        let other = inner.other(self.epoch, KIND_LOCK);
        let number = Self::owner_number(&key.0);
        inner.owners.entry(number).or_insert_with(|| (key.0.clone(), 0)).1 += 1;
        let lock = Arc::new(LockState {
            other,
            owner: key.0.clone(),
            number,
            open: open.clone(),
            change: tokio::sync::Mutex::new(()),
            inner: Mutex::default(),
        });
        inner.by_other.insert(other, Known::Lock(lock.clone()));
        inner.locks.insert(key, lock.clone());
        self.used(lock)
    }

    /// A lock state for a LOCK or LOCKU.
    ///
    /// # Errors
    /// `BAD_STATEID` if it was freed meanwhile.
    pub fn use_lock(&self, lock: Arc<LockState<F>>) -> NfsResult<LockUse<'_, F>> {
        let inner = self.lock();
        if !inner.by_other.contains_key(&lock.other) {
            return Err(NfsStatus::BadStateId);
        }
        Ok(self.used(lock))
    }

    /// The use that [`LockUse::for_task`] counted.
    pub fn used_by_task(&self, lock: Arc<LockState<F>>) -> LockUse<'_, F> {
        LockUse { states: self, lock }
    }

    /// Called while the states are locked. Invariant 3.
    fn used(&self, lock: Arc<LockState<F>>) -> LockUse<'_, F> {
        lock.inner().uses += 1;
        LockUse { states: self, lock }
    }

    /// Frees a lock state. RFC 8881 18.38.3.
    ///
    /// # Errors
    /// `LOCKS_HELD` if it holds a lock, or if a call uses it (invariant 3).
    pub fn free_lock(&self, lock: &Arc<LockState<F>>) -> NfsResult<()> {
        let mut inner = self.lock();
        if lock.holds() || lock.inner().uses > 0 {
            return Err(NfsStatus::LocksHeld);
        }
        inner.remove_lock(lock);
        Ok(())
    }
}

impl<F> LockState<F> {
    pub(super) fn inner(&self) -> MutexGuard<'_, LockInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something is locked.
    pub fn holds(&self) -> bool {
        !self.inner().ranges.is_empty()
    }

    /// The ranges that are locked.
    pub(super) fn ranges(&self) -> Vec<(u64, u64)> {
        self.inner().ranges.clone()
    }

    /// Whether something in a range is locked.
    pub fn overlaps(&self, start: u64, last: u64) -> bool {
        self.inner().ranges.iter().any(|(first, end)| *first <= last && start <= *end)
    }

    /// Checks whether there may be one more range.
    ///
    /// # Errors
    /// `DELAY`, as when the metadata server's table of locks is full.
    pub fn check_ranges(&self) -> NfsResult<()> {
        if self.inner().ranges.len() < RANGES_MAX { Ok(()) } else { Err(NfsStatus::Delay) }
    }

    /// Notes a lock: the new state id.
    pub fn locked(&self, start: u64, last: u64) -> StateId {
        let mut inner = self.inner();
        subtract(&mut inner.ranges, start, last);
        inner.ranges.push((start, last));
        StateId { seqid: inner.sequence.rise(), other: self.other }
    }

    /// Notes an unlock: the new state id.
    pub fn unlocked(&self, start: u64, last: u64) -> StateId {
        let mut inner = self.inner();
        subtract(&mut inner.ranges, start, last);
        StateId { seqid: inner.sequence.rise(), other: self.other }
    }
}

/// Removes a range from disjoint ranges.
pub(crate) fn subtract(ranges: &mut Vec<(u64, u64)>, start: u64, last: u64) {
    let mut left = Vec::with_capacity(ranges.len());
    for &(first, end) in ranges.iter() {
        if end < start || first > last {
            left.push((first, end));
            continue;
        }
        if first < start {
            left.push((first, start - 1));
        }
        if end > last {
            left.push((last + 1, end));
        }
    }
    *ranges = left;
}

#[cfg(test)]
mod tests;
