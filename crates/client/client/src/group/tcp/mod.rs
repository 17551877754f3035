//! Tasks that are processes without MPI: the first task listens, the others connect to it.
//!
//! ```text
//!   task r                                     task 0, the root
//!   hello: size, rank, nonce        ───────►   anything else, or too slow: the connection is dropped
//!   checks the root's proof         ◄───────   nonce, proof of the secret over both nonces
//!   proof of the secret over both   ───────►   only now is it a task; a rank taken twice is refused
//!                                   ◄───────   joined: when all are there
//!   give: how long it waits, bytes  ───────►   } one round
//!                                   ◄───────   all: everybody's bytes      }
//!                                   ◄───────   failed: why, when a task is lost or late
//! ```
//!
//! Invariants: (1) from a connection that has not proved the secret 80 bytes are read and none kept longer than [`join::HELLO_TIME`];
//! (2) every frame after that carries a MAC of a key of its own direction and connection over its sequence number: what is
//! injected, repeated or reordered ends the group and is never taken for a task's bytes; (3) lengths are checked before memory is
//! taken, and memory is taken as bytes arrive (I9); (4) the root alone judges whether a task is lost or late: the others give its word
//! [`VERDICT_TIME`] to arrive, so that one task's clock makes no outcome of its own; (5) after `fork` the task is the parent: a child sends
//! nothing, waits for no lock and no thread of the group, and leaves its connections as they are.
//!
//! Bytes that tasks give are not secret: who can read the network can read them.

mod frame;
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

use super::{Group, deadline, meeting};
use crate::{Error, Result};

use member::Member;
use root::Root;

/// How much longer than its own `time_max` a task waits for the root to say what became of a round.
const VERDICT_TIME: Duration = Duration::from_secs(2);
/// What one task may give in a round, in bytes: 64 times the largest list of extents that one message holds.
pub(crate) const GIVEN_BYTES_MAX: usize = 16 << 20;
/// What all tasks may give in a round, in bytes (I9): 1,000 tasks with a list of extents each.
pub(crate) const ALL_BYTES_MAX: usize = 256 << 20;
/// Tasks of a group: the root has a connection and a thread for each.
const SIZE_MAX: u32 = 16_384;

/// A task of a program whose tasks find each other over TCP. Dropped, it is lost to the others.
///
/// What they need to know is one address, where task 0 listens, and one secret: 32 random bytes, which the one who starts the tasks
/// gives to each of them.
///
/// ```
/// use std::{net::TcpListener, thread, time::Duration};
/// use braid_client::{Group, Secret, TcpGroup};
/// let (secret, time_max) = (Secret::from_bytes([7; 32]), Duration::from_secs(30)); // better: random
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let key = secret.clone();
/// let other = thread::spawn(move || TcpGroup::join(address, 1, 2, &key, time_max)?.all_gather(b"world", time_max));
/// let group = TcpGroup::listen(listener, 2, &secret, time_max)?;
/// assert_eq!(group.all_gather(b"hello", time_max)?, [b"hello", b"world"]);
/// assert_eq!(other.join().unwrap()?, [b"hello", b"world"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TcpGroup {
    rank: u32,
    size: u32,
    end: End,
}

enum End {
    Root(Root),
    Member(Member),
}

impl TcpGroup {
    /// Joins a group of `size` as task `rank`: task 0 listens at `address`, the others connect to it, also before it listens. Returns
    /// when all are there.
    ///
    /// # Errors
    /// [`Status::AuthenticationFailed`] when what listens there has another secret; [`Status::Unreachable`] when a task did not come
    /// within `time_max`; [`Status::Invalid`] for a rank that another task has, or a size that is not the root's.
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
                meeting(Error::new(Status::Unreachable, format!("task 0 cannot listen: {error}")))
                    .with_hint("an address of this host and a free port")
            })?;
            return Self::listen(listener, size, secret, time_max);
        }
        let member = Member::join(address, rank, size, secret, deadline(time_max))?;
        Ok(Self { rank, size, end: End::Member(member) })
    }

    /// Task 0 of a group of `size`, at a listener that it has already: how a program learns of a free port before it starts the
    /// others. Returns when all are there.
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
        Ok(Self { rank: 0, size, end: End::Root(root) })
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
    Err(meeting(Error::new(Status::Invalid, why)).with_hint("ranks 0, 1, … of one size"))
}

/// What a task gives is of a length that the others take.
fn check_given(mine: &[u8]) -> Result<()> {
    if mine.len() <= GIVEN_BYTES_MAX {
        return Ok(());
    }
    let why = format!("a task gives {} bytes, and {GIVEN_BYTES_MAX} is the most", mine.len());
    Err(meeting(Error::new(Status::TooLarge, why)).with_hint("less in one round"))
}

/// Why a connection is of no more use, in a few words.
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
            End::Root(root) => root.all_gather(mine, time_max),
            End::Member(member) => member.all_gather(mine, time_max),
        }
    }
}

impl fmt::Debug for TcpGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpGroup").field("rank", &self.rank).field("size", &self.size).finish()
    }
}
