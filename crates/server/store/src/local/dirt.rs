//! Whether an object has changes that no flush has covered, kept in memory: a flush of an object without any costs no
//! disk.
//!
//! ```text
//!   change:  under_way + 1 ── write ── changes + 1 ── under_way - 1
//!   flush:   seen = changes ── sync ── flushed = seen
//! ```
//!
//! 1. Whoever has seen a change in the object finds it dirty, until a flush that began after the change ended: while
//!    the change goes on it is counted in `under_way`, and after that `changes` is ahead of `flushed`.
//! 2. What is not known is dirty: an object that was just opened may have changes of the process before.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Changes of an object of which nothing is known.
const UNKNOWN: u64 = 1;

#[derive(Debug)]
pub(super) struct Dirt {
    under_way: AtomicU64,
    changes: AtomicU64,
    flushed: AtomicU64,
}

/// A change under way; it ends when this is dropped, done or failed.
pub(super) struct Changing<'a>(&'a Dirt);

impl Dirt {
    /// Of an object of which nothing is known.
    pub(super) fn unknown() -> Self {
        Self {
            under_way: AtomicU64::new(0),
            changes: AtomicU64::new(UNKNOWN),
            flushed: AtomicU64::new(0),
        }
    }

    /// Before a change.
    pub(super) fn changing(&self) -> Changing<'_> {
        self.under_way.fetch_add(1, SeqCst);
        Changing(self)
    }

    /// Before a sync: what it will cover.
    pub(super) fn seen(&self) -> u64 {
        self.changes.load(SeqCst)
    }

    /// A sync succeeded that began when this was seen.
    pub(super) fn flushed(&self, seen: u64) {
        self.flushed.fetch_max(seen, SeqCst);
    }

    /// Whether there were changes here that no flush has covered, whatever there was before.
    pub(super) fn is_changed(&self) -> bool {
        self.seen() > UNKNOWN && self.is_dirty()
    }

    /// Whether a flush has something to do.
    pub(super) fn is_dirty(&self) -> bool {
        // In this order: a change that is no longer under way has been counted.
        self.under_way.load(SeqCst) > 0 || self.changes.load(SeqCst) != self.flushed.load(SeqCst)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.changes.fetch_add(1, SeqCst);
        self.0.under_way.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_that_began_before_a_change_ended_does_not_cover_it() {
        let dirt = Dirt::unknown();
        assert!(dirt.is_dirty(), "not known");
        let seen = dirt.seen();
        dirt.flushed(seen);
        assert!(!dirt.is_dirty());
        let change = dirt.changing();
        assert!(dirt.is_dirty(), "under way");
        let seen = dirt.seen();
        dirt.flushed(seen);
        assert!(dirt.is_dirty(), "still under way");
        drop(change);
        assert!(dirt.is_dirty(), "the flush began before it ended");
        dirt.flushed(dirt.seen());
        assert!(!dirt.is_dirty());
    }
}
