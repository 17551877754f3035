//! Tasks that are processes without MPI: the first task listens, the others connect to it.
//!
//! ```text
//!   task r                                     task 0, the root
//!   hello: size, rank, nonce        ───────►   anything else, or too slow: connection dropped
//!   checks the root's proof         ◄───────   nonce, proof of the secret over both nonces
//!   proof of the secret over both   ───────►   only now is it a task; a used rank is refused
//!                                   ◄───────   joined: when all are there
//!   give: how long it waits, bytes  ───────►   } one round
//!                                   ◄───────   all: everybody's bytes      }
//!                                   ◄───────   failed: why, when a task is lost or late
//! ```
//!
//! Invariants:
//! 1. From a connection that has not proved the secret, 80 bytes are read, and it is kept for at
//!    most [`join::HELLO_TIME`].
//! 2. Every later frame has a MAC over its sequence number, with a key of its own direction and
//!    connection. An injected, repeated or reordered frame ends the group and is never taken for a
//!    task's bytes.
//! 3. Lengths are checked before memory is allocated, and memory is allocated as bytes arrive (I9).
//! 4. Only the root decides whether a task is lost or late. The others wait [`ROOT_REPLY_TIMEOUT`]
//!    longer for its decision, so that the clock of one task causes no different outcome.
//! 5. After `fork` the task is the parent. A child sends nothing, waits for no lock and no thread
//!    of the group, and leaves its connections unchanged.
//!
//! These are checks of what others send, not assertions: `join.rs` limits what an unproved
//! connection may send (1), `frame.rs` verifies each frame and its length (2, 3), and `member.rs`
//! adds the time of 4. Every call and drop compares the mark of `fork.rs` first (5).
//!
//! The bytes of the tasks are not encrypted: anyone who can read the network can read them.

mod frame;
pub mod fuzzing;
mod join;
mod member;
mod proof;
mod root;

use std::{
    fmt, io,
    net::{TcpListener, ToSocketAddrs},
    time::Duration,
};

use braid_types::Status;
use braid_wire::Secret;

use super::{Group, deadline, group_error};
use crate::{Error, Result};

use member::Member;
use root::Root;

/// How much longer than its own `time_max` a task waits for the root to report the outcome of a
/// round.
const ROOT_REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest payload of one task in a round, in bytes: 64 times the largest list of extents in
/// one message.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// The largest payload of all tasks in a round, in bytes (I9): 1,000 tasks with a list of extents
/// each.
pub(crate) const ALL_PAYLOADS_BYTES_MAX: usize = 256 << 20;
/// The largest number of tasks in a group: the root has a connection and a thread for each.
const SIZE_MAX: u32 = 16_384;

/// A task of a program whose tasks find each other over TCP. When it is dropped, it is lost for the
/// others.
///
/// The tasks need one address, at which task 0 listens, and one secret: 32 random bytes, which the
/// launcher of the tasks passes to each of them.
///
/// ```
/// use std::{net::TcpListener, thread, time::Duration};
/// use braid_client::{Group, Secret, TcpGroup};
/// let secret = Secret::from_bytes([7; 32]); // better: random
/// let time_max = Duration::from_secs(30);
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let key = secret.clone();
/// let other = thread::spawn(move || {
///     TcpGroup::join(address, 1, 2, &key, time_max)?.all_gather(b"world", time_max)
/// });
/// let group = TcpGroup::listen(listener, 2, &secret, time_max)?;
/// assert_eq!(group.all_gather(b"hello", time_max)?, [b"hello", b"world"]);
/// assert_eq!(other.join().unwrap()?, [b"hello", b"world"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TcpGroup {
    rank: u32,
    size: u32,
    end: GroupRole,
}

enum GroupRole {
    Root(Root),
    Member(Member),
}

impl TcpGroup {
    /// Joins a group of `size` as task `rank`. Task 0 listens at `address`; the others connect to
    /// it, and retry until it listens. Returns when all tasks are there.
    ///
    /// # Errors
    /// [`Status::AuthenticationFailed`] if the listener at the address has another secret;
    /// [`Status::Unreachable`] if a task did not come within `time_max`; [`Status::Invalid`] for a
    /// rank that another task has, or a size that differs from the root's.
    pub fn join(
        address: impl ToSocketAddrs,
        rank: u32,
        size: u32,
        secret: &Secret,
        time_max: Duration,
    ) -> Result<Self> {
        check(rank, size)?;
        if rank == 0 {
            let listener = TcpListener::bind(address).map_err(|error| {
                group_error(Error::new(
                    Status::Unreachable,
                    format!("task 0 cannot listen: {error}"),
                ))
                .with_hint("an address of this host and a free port")
            })?;
            return Self::listen(listener, size, secret, time_max);
        }
        let member = Member::join(address, rank, size, secret, deadline(time_max))?;
        Ok(Self { rank, size, end: GroupRole::Member(member) })
    }

    /// Task 0 of a group of `size`, with an existing listener: so a program can choose a free port
    /// before it starts the other tasks. Returns when all tasks are there.
    ///
    /// # Errors
    /// As [`TcpGroup::join`].
    pub fn listen(
        listener: TcpListener,
        size: u32,
        secret: &Secret,
        time_max: Duration,
    ) -> Result<Self> {
        check(0, size)?;
        let root = Root::listen(listener, size, secret, time_max)?;
        Ok(Self { rank: 0, size, end: GroupRole::Root(root) })
    }
}

fn check(rank: u32, size: u32) -> Result<()> {
    let why = match () {
        () if size == 0 || size > SIZE_MAX => {
            format!("a group has 1 to {SIZE_MAX} tasks, not {size}")
        }
        () if rank >= size => format!("there is no task {rank} among {size}: the first is 0"),
        () => return Ok(()),
    };
    Err(group_error(Error::new(Status::Invalid, why)).with_hint("ranks 0, 1, … of one size"))
}

/// Checks that the other tasks accept a payload of this length.
fn check_payload(mine: &[u8]) -> Result<()> {
    if mine.len() <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    let why = format!("a task sends {} bytes; the limit is {PAYLOAD_BYTES_MAX}", mine.len());
    Err(group_error(Error::new(Status::TooLarge, why)).with_hint("less in one round"))
}

/// The reason why a connection is unusable, in a few words.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        _ => error.to_string(),
    }
}

impl Group for TcpGroup {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    /// At most 16 MiB of each task and 256 MiB of all.
    fn all_gather(&self, mine: &[u8], time_max: Duration) -> Result<Vec<Vec<u8>>> {
        match &self.end {
            GroupRole::Root(root) => root.all_gather(mine, time_max),
            GroupRole::Member(member) => member.all_gather(mine, time_max),
        }
    }
}

impl fmt::Debug for TcpGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpGroup").field("rank", &self.rank).field("size", &self.size).finish()
    }
}
