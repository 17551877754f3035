//! The server's side: a listener with one thread for each connection, and two ways to serve one.
//!
//! ```text
//!   Listener --accept--> thread: handshake --> Handler::run(Newcomer)
//!                                                |  I/O daemon: its own loop, payload straight into place
//!                                                `- CallHandler<S: CallService>: small calls in batches
//! ```
//!
//! Invariants: (1) before a peer proved its key it has a bounded time and makes the server take no more
//! than two small frames (I9); (2) no write to a client waits for ever; (3) [`Listener::stop`] ends every
//! connection in bounded time (I8).

mod admission;
mod call;
mod connection;
mod inflow;
mod listener;
mod pages;
mod pieces;
mod places;
mod sender;

use std::time::Duration;

use braid_types::{ClusterUuid, ConnectionId, Failure, limits::CREDITS_DEFAULT};
use braid_wire::{Credential, NodeKind, Role, Secret};

pub use admission::Newcomer;
pub use call::{CallHandler, CallService, Responder};
pub use connection::{End, ServerConnection};
pub use listener::{Counters, Handler, Listener};
pub use pieces::MappedPiece;
pub use sender::{FrameSender, SendError};

use crate::driver::TlsPolicy;

/// Who is at the other end of a connection, proved.
#[derive(Clone, Debug)]
pub struct Peer {
    /// What it may ask.
    pub role: Role,
    /// Which key it proved.
    pub credential: Credential,
    /// `host:port`.
    pub address: String,
    /// Whether it is on this machine.
    pub loopback: bool,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// Number of the connection, unique in the life of the listener.
    pub connection: u64,
    /// Its id, which the peer knows too.
    pub id: ConnectionId,
}

/// Decides which key a peer must prove.
pub trait Authorizer: Send + Sync + 'static {
    /// The key that `credential` must prove for `role`.
    ///
    /// # Errors
    /// Why this role or credential is refused; the peer is told.
    fn secret(&self, role: Role, credential: &Credential) -> Result<Secret, Failure>;
}

/// How a [`Listener`] serves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerConfig {
    /// What this server is.
    pub node: NodeKind,
    /// Its stable I/O daemon id, 0 for the metadata server or while it is not known.
    pub node_id: u32,
    /// Its cluster.
    pub cluster: ClusterUuid,
    /// When connections use TLS.
    pub tls: TlsPolicy,
    /// Requests that each connection may have in flight.
    pub credits: u32,
    /// Connections of proved peers at a time; one more is told so and closed. Some of them are left to servers and administrators,
    /// and no user and no session has all.
    pub connections_max: usize,
    /// Connections in their handshake at a time; of more the oldest is closed.
    pub newcomers_max: usize,
    /// How long a peer has to prove its key.
    pub handshake_timeout: Duration,
    /// How long a peer may stay silent in the middle of a frame, or not read what it is sent.
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
            connections_max: 4096, // a thread's stack is only touched where it is used: some 20 KiB each
            newcomers_max: 512, // a handshake takes some milliseconds: who floods the port must be faster than 50 for each
            handshake_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(10),
        }
    }
}
