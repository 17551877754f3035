//! Leases: what clients were promised, and who wants it back. A pure state machine: no I/O, no clock, no lock. ADR 0009.
//!
//! ```text
//!            ask, nothing conflicts                another needs it: recall(n) to the holder
//!   none ───────────────────────────> held(mode) ───────────────────────────────────────────> recalled(n)
//!    ^                                  ^    │ gives it back                                      │
//!    │                                  │    v                                                    │ gives back
//!    ├──────────────────────────────────┼── none                                                  │ at least n
//!    ├── the holder's session has ended │                                                         │
//!    └──────────────────────────────────┴── none, or held with the mode that may be kept <────────'
//! ```
//!
//! A *claim* is a call that needs others to hold nothing that conflicts: a change of a directory, a look at a file's size,
//! an ask for a data lease. It recalls what conflicts, and from then until it is dropped nothing that conflicts is granted
//! to anybody else: not while it waits, and not while what it is for is being done.
//!
//! Invariants: (1) two sessions never hold modes of one thing that conflict; (2) a grant never conflicts with a claim of
//! another session; (3) grants and recalls take their numbers from one counter, which rises over restarts; (4) a return
//! ends nothing that was granted after it was sent: its number says; (5) every recall is told again until it is returned;
//! (6) the leases of a session that was given up stand until it cannot believe in them any more; (7) while a session of
//! before a restart may believe in leases, nothing is claimed or asked for by others.

mod claim;
mod ending;
mod grant;
pub mod modes;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

use braid_types::FileIndex;
pub use claim::ClaimId;
pub use table::Table;

/// What a lease is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LeaseOf {
    /// A directory's entries, its attributes, and those of its children that are not directories.
    Names(FileIndex),
    /// A file's bytes.
    Data(FileIndex),
    /// Where a file's bytes lie.
    Layout(FileIndex),
}

/// What a lease allows, or a claim needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LeaseMode {
    /// Nothing.
    None,
    /// Claims only: to know the size, and to read at the daemons. Nobody else may gather writes.
    Look,
    /// To keep what was read.
    Read,
    /// To read and write at the daemons, as others do: nobody keeps anything.
    Shared,
    /// To be the only one.
    Write,
}

impl LeaseMode {
    /// Whether two sessions may not have these modes of one thing.
    pub fn conflicts(self, other: Self) -> bool {
        use LeaseMode::{Look, None, Read, Shared, Write};
        match (self, other) {
            (None, _) | (_, None) => false,
            (Look, Write) | (Write, Look) => true,
            (Look, _) | (_, Look) => false,
            (Read, Read) | (Shared, Shared) => false,
            (Read | Shared | Write, _) => true,
        }
    }

    /// The most that a holder of this mode may keep beside another's `need`.
    pub(crate) fn kept_beside(self, need: Self) -> Self {
        match (self, need) {
            _ if !self.conflicts(need) => self,
            (Self::Write, Self::Look | Self::Read) => Self::Read,
            (Self::Write, Self::Shared) => Self::Shared,
            _ => Self::None,
        }
    }

    /// What is left of this mode when at most `keep` is kept.
    pub(crate) fn lessened(self, keep: Self) -> Self {
        if self == keep || self == Self::Write { keep } else { Self::None }
    }
}

/// A recall that was not returned yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PendingRecall {
    /// What the lease is of.
    pub of: LeaseOf,
    /// What may be kept.
    pub keep: LeaseMode,
    /// When it was decided.
    pub since: Duration,
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Wait {
    /// Others hold this, or claimed it before.
    For(LeaseOf),
    /// Sessions of before a restart may still believe in what nobody remembers.
    Restart,
}

/// What a question for a data lease came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// It is granted, with this mode and number.
    Granted(LeaseMode, u64),
    /// It waits: the claim stands.
    Waits(Wait),
    /// The table is full of leases that are in use.
    Full,
}
