//! The agent: the process of a host that holds the host's client key and issues tickets to its
//! users.
//!
//! ```text
//!   program (any user)             agent (holds the client key)            metadata server
//!     | connect(unix socket) -------> |                                        |
//!     |                               | which user? SO_PEERCRED, /proc groups  |
//!     |                               | AgentCheck --------------------------> |
//!     |                               | <------- session, key, epoch --------- |
//!     | <-- "BRDA" v1 · ticket, key --|                                        |
//!     | handshake with the ticket -------------------------------------------> |
//! ```
//!
//! Invariants:
//! 1. Nothing is read from the program: its identity comes only from the kernel.
//! 2. A ticket contains uid, gid and groups, and its key is derived from all of them and the client
//!    key. A program that changes a byte has a ticket without a valid key.
//! 3. The client key never leaves this process.
//! 4. A ticket is issued only while the agent's own session is valid.
//!
//! No assertion checks these. The reply is made from the kernel's credentials alone (1) after the
//! agent's own session was checked (4), `Ticket::secret` derives the key (2), and no message has a
//! field for the client key (3).
//!
//! The groups are those of the process that connected, read from `/proc/PID/status` while its
//! socket is open. The kernel's `SO_PEERGROUPS` would be exact, but safe code cannot use it.
//! Suppose that the process dies immediately, and its number is taken by another process *of the
//! same user and group* before the file is read. Then the ticket contains the groups of that
//! process.

mod protocol;

#[cfg(target_os = "linux")]
mod peer;
#[cfg(target_os = "linux")]
mod server;

#[cfg(target_os = "linux")]
pub use server::{Agent, Stopper, serve};

use std::path::Path;

use crate::{config::Proof, error::Result};

/// Requests a ticket from the agent at a socket.
///
/// # Errors
/// No agent listens there, or it refuses.
#[cfg(unix)]
pub(crate) fn ask(socket: &Path) -> Result<Proof> {
    protocol::ask(socket).map_err(|error| error.during("ask the agent at", socket.display()))
}

/// Other systems have no agent.
#[cfg(not(unix))]
pub(crate) fn ask(socket: &Path) -> Result<Proof> {
    let why = "the agent needs Unix sockets with credentials, which this system lacks";
    let error = crate::Error::new(crate::Status::Unsupported, why)
        .with_hint("a client key file of your own");
    Err(error.during("ask the agent at", socket.display()))
}
