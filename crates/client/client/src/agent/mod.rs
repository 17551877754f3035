//! The agent: the one process of a host that holds the host's client key and vouches for its users.
//!
//! ```text
//!   program (any user)             agent (holds the client key)            metadata server
//!     | connect(unix socket) -------> |                                        |
//!     |                               | who is it? SO_PEERCRED, /proc groups   |
//!     |                               | AgentCheck --------------------------> |
//!     |                               | <------- session, key, epoch ---------- |
//!     | <-- "BRDA" v1 · ticket, key --|                                        |
//!     | handshake with the ticket -------------------------------------------> |
//! ```
//!
//! Invariants:
//! 1. Nothing is read from the program: who it is comes from the kernel and from nowhere else.
//! 2. A ticket says uid, gid and groups, and its key is derived from all of it and the client key: a program that
//!    changes a byte has a ticket without a key.
//! 3. The client key never leaves this process.
//! 4. A ticket is given only while the agent's own session lives.
//!
//! The groups are those of the process that connected, read from `/proc/PID/status` while its socket is held. The
//! kernel's `SO_PEERGROUPS` would be exact, and is not reachable from safe code. A process that dies at once and whose
//! number is taken by another process *of the same user and group* before the file is read gets that one's groups.

mod protocol;

#[cfg(target_os = "linux")]
mod peer;
#[cfg(target_os = "linux")]
mod server;

#[cfg(target_os = "linux")]
pub use server::{Agent, Stopper, serve};

use std::path::Path;

use crate::{config::Proof, error::Result};

/// Asks the agent at a socket for a ticket.
///
/// # Errors
/// No agent is there, or it refuses.
#[cfg(unix)]
pub(crate) fn ask(socket: &Path) -> Result<Proof> {
    protocol::ask(socket).map_err(|error| error.during("ask the agent at", socket.display()))
}

/// Elsewhere there is no agent.
#[cfg(not(unix))]
pub(crate) fn ask(socket: &Path) -> Result<Proof> {
    let why = "the agent needs Unix sockets with credentials, which this system lacks";
    let error = crate::Error::new(crate::Status::Unsupported, why)
        .with_hint("a client key file of your own");
    Err(error.during("ask the agent at", socket.display()))
}
