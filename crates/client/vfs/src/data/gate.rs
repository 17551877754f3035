//! Whether a file's bytes may be used now: a state machine without clock, lock and I/O. The model of ADR 0009 runs it.
//!
//! ```text
//!   open ──recall──> recalled ──writes ended──> dropping: the keeper drops pages ──none given since──> returned ──> open
//!                       nothing begins            pages are served at once  ^── one was: again ──┘
//! ```
//!
//! A *page* is what a kernel keeps until it is told to drop it. It is locked from before it is asked for until it is there,
//! and whoever drops pages waits for it. So a page must never wait, directly or by others, for somebody who drops pages:
//! two machines would wait for each other.
//!
//! Invariants: (1) a lease is returned only when no write runs under it and the keeper has dropped every page that was given;
//! (2) while the keeper drops, a page is given at once, whatever is held: it is dropped again before the lease goes; (3) a page
//! waits for a lease only while none is given; (4) pages are given under read when this mount has nobody who may write
//! the file, else under write; a weak mount gives them under nothing where it has nobody who may write the file.

use braid_client::LeaseMode;

/// What is done with a file's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Use {
    /// They are read for a kernel that keeps them.
    Page,
    /// They are read at the daemons, and nobody keeps them: what another mount has of them in memory must be there first.
    Read,
    /// They are written at the daemons.
    Write,
    /// They are written at the end of the file, wherever it is.
    Append,
}

/// What follows for one that wants to use them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// It may.
    Go,
    /// Until something changes.
    Wait,
    /// The lease is to be asked for in this mode, `alone` if nothing less will do.
    Ask {
        /// The mode.
        mode: LeaseMode,
        /// No less will do.
        alone: bool,
    },
}

/// What of one file is under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Gate {
    /// Pages of a file that nobody here may write need no lease: they may be older than what others wrote.
    weak: bool,
    /// So many are returning a lease: nothing begins under it.
    recalled: u32,
    /// So many drop pages now.
    dropping: u32,
    /// The keeper may have pages.
    given: bool,
    /// A page was given, or was on its way, since the last dropping began.
    given_since: bool,
    /// Pages on their way to the keeper.
    pages: u32,
    writes: u32,
    /// Handles that are open for writing.
    writers: u32,
    /// A lease is being asked for.
    asking: bool,
}

impl Gate {
    /// One of a mount whose pages may be older than the file.
    pub fn weak() -> Self {
        Self { weak: true, ..Self::default() }
    }

    /// Whether pages are given without a lease now.
    pub fn is_weak(&self) -> bool {
        self.weak && self.writers == 0
    }

    /// Whether this use may begin, `held` being held.
    pub fn verdict(&self, what: Use, held: LeaseMode) -> Verdict {
        match what {
            Use::Page if self.dropping > 0 => Verdict::Go,
            _ if self.recalled > 0 => Verdict::Wait,
            _ if self.allows(what, held) => Verdict::Go,
            _ if self.asking => Verdict::Wait,
            _ => self.to_ask(what),
        }
    }

    fn allows(&self, what: Use, held: LeaseMode) -> bool {
        match (what, held) {
            (_, LeaseMode::Write)
            | (Use::Write | Use::Read, LeaseMode::Shared)
            | (Use::Read, LeaseMode::Read) => true,
            (Use::Page, _) if self.is_weak() => true,
            (Use::Page, LeaseMode::Read) => self.writers == 0,
            _ => false,
        }
    }

    fn to_ask(&self, what: Use) -> Verdict {
        let (mode, alone) = match what {
            Use::Page if self.writers == 0 => (LeaseMode::Read, true),
            Use::Read => (LeaseMode::Read, false),
            Use::Write => (LeaseMode::Shared, false),
            Use::Page | Use::Append => (LeaseMode::Write, true),
        };
        Verdict::Ask { mode, alone }
    }

    /// A use begins, whose verdict was to go.
    pub fn begin(&mut self, what: Use) {
        match what {
            Use::Page => {
                self.pages += 1;
                (self.given, self.given_since) = (true, true);
            }
            // It sees what was there when it began, or later: nobody waits for it.
            Use::Read => {}
            Use::Write | Use::Append => self.writes += 1,
        }
    }

    /// It ended: the keeper has the page, or the bytes are written and what was kept of them is dropped.
    pub fn end(&mut self, what: Use) {
        match what {
            Use::Page => self.pages -= 1,
            Use::Read => {}
            Use::Write | Use::Append => self.writes -= 1,
        }
    }

    /// A lease is asked for, or no more.
    pub fn ask(&mut self, asking: bool) {
        self.asking = asking;
    }

    /// Whether a lease is being asked for.
    pub fn is_asking(&self) -> bool {
        self.asking
    }

    /// Whether no lease is being asked for or returned.
    pub fn is_open(&self) -> bool {
        !self.asking && self.recalled == 0
    }

    /// A lease is to be returned.
    pub fn recall(&mut self) {
        self.recalled += 1;
    }

    /// Whether what was begun under the lease is done, so that pages may be dropped for good.
    pub fn is_still(&self) -> bool {
        self.writes == 0
    }

    /// Whether the keeper may have pages.
    pub fn has_given(&self) -> bool {
        self.given
    }

