//! The server's side: a listener with one thread for each connection, and two ways to serve one.
//!
//! ```text
//!   Listener --accept--> handshake --> Handler::run(AdmittedPeer), on its own thread
//!                                       |  I/O daemon: its own loop, payload received in place
//!                                       `- CallHandler<S: CallService>: small calls in batches
//! ```
//!
//! Invariants:
//! 1. Before a peer proves its key, it has a limited time, and the server reads at most two small
//!    frames from it (I9).
//! 2. No write to a client waits without limit.
//! 3. [`Listener::stop`] ends every connection in bounded time (I8).
//!
//! No assertion checks these: they are time-outs and limits on what a peer does. `admission.rs`
//! sets those of 1, `sender.rs` that of 2, and [`Listener::stop`] waits until its own deadline (3).

mod admission;
mod call;
mod connection;
mod connection_limits;
mod listener;
mod mapped_ranges;
mod page_pipe;
mod receive_limit;
mod sender;

use std::time::Duration;

use braid_types::{ClusterUuid, ConnectionId, Failure, limits::CREDITS_DEFAULT};
use braid_wire::{Credential, NodeKind, Role, Secret};

pub use admission::AdmittedPeer;
pub use call::{CallHandler, CallService, Responder};
pub use connection::{ReceiveError, ServerConnection};
pub use listener::{Counters, Handler, Listener};
pub use mapped_ranges::MappedRange;
pub use sender::{FrameSender, SendError};

use crate::driver::TlsPolicy;

/// The authenticated peer of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The role that it may act in.
    pub role: Role,
    /// The key that it proved.
    pub credential: Credential,
    /// `host:port`.
    pub address: String,
    /// Whether it runs on this machine.
    pub loopback: bool,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// Number of the connection, unique in the listener's lifetime.
    pub connection: u64,
    /// Id of the connection, which the peer knows too.
    pub id: ConnectionId,
}

/// Decides which key a peer must prove.
pub trait Authorizer: Send + Sync + 'static {
    /// The key that `credential` must prove for `role`.
    ///
    /// # Errors
    /// Why this role or credential is refused. The peer gets this reason.
    fn secret(&self, role: Role, credential: &Credential) -> Result<Secret, Failure>;
}

/// Configuration of a [`Listener`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Kind of this server.
    pub node: NodeKind,
    /// Its stable I/O daemon id; 0 for the metadata server, and while the id is not known.
    pub node_id: u32,
    /// Its cluster.
    pub cluster: ClusterUuid,
    /// When connections use TLS.
    pub tls: TlsPolicy,
    /// Requests that each connection may have in flight.
    pub credits: u32,
    /// Maximum number of authenticated connections. Further ones are refused with a reason. Some
    /// are reserved for servers and administrators, and no user or session gets all.
    pub connections_max: usize,
    /// Maximum number of connections in their handshake. A further one closes the oldest.
    pub unauthenticated_max: usize,
    /// How long a peer may take to prove its key.
    pub handshake_timeout: Duration,
    /// How long a peer may be silent within a frame, or not read what is sent to it.
    pub stall_timeout: Duration,
    /// How long [`Listener::stop`] waits for the connections to end.
    pub stop_timeout: Duration,
}

impl ServerConfig {
    /// The defaults for a server of `cluster`.
    pub fn new(node: NodeKind, node_id: u32, cluster: ClusterUuid) -> Self {
        Self {
            node,
            node_id,
            cluster,
            tls: TlsPolicy::default(),
            credits: CREDITS_DEFAULT,
            connections_max: 4096, // a thread touches only the used part of its stack: some 20 KiB
            // a handshake takes some milliseconds: an attacker needs 50 connections in each
            unauthenticated_max: 512,
            handshake_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(10),
        }
    }
}
