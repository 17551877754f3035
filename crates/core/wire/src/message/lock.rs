//! Locks: requests, holders, and outcomes.

use braid_types::{FileIndex, SessionId};

use crate::codec::{wire_enum, wire_struct};

wire_struct! {
    /// A lock that is requested or held: its owner and its bytes.
    pub struct LockRequest {
        /// The file; also a directory or a special file.
        file: FileIndex,
        /// The kind of lock. Locks of different kinds never conflict.
        space: LockSpace,
        /// The owner within the session: a process or an open file. Locks of one owner never
        /// conflict.
        owner: u64,
        /// The process, for `F_GETLK`. The server only reports it.
        pid: u32,
        /// The first byte.
        start: u64,
        /// The last byte, inclusive. Bytes from 2^63 on belong to no file; programs that share a
        /// file may agree on a meaning of their own.
        last: u64,
        /// Exclusive, or shared with other shared locks.
        exclusive: bool,
    }

    /// Bytes to unlock.
    pub struct LockRange {
        /// The file.
        file: FileIndex,
        /// The kind of lock.
        space: LockSpace,
        /// The owner.
        owner: u64,
        /// The first byte.
        start: u64,
        /// The last byte, inclusive.
        last: u64,
    }

    /// A lock that conflicts.
    pub struct LockHolder {
        /// The session of its owner.
        session: SessionId,
        /// Its owner.
        owner: u64,
        /// The process, as reported by its owner.
        pid: u32,
        /// The first byte.
        start: u64,
        /// The last byte, inclusive.
        last: u64,
        /// Whether it is exclusive.
        exclusive: bool,
    }

    /// The reply to a lock request.
    pub struct LockReply {
        /// The outcome.
        outcome: LockOutcome,
        /// The conflicting lock, with [`LockOutcome::Held`].
        holder: Option<LockHolder>,
    }
}

wire_enum! {
    /// A kind of lock.
    pub enum LockSpace {
        /// Ranges of bytes: `fcntl()` locks of processes and of open files.
        Range = 1,
        /// Whole files: `flock()`.
        Whole = 2,
    }

    /// The outcome of a lock request.
    pub enum LockOutcome {
        /// The owner has the lock.
        Granted = 1,
        /// A conflicting lock exists, and the request does not wait.
        Held = 2,
        /// The request waits in the queue.
        Waiting = 3,
        /// The server knows no such wait, and the owner does not have the lock: request it again.
        NoSuchWait = 4,
        /// The wait was cancelled.
        Cancelled = 5,
    }
}

impl LockReply {
    /// A reply without a conflicting lock.
    pub fn without_holder(outcome: LockOutcome) -> Self {
        Self { outcome, holder: None }
    }
}
