//! Leases as their holder sees them: a state machine without I/O, clock and locks. Its inputs are
//! messages and times; it returns the required action. The model of ADR 0009 runs this code.
//!
//! ```text
//!   none ──grant──> held ──recall──> recalled ──carried out──> none, or held in a lower mode
//!                    │ a recalled names lease is lost immediately, others when carried out
//!                    ├── LEASE_STOP_MS after the last answered renewal was sent ─┐
//!                    └── new epoch of the server, new session ───────────────────┴──> lease loss
//! ```
//!
//! Invariants:
//! 1. A lease is valid only within `LEASE_STOP_MS` of the moment when a renewal was sent that the
//!    granting epoch has answered.
//! 2. A grant is void if a recall with a higher number has overtaken it.
//! 3. After a lease loss, no new lease is valid and no recall is awaited until everything cached
//!    before is dropped. The server takes the first `AwaitRecalls` of an epoch as the confirmation
//!    that it was dropped.
//!
//! `ticket` checks 1 and 3 at each use, `apply_grant` 2 before it changes anything, and
//! `must_invalidate` asserts the order in 3. The model (`braid-model`) explores all three with the
//! server's side.

mod holder;
mod lease_state;
#[cfg(test)]
mod tests;

use braid_types::FileIndex;
use braid_wire::message::lease::LeaseKind;
pub use braid_wire::message::lease::LeaseMode;
#[doc(inline)]
pub use holder::LeaseHolder;
pub(crate) use holder::does_io_under_leases;
pub use lease_state::{LeaseRequest, LeaseState, RequiredAction};

pub use crate::engine::ServerEpoch;

/// The object of a lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LeaseOf {
    /// A directory's entries and negative entries, its attributes, and the attributes of those
    /// children that are not directories and not `shared`.
    Names(FileIndex),
    /// The bytes of a file.
    Data(FileIndex),
    /// The layout of a file.
    Layout(FileIndex),
    /// A file as a whole, delegated to a client of another protocol.
    Delegation(FileIndex),
}

impl LeaseOf {
    pub(crate) fn kind(self) -> LeaseKind {
        match self {
            Self::Names(_) => LeaseKind::Names,
            Self::Data(_) => LeaseKind::Data,
            Self::Layout(_) => LeaseKind::Layout,
            Self::Delegation(_) => LeaseKind::Delegation,
        }
    }

    pub(crate) fn new(kind: LeaseKind, file: FileIndex) -> Option<Self> {
        match kind {
            LeaseKind::Names => Some(Self::Names(file)),
            LeaseKind::Data => Some(Self::Data(file)),
            LeaseKind::Layout => Some(Self::Layout(file)),
            LeaseKind::Delegation => Some(Self::Delegation(file)),
            _ => None,
        }
    }

    /// The directory or file.
    pub fn file(self) -> FileIndex {
        let (Self::Names(file) | Self::Data(file) | Self::Layout(file) | Self::Delegation(file)) =
            self;
        file
    }
}

/// A lease at one moment. `still` checks later whether it has been held without a break since.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseTicket {
    of: LeaseOf,
    mode: LeaseMode,
    set_ids: bool,
    since: u64,
}

impl LeaseTicket {
    /// A ticket that no server granted.
    #[cfg(test)]
    pub(crate) fn for_tests(of: LeaseOf, since: u64) -> Self {
        Self { of, mode: LeaseMode::Read, set_ids: false, since }
    }

    /// The object of the lease.
    pub fn of(&self) -> LeaseOf {
        self.of
    }

    /// The mode that was granted.
    pub fn mode(&self) -> LeaseMode {
        self.mode
    }

    /// For a data lease: whether a write must clear set-id bits or file capabilities that the
    /// writer has no right to keep. While the lease is held, no other client sets any of them on
    /// the file; this client may.
    pub fn has_set_ids(&self) -> bool {
        self.set_ids
    }
}

/// A lease that the server recalls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Recalled {
    /// The object of the lease.
    pub of: LeaseOf,
    /// The number of the recall; the return repeats it.
    pub number: u64,
    /// The mode that the client may keep.
    pub keep: LeaseMode,
    /// Whether the lease is held. If not, it is returned without a call of the holder.
    pub held: bool,
}
