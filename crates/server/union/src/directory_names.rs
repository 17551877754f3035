//! What a create knows of a directory's names, so that it asks each branch once.
//!
//! A create needs a name that no branch has. The kernel looks the name up immediately before, which
//! asks each branch. The create uses that answer, and asks again only without one.
//!
//! 1. Calls that add a name to a directory exclude each other from the check to the new name
//!    ([`Adding`]): two creates of one name never take two branches. The kernel of one mount locks
//!    the directory itself; other callers do not. Renames exclude all of them (`Union::renames`).
//! 2. An answer counts only if no name was added since before its first branch was asked: a lookup
//!    may have asked the branch before the name was there.
//! 3. An answer counts for [`NAMES_VALID`], as in the kernel, and once.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    kept_listings::{CountedListing, KeptListing},
    name_index::IndexState,
    node::lock,
    notices::ToldAbsent,
};

/// How long an answer of the branches may be used. Changes that somebody makes directly on a branch
/// are seen after this time.
pub const NAMES_VALID: Duration = Duration::from_secs(1);

/// Of one directory.
#[derive(Debug, Default)]
pub(crate) struct DirectoryNames {
    adding: Mutex<()>,
    added: AtomicU64,
    /// Changes of names by this process or directly.
    changed: AtomicU64,
    /// Changes that were made directly.
    noticed: AtomicU64,
    absent: Mutex<Option<AbsentName>>,
    pub(crate) told_absent: Mutex<ToldAbsent>,
    pub(crate) index: Mutex<IndexState>,
    /// What the directory had when it was last listed.
    pub(crate) kept_listing: Mutex<Option<Arc<KeptListing>>>,
    pub(crate) counted_listing: Mutex<Option<CountedListing>>,
    /// When it had no default ACL.
    without_acl: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct AbsentName {
    name: Box<[u8]>,
    /// [`DirectoryNames::added`] before the first branch was asked.
    added: u64,
    asked: Instant,
}

/// Held by a call that adds a name.
#[derive(Debug)]
pub(crate) struct Adding<'a> {
    names: &'a DirectoryNames,
    _alone: MutexGuard<'a, ()>,
}

impl DirectoryNames {
    /// Changes whenever this process adds a name, or may have.
    pub(crate) fn added(&self) -> u64 {
        self.added.load(Ordering::Acquire)
    }

    /// A name was added, or a subdirectory has another copy.
    pub(crate) fn note_added(&self) {
        self.added.fetch_add(1, Ordering::Release);
        self.note_changed();
    }

    /// Changes whenever somebody changes a name, or may have: this process, or, where that is
    /// noticed, anybody directly on a branch.
    pub(crate) fn changed(&self) -> u64 {
        self.changed.load(Ordering::Acquire)
    }

    /// This process has changed a name.
    pub(crate) fn note_changed(&self) {
        self.changed.fetch_add(1, Ordering::Release);
    }

    /// How many direct changes were noticed.
    pub(crate) fn noticed(&self) -> u64 {
        self.noticed.load(Ordering::Acquire)
    }

    /// A name was changed directly on a branch.
    pub(crate) fn note_noticed(&self) {
        self.noticed.fetch_add(1, Ordering::Release);
        self.note_changed();
        *lock(&self.absent) = None;
        lock(&self.index).forget();
    }

    /// A lookup found that no branch has the name. `added`: before it asked the first branch.
    pub(crate) fn note_absent(&self, name: &[u8], added: u64, asked: Instant) {
        *lock(&self.absent) = Some(AbsentName { name: name.into(), added, asked });
    }

    /// Whether new files get the umask; a default ACL replaces it (acl(5)). `has_acl` reads it.
    pub(crate) fn is_masked(&self, has_acl: impl FnOnce() -> bool) -> bool {
        // Locked while it is read: what is set meanwhile ends the answer.
        let mut without_acl = lock(&self.without_acl);
        if without_acl.is_none_or(|read| read.elapsed() >= NAMES_VALID) {
            let read = Instant::now();
            *without_acl = (!has_acl()).then_some(read);
        }
        without_acl.is_some()
    }

    /// The directory may have got a default ACL.
    pub(crate) fn note_acl(&self) {
        *lock(&self.without_acl) = None;
    }

    /// Waits for other calls that add a name to the directory.
    pub(crate) fn begin_adding(&self) -> Adding<'_> {
        Adding { names: self, _alone: lock(&self.adding) }
    }
}

impl Adding<'_> {
    /// Whether the last lookup found that no branch has the name.
    pub(crate) fn is_known_absent(&self, name: &[u8]) -> bool {
        let absent = lock(&self.names.absent).take();
        absent.is_some_and(|absent| {
            *absent.name == *name
                && absent.added == self.names.added()
                && absent.asked.elapsed() < NAMES_VALID
        })
    }
}

impl Drop for Adding<'_> {
    /// Also after a failure: the name may be there nevertheless.
    fn drop(&mut self) {
        self.names.note_added();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_and_for_its_name() {
        let names = DirectoryNames::default();
        let ask = |name| names.note_absent(name, names.added(), Instant::now());
        ask(b"a");
        assert!(!names.begin_adding().is_known_absent(b"b"));
        ask(b"a");
        let adding = names.begin_adding();
        assert!(adding.is_known_absent(b"a"));
        assert!(!adding.is_known_absent(b"a"));
    }

    #[test]
    fn an_answer_from_before_another_name_was_added_does_not_count() {
        let names = DirectoryNames::default();
        let before = names.added();
        drop(names.begin_adding());
        names.note_absent(b"a", before, Instant::now());
        assert!(!names.begin_adding().is_known_absent(b"a"));
    }

    #[test]
    fn an_old_answer_does_not_count() {
        let names = DirectoryNames::default();
        let Some(long_ago) = Instant::now().checked_sub(2 * NAMES_VALID) else { return };
        names.note_absent(b"a", names.added(), long_ago);
        assert!(!names.begin_adding().is_known_absent(b"a"));
    }
}
