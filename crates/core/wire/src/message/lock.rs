//! Locks: who wants which bytes how, and what came of it.

use braid_types::{FileIndex, SessionId};

use crate::codec::{wire_enum, wire_struct};

wire_struct! {
    /// A lock that is wanted or held: of whom, and on which bytes.
    pub struct LockRequest {
        /// The file; also a directory or a special file.
        file: FileIndex,
        /// Which kind of locks it is: those of one kind do not see those of the other.
        space: LockSpace,
        /// Who owns it, in the session: a process, or an open file. Its locks never conflict with each other.
        owner: u64,
        /// The process, for `F_GETLK`; the server only tells it.
        pid: u32,
        /// The first byte.
        start: u64,
        /// The last byte, itself included. Bytes from 2^63 on are no byte of any file: programs that share a file may agree
        /// on a meaning of their own.
        last: u64,
        /// Alone, or with others that are not alone either.
        exclusive: bool,
    }

    /// Bytes that are let go.
    pub struct LockRange {
        /// The file.
        file: FileIndex,
        /// Which kind of locks.
        space: LockSpace,
        /// Whose.
        owner: u64,
        /// The first byte.
        start: u64,
        /// The last byte, itself included.
        last: u64,
    }

    /// A lock that is in the way.
    pub struct LockHolder {
        /// The session of its owner.
        session: SessionId,
        /// Its owner.
        owner: u64,
        /// The process, as its owner told it.
        pid: u32,
        /// The first byte.
        start: u64,
        /// The last byte, itself included.
        last: u64,
        /// Whether it is alone.
        exclusive: bool,
    }

    /// What became of a request for a lock.
    pub struct LockReply {
        /// In one word.
        outcome: LockOutcome,
        /// Who is in the way, with [`LockOutcome::Held`].
        holder: Option<LockHolder>,
    }
}

wire_enum! {
    /// A kind of locks.
    pub enum LockSpace {
        /// Ranges of bytes: `fcntl()` locks of processes and of open files.
        Range = 1,
        /// Whole files: `flock()`.
        Whole = 2,
    }

    /// What became of a request for a lock.
    pub enum LockOutcome {
        /// The owner has it.
        Granted = 1,
        /// Another has it, and the request does not wait.
        Held = 2,
        /// It waits in the queue.
        Waiting = 3,
        /// The server knows of no such wait, and the owner does not have the lock: to be asked for anew.
        Gone = 4,
        /// The wait was cancelled.
        Cancelled = 5,
    }
}

impl LockReply {
    /// A reply that names nobody.
    pub fn plain(outcome: LockOutcome) -> Self {
        Self { outcome, holder: None }
    }
}
