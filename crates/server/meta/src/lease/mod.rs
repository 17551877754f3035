//! Leases: what the server promised to clients, and which promises other calls need returned. A
//! pure state machine: no I/O, no clock, no lock. ADR 0009.
//!
//! ```text
//!           request, nothing conflicts            another call needs it: recall(n) to the holder
//!   none ──────────────────────────> held(mode) ───────────────────────────────────> recalled(n)
//!    ^                                 ^    │ holder returns it                          │
//!    │                                 │    v                                            │ holder
//!    ├─────────────────────────────────┼── none                                          │ returns
//!    ├── the holder's session ended    │                                                 │ >= n
//!    └─────────────────────────────────┴── none, or held with the mode that may remain <─┘
//! ```
//!
//! A *claim* is a call that needs conflicting leases of others returned: a change of a directory, a
//! query of a file's size, a request for a data lease. It recalls what conflicts. From then until
//! the claim is dropped, no conflicting lease is granted to anybody else: neither while it waits,
//! nor while the call is carried out.
//!
//! Invariants:
//! 1. Two sessions never hold conflicting modes of one item. `set` asserts it.
//! 2. A grant never conflicts with a claim of another session, except with a later request for a
//!    lease. `grant` asserts it.
//! 3. Grants and recalls take their numbers from one counter, which rises over restarts. `grant`
//!    and `recall` assert it.
//! 4. A return ends nothing that was granted after it was sent: its number says what it ends.
//!    `return_lease` compares the numbers.
//! 5. Every recall is sent again until it is returned: `recalls` lists all that are pending.
//!    Whether the client got one is not known here, so nothing can be asserted.
//! 6. The leases of an expired session stand until the session can no longer assume them valid and
//!    its fence holds. `expire` removes them.
//! 7. While a session from before a restart may assume leases valid, no other session's claim
//!    succeeds and no other session gets a data lease. `claim` and `request_data` wait; `grant`
//!    asserts it.

mod claim;
mod expiry;
mod grant;
pub mod modes;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

use braid_types::FileIndex;
pub use claim::ClaimId;
pub use table::LeaseTable;

/// What a lease covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LeaseOf {
    /// A directory's entries, its attributes, and those of its children that are not directories.
    Names(FileIndex),
    /// A file's bytes.
    Data(FileIndex),
    /// A file's layout.
    Layout(FileIndex),
    /// A file as a whole, delegated to a client of another protocol: its bytes, its attributes, and
    /// which opens of it there are. Read or write.
    Delegation(FileIndex),
}

/// What a lease allows, or a claim needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LeaseMode {
    /// Nothing.
    None,
    /// Claims only: to learn the size and read from the daemons. No other session may buffer
    /// writes.
    Look,
    /// To cache what was read.
    Read,
    /// To read and write at the daemons, like other sessions: nobody caches.
    Shared,
    /// To be the only session that uses the file: caches and buffers writes.
    Write,
}

impl LeaseMode {
    /// Whether two sessions may not hold these modes of one item.
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

    /// The strongest mode that a holder of this mode may retain beside another's `need`.
    pub(crate) fn strongest_beside(self, need: Self) -> Self {
        match (self, need) {
            _ if !self.conflicts(need) => self,
            (Self::Write, Self::Look | Self::Read) => Self::Read,
            (Self::Write, Self::Shared) => Self::Shared,
            _ => Self::None,
        }
    }

    /// What remains of this mode if at most `keep` may remain.
    pub(crate) fn reduced_to(self, keep: Self) -> Self {
        if self == keep || self == Self::Write { keep } else { Self::None }
    }
}

/// A recall that was not returned yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PendingRecall {
    /// What the lease covers.
    pub of: LeaseOf,
    /// The mode that may remain.
    pub keep: LeaseMode,
    /// When it was decided.
    pub since: Duration,
}

/// What a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Wait {
    /// Other sessions hold this, or claimed it earlier.
    For(LeaseOf),
    /// Sessions from before a restart may still assume leases valid that nobody remembers.
    Restart,
}

/// The result of a request for a data lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskOutcome {
    /// It is granted, with this mode and number.
    Granted(LeaseMode, u64),
    /// It waits; the claim stands.
    Waits(Wait),
    /// The table is full of leases that are in use.
    Full,
}
