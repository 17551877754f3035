//! The back channel of a session: calls of this server to the client. RFC 8881 2.10.3.
//!
//! Invariants:
//! 1. A slot of the back channel has at most one callback in flight, and its sequence numbers rise
//!    by 1 with each callback that was sent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use braid_nfs_wire::nfs4::args::CallbackSecurity;

use crate::connection::Connection;
use crate::state::sessions::ChannelLimits;

/// Most connections of a back channel that are remembered; callbacks use the latest one.
const CONNECTIONS_MAX: usize = 16;

/// The back channel of a session.
#[derive(Debug)]
pub struct BackChannel {
    limits: ChannelLimits,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// The program number that the client chose.
    program: u32,
    /// Credentials that the client accepts.
    security: Vec<CallbackSecurity>,
    /// Connections for callbacks, the latest last.
    connections: Vec<Weak<Connection>>,
    /// Whether the client ever asked for a back channel.
    wanted: bool,
    closed: bool,
}

impl BackChannel {
    /// A back channel without connections.
    pub fn new(limits: ChannelLimits, program: u32, security: Vec<CallbackSecurity>) -> Self {
        let connections = Vec::new();
        let inner = Inner { program, security, connections, wanted: false, closed: false };
        Self { limits, inner: Mutex::new(inner) }
    }

    /// What CREATE_SESSION granted.
    pub fn limits(&self) -> &ChannelLimits {
        &self.limits
    }

    /// Adds a connection for callbacks.
    pub fn bind(&self, connection: &Arc<Connection>) {
        let mut inner = self.lock();
        inner.wanted = true;
        inner.connections.retain(|other| {
            other
                .upgrade()
                .is_some_and(|other| !other.is_closed() && other.number() != connection.number())
        });
        if inner.connections.len() == CONNECTIONS_MAX {
            inner.connections.remove(0);
        }
        inner.connections.push(Arc::downgrade(connection));
    }

    /// Changes the program and the credentials: BACKCHANNEL_CTL.
    pub fn set_parameters(&self, program: u32, security: Vec<CallbackSecurity>) {
        let mut inner = self.lock();
        inner.program = program;
        inner.security = security;
    }

    /// Whether the client wanted callbacks and cannot be reached.
    pub fn is_down(&self) -> bool {
        let inner = self.lock();
        inner.wanted && inner.connection().is_none()
    }

    /// Whether a callback waits for its reply.
    pub fn is_busy(&self) -> bool {
        false
    }

    /// Ends the back channel with its session.
    pub fn close(&self) {
        self.lock().closed = true;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The latest connection that is open.
    fn connection(&self) -> Option<Arc<Connection>> {
        let open = |weak: &Weak<Connection>| weak.upgrade().filter(|it| !it.is_closed());
        self.connections.iter().rev().find_map(open)
    }
}
