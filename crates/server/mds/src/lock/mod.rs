//! Locks on byte ranges and on whole files: their owners, the waits, and which is granted next.
//! Pure: no clock, no mutex, no I/O. `ops/lock.rs` has the calls.
//!
//! ```text
//!   ask ──free──────────────> held ──unlock, end of the session──> free
//!    | taken                   ^
//!    |── does not wait: answered with the holder
//!    |── its holder waits for it: a deadlock
//!    └── waits: in the queue ──granted, while a call waits with it
//!          ^ | a wait ends: answered so; the position is kept for LOCK_WAIT_FORGOTTEN_MS
//!          └─┘ waits again
//! ```
//!
//! Invariants:
//! 1. No two owners hold the same byte of one space of one file, unless both share it. An owner
//!    never conflicts with itself: a new lock replaces what the owner has there (POSIX `fcntl()`).
//! 2. No request waits for a lock that is free. When a lock is released, the waiting requests are
//!    checked in the order of their arrival. A request that conflicts with no holder does not queue
//!    behind those that do. That is Linux's rule: a program that holds one lock and takes another
//!    through a second descriptor must not wait for a stranger who waits for its first.
//! 3. A lock is granted only to a call that waits: a client that went away is granted nothing that
//!    it would not know of.
//! 4. No wait begins that would close a cycle of owners who wait for each other's byte ranges. For
//!    whole files cycles are not searched, as in Linux's `flock()`.
//! 5. While clients from before a restart may still reclaim their locks, none is granted
//!    (`granting`).
//! 6. Everything is bounded (I9): ranges of the server, of a session and of a user; waits, and
//!    those of a user.
//!
//! `LockTable::grant` asserts 1 and 6. `lock/tests.rs` checks 1, 2 and 4 against a model of single
//! bytes, after every step: an assertion would have to search all waits. `grant_waiting` looks for
//! the waiting call (3), and `ask_only` for `granting` (5), before anything is granted.

mod table;
#[cfg(test)]
mod tests;
mod waits;

use std::time::Duration;

use braid_types::{FileIndex, SessionId};
use braid_wire::message::lock::{LockHolder, LockRequest, LockSpace};

pub(crate) use table::LockTable;

use crate::session::Owner as User;

/// Locked ranges in total (I9): about 100 bytes each.
pub(crate) const LOCKS_MAX: usize = 1 << 20;
/// Locked ranges of one session.
pub(crate) const LOCKS_SESSION_MAX: usize = 1 << 18;
/// Locked ranges of the sessions of one user, or of one key: as many are left to others.
pub(crate) const LOCKS_USER_MAX: usize = LOCKS_MAX / 2;
/// Waits in total: each is checked when a lock is released that it waits for.
pub(crate) const LOCK_WAITS_MAX: usize = 16_384;
/// Waits of one user, or of one key.
pub(crate) const LOCK_WAITS_USER_MAX: usize = LOCK_WAITS_MAX / 2;
/// How long a wait without a waiting call keeps its position: longer than a client takes to connect
/// again.
pub(crate) const LOCK_WAIT_FORGOTTEN_MS: u64 = 10_000;

/// What a lock is on: a file and the kind of lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LockTarget {
    pub(crate) file: FileIndex,
    pub(crate) space: LockSpace,
}

/// The owner of a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Owner {
    pub(crate) session: SessionId,
    pub(crate) owner: u64,
}

/// The mode of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mode {
    pub(crate) exclusive: bool,
    pub(crate) pid: u32,
}

/// A request for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockRequestOf {
    /// The owner of the session, whose limit it counts against.
    pub(crate) user: User,
    pub(crate) target: LockTarget,
    pub(crate) owner: Owner,
    pub(crate) start: u64,
    pub(crate) last: u64,
    pub(crate) mode: Mode,
}

/// The name of a wait: the session, and a number that its client chose.
pub(crate) type Ticket = (SessionId, u64);

/// The result of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LockResult {
    Granted,
    Held(LockHolder),
    Waiting,
    Deadlock,
    /// The table is full.
    Full,
    /// Clients from before a restart may still reclaim their locks.
    InGracePeriod,
}

/// The result of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitOutcome {
    Granted,
    StillWaiting,
    NoSuchWait,
    Cancelled,
    Deadlock,
    Full,
}

/// Calls to answer when the server's lock is released.
pub(crate) type Answers<W> = Vec<(W, WaitOutcome)>;

/// A call that waits with a ticket, and when it is to be answered that it still waits.
#[derive(Debug)]
pub(crate) struct WaitingCall<W> {
    pub(crate) call: W,
    pub(crate) until: Duration,
}

impl LockRequestOf {
    pub(crate) fn of((session, user): (SessionId, User), lock: &LockRequest) -> Self {
        let LockRequest { file, space, owner, pid, start, last, exclusive } = *lock;
        let (target, owner) = (LockTarget { file, space }, Owner { session, owner });
        Self { user, target, owner, start, last, mode: Mode { exclusive, pid } }
    }

    /// Whether a lock of another owner on the same bytes conflicts.
    fn conflicts(&self, other: Mode) -> bool {
        self.mode.exclusive || other.exclusive
    }
}