    /// The keeper begins to drop pages: `all` of them, one at a time does that, or some.
    pub fn begin_drop(&mut self, all: bool) {
        self.dropping += 1;
        if all {
            self.given_since = self.pages > 0;
        }
    }

    /// The keeper has dropped those that it had when it began. Whether there are none now.
    pub fn end_drop(&mut self, all: bool) -> bool {
        self.dropping -= 1;
        if all && !self.given_since {
            self.given = false;
        }
        !self.given
    }

    /// Whether pages are on their way to the keeper.
    pub fn has_pages_under_way(&self) -> bool {
        self.pages > 0
    }

    /// The lease may be returned, or is; what waits is looked at again when it is.
    pub fn returned(&mut self) {
        self.recalled -= 1;
    }

    /// Somebody opens the file for writing. Whether what `held` allows with pages must be dropped first.
    pub fn writer_comes(&mut self, held: LeaseMode) -> bool {
        self.writers += 1;
        held == LeaseMode::Read || self.given && held != LeaseMode::Write
    }

    /// One that had it open for writing closed it. Whether it was the last.
    pub fn writer_goes(&mut self) -> bool {
        self.writers -= 1;
        self.writers == 0
    }

    /// Whether anybody has the file open for writing.
    pub fn has_writers(&self) -> bool {
        self.writers > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Verdict = Verdict::Ask { mode: LeaseMode::Write, alone: true };

    #[test]
    fn a_page_needs_read_or_write_if_somebody_here_may_write() {
        let mut gate = Gate::default();
        assert_eq!(
            gate.verdict(Use::Page, LeaseMode::None),
            Verdict::Ask { mode: LeaseMode::Read, alone: true }
        );
        assert_eq!(gate.verdict(Use::Page, LeaseMode::Read), Verdict::Go);
        assert!(!gate.writer_comes(LeaseMode::None));
        assert_eq!(gate.verdict(Use::Page, LeaseMode::Read), ALONE);
        assert_eq!(gate.verdict(Use::Page, LeaseMode::Shared), ALONE);
        assert_eq!(gate.verdict(Use::Page, LeaseMode::Write), Verdict::Go);
    }

    #[test]
    fn a_weak_mount_gives_pages_without_a_lease_until_somebody_here_may_write() {
        let mut gate = Gate::weak();
        assert_eq!(gate.verdict(Use::Page, LeaseMode::None), Verdict::Go);
        gate.begin(Use::Page);
        gate.end(Use::Page);
        assert!(
            gate.writer_comes(LeaseMode::None),
            "what was given so may be old, and is not to be stored into"
        );
        assert_eq!(gate.verdict(Use::Page, LeaseMode::Shared), ALONE);
        assert_eq!(
            gate.verdict(Use::Write, LeaseMode::None),
            Verdict::Ask { mode: LeaseMode::Shared, alone: false }
        );
        assert_eq!(gate.verdict(Use::Append, LeaseMode::Shared), ALONE);
    }

    #[test]
    fn a_write_shares_and_an_append_is_alone() {
        let gate = Gate::default();
        assert_eq!(gate.verdict(Use::Write, LeaseMode::Shared), Verdict::Go);
        assert_eq!(
            gate.verdict(Use::Write, LeaseMode::None),
            Verdict::Ask { mode: LeaseMode::Shared, alone: false }
        );
        assert_eq!(gate.verdict(Use::Append, LeaseMode::Shared), ALONE);
        assert_eq!(gate.verdict(Use::Read, LeaseMode::Shared), Verdict::Go);
        assert_eq!(
            gate.verdict(Use::Read, LeaseMode::None),
            Verdict::Ask { mode: LeaseMode::Read, alone: false }
        );
    }

    #[test]
    fn a_page_that_is_wanted_while_pages_are_dropped_is_given_and_dropped_again() {
        let mut gate = Gate::default();
        gate.begin(Use::Page);
        gate.end(Use::Page);
        gate.recall();
        assert_eq!(
            gate.verdict(Use::Page, LeaseMode::Read),
            Verdict::Wait,
            "nobody drops, nobody waits for it"
        );
        gate.begin_drop(true);
        assert_eq!(gate.verdict(Use::Page, LeaseMode::None), Verdict::Go);
        gate.begin(Use::Page);
        assert!(!gate.end_drop(true));
        gate.end(Use::Page);
        gate.begin_drop(true);
        assert!(gate.end_drop(true));
    }

    #[test]
    fn a_page_on_its_way_when_dropping_begins_is_dropped_again() {
        let mut gate = Gate::default();
        gate.begin(Use::Page);
        gate.recall();
        gate.begin_drop(true);
        gate.end(Use::Page);
        assert!(!gate.end_drop(true), "it may have come after the keeper looked at its place");
    }

    #[test]
    fn who_opens_for_writing_has_pages_dropped_that_were_given_under_read() {
        let mut gate = Gate::default();
        gate.begin(Use::Page);
        gate.end(Use::Page);
        assert!(gate.writer_comes(LeaseMode::Read));
        let mut gate = Gate::default();
        gate.begin(Use::Page);
        assert!(!gate.writer_comes(LeaseMode::Write));
    }
}
