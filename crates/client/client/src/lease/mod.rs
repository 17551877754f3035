//! Leases as their holder sees them: a state machine that takes messages and times, and returns what is to be done.
//! No I/O, no clock, no lock: the model of ADR 0009 runs this very code.
//!
//! ```text
//!   none ──grant──> held ──recall──> recalled ──carried out──> none, or held with less
//!                    │ a names lease is lost at once; another is its holder's until that is done
//!                    ├── LEASE_STOP_MS after the last answered renewal was sent ──┐
//!                    └── another run of the server, another session ──────────────┴──> none, and all is to be dropped
//! ```
//!
//! Invariants: (1) a lease is believed only within `LEASE_STOP_MS` of the sending of a renewal that the run which
//! granted it has answered; (2) a grant that a recall with a higher number has overtaken is void; (3) until all that was
//! believed before is dropped, nothing new is believed, and no recall is awaited: the server takes the first
//! `AwaitRecalls` of a run for the word that it was.

mod holder;
mod state;
#[cfg(test)]
mod tests;

use braid_types::FileIndex;
use braid_wire::message::lease::LeaseKind;
pub use braid_wire::message::lease::LeaseMode;
#[doc(inline)]
pub use holder::LeaseHolder;
pub use state::{Ask, Duty, Holding};

pub use crate::engine::Run;

/// What a lease is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LeaseOf {
    /// A directory's entries, those that are absent too, its attributes, and those of its children that are not
    /// directories and not `shared`.
    Names(FileIndex),
    /// A file's bytes.
    Data(FileIndex),
    /// Where a file's bytes lie.
    Layout(FileIndex),
}

impl LeaseOf {
    pub(crate) fn kind(self) -> LeaseKind {
        match self {
            Self::Names(_) => LeaseKind::Names,
            Self::Data(_) => LeaseKind::Data,
            Self::Layout(_) => LeaseKind::Layout,
        }
    }

    pub(crate) fn new(kind: LeaseKind, file: FileIndex) -> Option<Self> {
        match kind {
            LeaseKind::Names => Some(Self::Names(file)),
            LeaseKind::Data => Some(Self::Data(file)),
            LeaseKind::Layout => Some(Self::Layout(file)),
            _ => None,
        }
    }

    /// The directory or file.
    pub fn file(self) -> FileIndex {
        let (Self::Names(file) | Self::Data(file) | Self::Layout(file)) = self;
        file
    }
}

/// A lease at one moment. `still` tells later whether it was held ever since, without a break.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseTicket {
    of: LeaseOf,
    mode: LeaseMode,
    set_ids: bool,
    since: u64,
}

impl LeaseTicket {
    /// What the lease is of.
    pub fn of(&self) -> LeaseOf {
        self.of
    }

    /// What it allowed then.
    pub fn mode(&self) -> LeaseMode {
        self.mode
    }

    /// Of a data lease: whether a write takes something away: setuid or setgid, of somebody without the right to keep them, or file
    /// capabilities. While the lease is held no other client gives the file any; this one may.
    pub fn has_set_ids(&self) -> bool {
        self.set_ids
    }
}

/// A lease that the server wants back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Recalled {
    /// What it is of.
    pub of: LeaseOf,
    /// The recall's number, which its return repeats.
    pub number: u64,
    /// What may be kept.
    pub keep: LeaseMode,
    /// Whether it is held: else it is given back without a word to the holder.
    pub held: bool,
}
