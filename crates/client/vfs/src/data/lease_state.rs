//! Whether a file's bytes may be used now: a state machine without clock, lock and I/O. The model
//! of ADR 0009 runs it.
//!
//! ```text
//!   open ──recall──> recalled ──writes ended──> dropping ──no page since──> returned ──> open
//!                    nothing begins       pages are read ^── a page was read ──┘
//!                                         immediately
//! ```
//!
//! A *page* is what a kernel caches until it must drop it. It is locked from before it is
//! asked for until it is there, and a thread that drops pages waits for it. So a page must never
//! wait, directly or through other calls, for a thread that drops pages: two machines would wait
//! for each other.
//!
//! Invariants:
//! 1. A lease is returned only when no write runs under it and the gateway has dropped every page.
//! 2. While the gateway drops pages, a page is read immediately, whatever lease is held. It is
//!    dropped again before the lease is returned.
//! 3. A page waits for a lease only while no lease is being returned.
//! 4. Pages are read under a read lease where nobody here may write the file, and under a write
//!    lease otherwise. A relaxed mount reads them without a lease where nobody here may write the
//!    file.
//!
//! `FileData::end_recall` asserts 1. `decide` names 2, 3 and 4 where it obeys them; the model
//! (`braid-model`) explores all of them.

use braid_client::LeaseMode;

/// A use of a file's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DataUse {
    /// A read for a kernel that caches the bytes.
    Page,
    /// A read from the daemons that nobody caches. What another mount has buffered must be there
    /// first.
    Read,
    /// A write to the daemons.
    Write,
    /// A write at the end of the file, wherever that is.
    Append,
}

/// Whether a use may begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Decision {
    /// It may begin.
    Go,
    /// It waits until the state changes.
    Wait,
    /// A lease is to be asked for.
    Ask {
        /// In this mode.
        mode: LeaseMode,
        /// A weaker mode is of no use.
        required: bool,
    },
}

/// The uses of one file's bytes and the state of its lease.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct DataLeaseState {
    /// A relaxed mount: pages of a file that nobody here may write need no lease, and may be older
    /// than the file.
    weak: bool,
    /// Threads that return a lease: nothing begins under it.
    recalled: u32,
    /// Threads that drop pages.
    dropping: u32,
    /// The gateway may have pages.
    has_pages: bool,
    /// A page was read, or was being read, since the last drop of all pages began.
    page_since_drop: bool,
    /// Pages that are being read for the gateway.
    pages: u32,
    /// Writes and appends that run.
    writes: u32,
    /// Handles that are open for writing.
    writers: u32,
    /// A lease is being asked for.
    asking: bool,
}

impl DataLeaseState {
    /// For a relaxed mount.
    pub fn relaxed() -> Self {
        Self { weak: true, ..Self::default() }
    }

    /// Whether pages need no lease now.
    pub fn needs_no_lease(&self) -> bool {
        self.weak && self.writers == 0
    }

    /// Whether this use may begin under a lease of mode `held`.
    pub fn decide(&self, what: DataUse, held: LeaseMode) -> Decision {
        match what {
            // (2), (3)
            DataUse::Page if self.dropping > 0 => Decision::Go,
            _ if self.recalled > 0 => Decision::Wait,
            _ if self.allows(what, held) => Decision::Go,
            _ if self.asking => Decision::Wait,
            _ => self.needed_lease(what),
        }
    }

    fn allows(&self, what: DataUse, held: LeaseMode) -> bool {
        match (what, held) {
            (_, LeaseMode::Write)
            | (DataUse::Write | DataUse::Read, LeaseMode::Shared)
            | (DataUse::Read, LeaseMode::Read) => true,
            // (4)
            (DataUse::Page, _) if self.needs_no_lease() => true,
            (DataUse::Page, LeaseMode::Read) => self.writers == 0,
            _ => false,
        }
    }

    fn needed_lease(&self, what: DataUse) -> Decision {
        let (mode, alone) = match what {
            DataUse::Page if self.writers == 0 => (LeaseMode::Read, true),
            DataUse::Read => (LeaseMode::Read, false),
            DataUse::Write => (LeaseMode::Shared, false),
            DataUse::Page | DataUse::Append => (LeaseMode::Write, true),
        };
        Decision::Ask { mode, required: alone }
    }

    /// A use begins that may begin.
    pub fn begin(&mut self, what: DataUse) {
        match what {
            DataUse::Page => {
                self.pages += 1;
                (self.has_pages, self.page_since_drop) = (true, true);
            }
            // It returns the bytes at its beginning or later ones, so nothing waits for it.
            DataUse::Read => {}
            DataUse::Write | DataUse::Append => self.writes += 1,
        }
    }

    /// It ended: the gateway has the page, or the bytes are written and cached pages of them
    /// dropped.
    pub fn end(&mut self, what: DataUse) {
        match what {
            DataUse::Page => self.pages -= 1,
            DataUse::Read => {}
            DataUse::Write | DataUse::Append => self.writes -= 1,
        }
    }

