//! For how long the kernel may use an answer, and that it keeps no stale one (docs/adr/0049).
//!
//! ```text
//!   request:  begin ── branches ── valid? ── reply ───────> the kernel keeps the answer
//!   change:                 the branch changes ── event ── changed ── expire in the kernel
//! ```
//!
//! Where direct changes are noticed, an answer is valid for [`LONG`], and a change ends it. The
//! event of a change comes after the change, so there are three cases:
//!
//! 1. The kernel has the answer when it is notified of the change: it drops it.
//! 2. The change comes between `begin` and `valid?`: the counters differ, and the answer is valid
//!    for a second, as without notices.
//! 3. The change comes after `valid?`, and the kernel has not got the answer yet. It is notified of
//!    the change once more a second later. The kernel itself orders what a first lookup and a
//!    listing bring: an expiry waits for the directory's lock, which they hold. It also ignores
//!    attributes of a known node that were asked for before it was notified of a change.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use braid_union::{NAMES_VALID, NoticedChanges};

use crate::kernel::Validity;

/// If an event is lost by a mistake in any file system, the answer is stale for no longer.
pub(super) const LONG: Duration = Duration::from_secs(3600);
/// Changes are notified again if a long answer was given this time before.
const ON_THE_WAY: Duration = Duration::from_secs(2);

/// Counts changes that the kernel does not know.
#[derive(Debug)]
pub(super) struct Answers {
    names: AtomicU64,
    files: AtomicU64,
    start: Instant,
    /// When the last long answer was given, milliseconds after `start`, and 1 more.
    last_long: AtomicU64,
}

/// How many changes there were when the branches were asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    names: u64,
    files: u64,
}

impl Asked {
    /// Whether no name was changed between the two.
    pub(super) fn has_same_names(self, other: Self) -> bool {
        self.names == other.names
    }
}

/// For how long the kernel may use what a lookup found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntryValidity {
    pub(super) name: Validity,
    pub(super) attributes: Validity,
}

impl EntryValidity {
    pub(super) fn is_long(self) -> bool {
        let long = Validity::For(LONG);
        (self.name, self.attributes) == (long, long)
    }
}

impl Default for Answers {
    fn default() -> Self {
        let (names, files, last_long) = Default::default();
        Self { names, files, start: Instant::now(), last_long }
    }
}

impl Answers {
    /// To be called before the branches are asked.
    pub(super) fn begin(&self) -> Asked {
        Asked { names: self.names.load(Ordering::SeqCst), files: self.files.load(Ordering::SeqCst) }
    }

    /// The validity of an answer whose changes are `noticed`; `short`: of others.
    pub(super) fn valid(&self, asked: Asked, noticed: bool, short: Duration) -> Validity {
        if !noticed {
            return Validity::For(short);
        }
        // In this order: either the change is seen here, or the answer there.
        self.last_long.store(self.now(), Ordering::SeqCst);
        let now = self.begin();
        match (now.names, now.files) == (asked.names, asked.files) {
            true => Validity::For(LONG),
            false => Validity::For(short),
        }
    }

    /// Something was changed. Whether a long answer may be on its way to the kernel.
    pub(super) fn changed(&self, changes: &NoticedChanges) -> bool {
        if changes.direct_names || !changes.names.is_empty() {
            self.names.fetch_add(1, Ordering::SeqCst);
        }
        if changes.direct_files || !changes.attributes.is_empty() {
            self.files.fetch_add(1, Ordering::SeqCst);
        }
        let last = self.last_long.load(Ordering::SeqCst);
        last > 0 && self.now().saturating_sub(last) < ON_THE_WAY.as_millis() as u64
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64 + 1
    }
}

/// For how long an answer is used without notices.
pub(super) const SHORT: Duration = NAMES_VALID;

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> NoticedChanges {
        NoticedChanges { direct_names: true, ..NoticedChanges::default() }
    }

    #[test]
    fn an_answer_from_before_a_change_is_valid_for_a_short_time() {
        let answers = Answers::default();
        let (long, short) = (Validity::For(LONG), Validity::For(SHORT));
        let asked = answers.begin();
        assert_eq!(answers.valid(asked, true, SHORT), long);
        assert_eq!(answers.valid(asked, false, SHORT), short);
        answers.changed(&change());
        assert_eq!(answers.valid(asked, true, SHORT), short);
        assert!(!answers.begin().has_same_names(asked));
        assert_eq!(answers.valid(answers.begin(), true, SHORT), long);
    }

    #[test]
    fn a_change_is_told_again_only_if_an_answer_may_be_on_its_way() {
        let answers = Answers::default();
        assert!(!answers.changed(&change()));
        answers.valid(answers.begin(), false, SHORT);
        assert!(!answers.changed(&change()));
        answers.valid(answers.begin(), true, SHORT);
        assert!(answers.changed(&change()));
    }
}
