//! Locks on ranges of bytes and on whole files: which there are, who waits, whose turn it is. Pure: no clock, no lock,
//! no I/O. `ops/lock.rs` has the calls.
//!
//! ```text
//!   ask ──free──────────────> held ──unlock, end of the session──> free
//!    | taken                   ^
//!    |── does not wait: told who has it
//!    |── its holder waits for it: a deadlock
//!    └── waits: in the queue ──its turn, while a call waits with it
//!          ^ | a slice is over: told so; the place is kept for LOCK_WAIT_FORGOTTEN_MS
//!          └─┘ asked again
//! ```
//!
//! Invariants:
//! 1. No two owners have the same byte of one space of one file, unless both share it. An owner never conflicts
//!    with itself: what it asks for replaces what it has there (POSIX `fcntl()`).
//! 2. Nobody waits for a lock that nobody has and that was not there before: when something is let go, those that wait
//!    are looked at in the order that they came. Who does not conflict with a holder does not queue behind those that
//!    do: that is Linux's rule, and a program that holds one lock and takes another through a second descriptor must
//!    not wait for a stranger who waits for its first.
//! 3. A lock is given only to a call that waits: who went away is given nothing that it would not know of.
//! 4. No wait is begun that would close a circle of owners who wait for each other's byte ranges. For whole files
//!    nobody looks for circles: Linux's `flock()` does not either.
//! 5. While clients of before a restart may still tell their locks, nothing is given (`granting`).
//! 6. Everything is bounded (I9): ranges of the server, of a session and of a user; waits, and those of a user.

mod table;
#[cfg(test)]
mod tests;
mod waits;

use std::time::Duration;

use braid_types::{FileIndex, SessionId};
use braid_wire::message::lock::{LockHolder, LockRequest, LockSpace};

pub(crate) use table::Locks;

use crate::session::Owner as User;

/// Ranges that are locked, in all (I9): about 100 bytes each.
pub(crate) const LOCKS_MAX: usize = 1 << 20;
/// Ranges that one session has locked.
pub(crate) const LOCKS_SESSION_MAX: usize = 1 << 18;
/// Ranges that the sessions of one user, or of one key, have locked: as many are left to others.
pub(crate) const LOCKS_USER_MAX: usize = LOCKS_MAX / 2;
/// Calls that wait for a lock, in all: each is looked at when what it waits for is let go.
pub(crate) const LOCK_WAITS_MAX: usize = 16_384;
/// The same of one user, or of one key.
pub(crate) const LOCK_WAITS_USER_MAX: usize = LOCK_WAITS_MAX / 2;
/// How long a wait that nobody asks about keeps its place: longer than a client takes to connect again.
pub(crate) const LOCK_WAIT_FORGOTTEN_MS: u64 = 10_000;

/// What locks are on: a file, and which kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub(crate) file: FileIndex,
    pub(crate) space: LockSpace,
}

/// Whose a lock is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Owner {
    pub(crate) session: SessionId,
    pub(crate) owner: u64,
}

/// How a byte is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mode {
    pub(crate) exclusive: bool,
    pub(crate) pid: u32,
}

/// A lock that somebody wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// Whose session it is: it counts for that one's share.
    pub(crate) user: User,
    pub(crate) place: Place,
    pub(crate) owner: Owner,
    pub(crate) start: u64,
    pub(crate) last: u64,
    pub(crate) mode: Mode,
}

/// Names a wait: the session, and the number that it chose.
pub(crate) type Ticket = (SessionId, u64);

/// What a request came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Granted,
    Held(LockHolder),
    Waiting,
    Deadlock,
    /// The table is full.
    Full,
    /// Clients of before a restart may still tell what they have.
    NotYet,
}

/// What a call that waited is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Granted,
    StillWaiting,
    Gone,
    Cancelled,
    Deadlock,
    Full,
}

/// Calls to be answered, when no lock of the server is held any more.
pub(crate) type Answers<W> = Vec<(W, Turn)>;

/// A call that waits with a ticket, and when it wants to be told that it still waits.
#[derive(Debug)]
pub(crate) struct Waiter<W> {
    pub(crate) call: W,
    pub(crate) until: Duration,
}

impl Wanted {
    pub(crate) fn of((session, user): (SessionId, User), lock: &LockRequest) -> Self {
        let LockRequest { file, space, owner, pid, start, last, exclusive } = *lock;
        let (place, owner) = (Place { file, space }, Owner { session, owner });
        Self { user, place, owner, start, last, mode: Mode { exclusive, pid } }
    }

    /// Whether a lock of another on the same bytes is in the way.
    fn conflicts(&self, other: Mode) -> bool {
        self.mode.exclusive || other.exclusive
    }
}