    /// Sets whether a lease is being asked for.
    pub fn set_asking(&mut self, asking: bool) {
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
    pub fn begin_recall(&mut self) {
        self.recalled += 1;
    }

    /// Whether no write runs any more, so that the pages that are dropped now stay dropped.
    pub fn has_no_writes(&self) -> bool {
        self.writes == 0
    }

    /// Whether the gateway may have pages.
    pub fn may_have_pages(&self) -> bool {
        self.has_pages
    }

    /// A thread begins to drop pages: `all`, which one thread at a time does, or some.
    pub fn begin_drop(&mut self, all: bool) {
        self.dropping += 1;
        if all {
            self.page_since_drop = self.pages > 0;
        }
    }

    /// The gateway has dropped the pages that it had when the drop began. Whether it has none now.
    pub fn end_drop(&mut self, all: bool) -> bool {
        self.dropping -= 1;
        if all && !self.page_since_drop {
            self.has_pages = false;
        }
        !self.has_pages
    }

    /// Whether pages are being read for the gateway.
    pub fn is_reading_pages(&self) -> bool {
        self.pages > 0
    }

    /// The lease may be returned, or is. Uses that wait check again when it is.
    pub fn end_recall(&mut self) {
        self.recalled -= 1;
    }

    /// A handle is opened for writing. Whether pages that were read under a lease of mode `held`
    /// must be dropped first.
    pub fn open_writer(&mut self, held: LeaseMode) -> bool {
        self.writers += 1;
        held == LeaseMode::Read || self.has_pages && held != LeaseMode::Write
    }

    /// A handle that was open for writing is closed. Whether it was the last.
    pub fn close_writer(&mut self) -> bool {
        self.writers -= 1;
        self.writers == 0
    }

    /// Whether a handle is open for writing.
    pub fn has_writers(&self) -> bool {
        self.writers > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Decision = Decision::Ask { mode: LeaseMode::Write, required: true };

    #[test]
    fn a_page_needs_a_read_lease_or_with_writers_here_a_write_lease() {
        let mut state = DataLeaseState::default();
        assert_eq!(
            state.decide(DataUse::Page, LeaseMode::None),
            Decision::Ask { mode: LeaseMode::Read, required: true }
        );
        assert_eq!(state.decide(DataUse::Page, LeaseMode::Read), Decision::Go);
        assert!(!state.open_writer(LeaseMode::None));
        assert_eq!(state.decide(DataUse::Page, LeaseMode::Read), ALONE);
        assert_eq!(state.decide(DataUse::Page, LeaseMode::Shared), ALONE);
        assert_eq!(state.decide(DataUse::Page, LeaseMode::Write), Decision::Go);
    }

    #[test]
    fn a_relaxed_mount_reads_pages_without_a_lease_until_a_writer_opens() {
        let mut state = DataLeaseState::relaxed();
        assert_eq!(state.decide(DataUse::Page, LeaseMode::None), Decision::Go);
        state.begin(DataUse::Page);
        state.end(DataUse::Page);
        assert!(
            state.open_writer(LeaseMode::None),
            "such a page may be old, and must not be stored into"
        );
        assert_eq!(state.decide(DataUse::Page, LeaseMode::Shared), ALONE);
        assert_eq!(
            state.decide(DataUse::Write, LeaseMode::None),
            Decision::Ask { mode: LeaseMode::Shared, required: false }
        );
        assert_eq!(state.decide(DataUse::Append, LeaseMode::Shared), ALONE);
    }

    #[test]
    fn a_write_needs_a_shared_lease_and_an_append_a_write_lease() {
        let state = DataLeaseState::default();
        assert_eq!(state.decide(DataUse::Write, LeaseMode::Shared), Decision::Go);
        assert_eq!(
            state.decide(DataUse::Write, LeaseMode::None),
            Decision::Ask { mode: LeaseMode::Shared, required: false }
        );
        assert_eq!(state.decide(DataUse::Append, LeaseMode::Shared), ALONE);
        assert_eq!(state.decide(DataUse::Read, LeaseMode::Shared), Decision::Go);
        assert_eq!(
            state.decide(DataUse::Read, LeaseMode::None),
            Decision::Ask { mode: LeaseMode::Read, required: false }
        );
    }

    #[test]
    fn a_page_read_while_pages_are_dropped_is_dropped_again() {
        let mut state = DataLeaseState::default();
        state.begin(DataUse::Page);
        state.end(DataUse::Page);
        state.begin_recall();
        assert_eq!(
            state.decide(DataUse::Page, LeaseMode::Read),
            Decision::Wait,
            "no thread drops pages, so none waits for it"
        );
        state.begin_drop(true);
        assert_eq!(state.decide(DataUse::Page, LeaseMode::None), Decision::Go);
        state.begin(DataUse::Page);
        assert!(!state.end_drop(true));
        state.end(DataUse::Page);
        state.begin_drop(true);
        assert!(state.end_drop(true));
    }

    #[test]
    fn a_page_being_read_when_a_drop_begins_is_dropped_again() {
        let mut state = DataLeaseState::default();
        state.begin(DataUse::Page);
        state.begin_recall();
        state.begin_drop(true);
        state.end(DataUse::Page);
        assert!(!state.end_drop(true), "it may have arrived after its place was dropped");
    }

    #[test]
    fn an_open_for_writing_drops_pages_that_were_read_under_a_read_lease() {
        let mut state = DataLeaseState::default();
        state.begin(DataUse::Page);
        state.end(DataUse::Page);
        assert!(state.open_writer(LeaseMode::Read));
        let mut state = DataLeaseState::default();
        state.begin(DataUse::Page);
        assert!(!state.open_writer(LeaseMode::Write));
    }
}
