//! What the server asks of the world: I/O daemons, threads, time. It needs no chance:
//! secrets are derived from the server key, ids are counted. The daemon answers with
//! sockets and threads, the simulation with events of its scheduler, tests with what they please.

use std::{sync::Arc, time::Duration};

use braid_net::{Answer, NetError};
use braid_types::{IodId, Timestamp};

/// What goes on when an I/O daemon has answered, or could not.
pub type LinkDone = Box<dyn FnOnce(Result<Answer, NetError>) + Send>;

/// The way to the I/O daemons. A call ends, one way or the other, in bounded time (I8).
pub trait IodLink: Send + Sync + 'static {
    /// Asks a daemon; `done` is called once, on any thread, maybe before this returns.
    fn call(&self, iod: IodId, op: u16, body: Vec<u8>, done: LinkDone);

    /// Where a daemon is from now on.
    fn locate(&self, iod: IodId, addresses: &[String]);
}

/// Runs what would block: forcing the log.
pub trait Spawner: Send + Sync + 'static {
    /// Runs `job`, on any thread, maybe before this returns.
    fn spawn(&self, job: Box<dyn FnOnce() + Send>);
}

/// Time.
pub trait Clock: Send + Sync + 'static {
    /// Since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;

    /// The wall clock: what files are stamped with.
    fn wall(&self) -> Timestamp;
}

/// All of them.
#[derive(Clone)]
pub struct Environment {
    /// The way to the I/O daemons.
    pub link: Arc<dyn IodLink>,
    /// Runs what would block.
    pub spawner: Arc<dyn Spawner>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment")
    }
}
