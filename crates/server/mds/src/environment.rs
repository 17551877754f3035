//! What the core needs from outside: I/O daemons, threads, time. It needs no random numbers:
//! secrets are derived from the server key, and ids are counted. The daemon provides sockets and
//! threads, the simulation events of its scheduler, and each test its own stubs.

use std::{sync::Arc, time::Duration};

use braid_net::{Answer, NetError};
use braid_types::{IodId, Timestamp};

/// Called when an I/O daemon has answered, or could not.
pub type LinkDone = Box<dyn FnOnce(Result<Answer, NetError>) + Send>;

/// Calls to the I/O daemons. Each call ends in bounded time, with an answer or an error (I8).
pub trait IodLink: Send + Sync + 'static {
    /// Calls a daemon. `done` is called once, on any thread, possibly before this returns.
    fn call(&self, iod: IodId, op: u16, body: Vec<u8>, done: LinkDone);

    /// Sets the addresses of a daemon for later calls.
    fn locate(&self, iod: IodId, addresses: &[String]);
}

/// Runs work that would block: a sync of the log.
pub trait Spawner: Send + Sync + 'static {
    /// Runs `job`, on any thread, possibly before this returns.
    fn spawn(&self, job: Box<dyn FnOnce() + Send>);
}

/// Time.
pub trait Clock: Send + Sync + 'static {
    /// The time since some fixed moment. It never decreases.
    fn monotonic(&self) -> Duration;

    /// The wall clock: the times of files.
    fn wall(&self) -> Timestamp;
}

/// All of these.
#[derive(Clone)]
pub struct Environment {
    /// Calls to the I/O daemons.
    pub link: Arc<dyn IodLink>,
    /// Runs work that would block.
    pub spawner: Arc<dyn Spawner>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment")
    }
}
