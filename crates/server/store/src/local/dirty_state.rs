//! Whether an object has changes that no flush has covered. It is known in memory, so that a flush
//! without changes costs no disk access.
//!
//! ```text
//!   change:  in progress + 1 ── write ── changes + 1 ── in progress - 1
//!   flush:   seen = changes ── sync ── flushed = seen
//! ```
//!
//! Invariants:
//! 1. After a change is visible, the object is dirty until a flush succeeds that began after the
//!    change ended. During the change, the count of changes in progress shows it; after it,
//!    `changes` is ahead of `flushed`.
//! 2. An object that was just opened is dirty: the process before may have changed it.
//!
//! `mark_flushed` and the drop of a [`ChangeGuard`] assert 1. `unknown` begins with a change that
//! no flush has covered (2).

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The count of changes of an object that was just opened.
const UNKNOWN_CHANGES: u64 = 1;

#[derive(Debug)]
pub(super) struct DirtyState {
    changes_in_progress: AtomicU64,
    changes: AtomicU64,
    flushed: AtomicU64,
}

/// A change in progress. It ends when this is dropped, also after a failure.
pub(super) struct ChangeGuard<'a>(&'a DirtyState);

impl DirtyState {
    /// For an object that was just opened.
    pub(super) fn unknown() -> Self {
        Self {
            changes_in_progress: AtomicU64::new(0),
            changes: AtomicU64::new(UNKNOWN_CHANGES),
            flushed: AtomicU64::new(0),
        }
    }

    /// Before a change.
    pub(super) fn begin_change(&self) -> ChangeGuard<'_> {
        self.changes_in_progress.fetch_add(1, SeqCst);
        ChangeGuard(self)
    }

    /// Before a sync: what it will cover.
    pub(super) fn change_count(&self) -> u64 {
        self.changes.load(SeqCst)
    }

    /// A sync has succeeded that began when `seen` was taken.
    pub(super) fn mark_flushed(&self, seen: u64) {
        debug_assert!(seen <= self.changes.load(SeqCst), "1: a flush covers changes that ended");
        self.flushed.fetch_max(seen, SeqCst);
    }

    /// Whether this process made changes that no flush has covered.
    pub(super) fn has_known_changes(&self) -> bool {
        self.change_count() > UNKNOWN_CHANGES && self.is_dirty()
    }

    /// Whether a flush has something to do.
    pub(super) fn is_dirty(&self) -> bool {
        // In this order: a change that is no longer in progress has been counted.
        self.changes_in_progress.load(SeqCst) > 0
            || self.changes.load(SeqCst) != self.flushed.load(SeqCst)
    }
}

impl Drop for ChangeGuard<'_> {
    fn drop(&mut self) {
        self.0.changes.fetch_add(1, SeqCst);
        let before = self.0.changes_in_progress.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "1: a change in progress is counted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_that_began_before_a_change_ended_does_not_cover_it() {
        let dirt = DirtyState::unknown();
        assert!(dirt.is_dirty(), "not known");
        let seen = dirt.change_count();
        dirt.mark_flushed(seen);
        assert!(!dirt.is_dirty());
        let change = dirt.begin_change();
        assert!(dirt.is_dirty(), "in progress");
        let seen = dirt.change_count();
        dirt.mark_flushed(seen);
        assert!(dirt.is_dirty(), "still in progress");
        drop(change);
        assert!(dirt.is_dirty(), "the flush began before it ended");
        dirt.mark_flushed(dirt.change_count());
        assert!(!dirt.is_dirty());
    }
}
