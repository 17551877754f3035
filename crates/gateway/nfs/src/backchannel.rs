//! The back channel of a session: calls of this server to the client, over connections that the
//! client made. RFC 8881 2.10.3.
//!
//! ```text
//!   call(op) ─> free slot ─> CB_SEQUENCE, op ─> latest open connection ─> reply ─> slot is free
//!                                  └── connection lost, no reply: the same numbers on another one
//! ```
//!
//! Invariants:
//! 1. A slot has at most one callback in flight, and its numbers rise by 1 with each callback that
//!    the client accepted.
//! 2. A call ends: with a reply, when the session ends, or after [`CALL_MAX`].

mod call;
mod slots;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use braid_nfs_wire::nfs4::args::CallbackSecurity;
use braid_nfs_wire::nfs4::{NfsStatus, SequenceStatus, SessionId};
use thiserror::Error;
use tokio::sync::Notify;

use crate::connection::Connection;
use crate::state::sessions::ChannelLimits;
use slots::CallbackSlots;

/// Most connections of a back channel that are remembered; callbacks use the latest one.
const CONNECTIONS_MAX: usize = 16;
/// How long a client may take for the reply to one callback. It answers a recall before it has
/// returned anything, so this is a round trip and a little work.
pub const REPLY_MAX: Duration = Duration::from_secs(15);
/// How long one call waits in all, for a free slot, a connection and replies.
pub const CALL_MAX: Duration = Duration::from_secs(60);
/// Pause before a callback is repeated to which the client answered DELAY.
const DELAY_PAUSE: Duration = Duration::from_millis(100);

/// Why a callback has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CallbackError {
    /// The session was destroyed, or its client ended.
    #[error("the session has ended")]
    SessionEnded,
    /// The client did not reply in [`CALL_MAX`], on any connection.
    #[error("the client did not answer a callback in {CALL_MAX:?}")]
    NoReply,
    /// The client answered CB_SEQUENCE with an error.
    #[error("the client refused a callback: {0}")]
    Refused(NfsStatus),
    /// The client's RPC layer refused the call, or the reply cannot be understood.
    #[error("the client's reply to a callback is malformed")]
    Malformed,
}

/// The back channel of a session.
#[derive(Debug)]
pub struct BackChannel {
    session: SessionId,
    /// Linux finds the session by its name and this.
    minor_version: u32,
    limits: ChannelLimits,
    inner: Mutex<Inner>,
    /// Notified when a connection or a slot becomes available, and at the end.
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    /// The program number that the client chose.
    program: u32,
    /// Credentials that the client accepts.
    security: Vec<CallbackSecurity>,
    /// Connections for callbacks, the latest last.
    connections: Vec<Weak<Connection>>,
    slots: CallbackSlots,
    /// Whether the client ever asked for a back channel.
    wanted: bool,
    /// Whether the client's answers made no sense.
    faulty: bool,
    closed: bool,
}

impl BackChannel {
    /// A back channel without connections.
    pub fn new(
        session: SessionId,
        minor_version: u32,
        limits: ChannelLimits,
        program: u32,
        security: Vec<CallbackSecurity>,
    ) -> Self {
        let inner = Mutex::new(Inner {
            program,
            security,
            connections: Vec::new(),
            slots: CallbackSlots::new(limits.slots),
            wanted: false,
            faulty: false,
            closed: false,
        });
        Self { session, minor_version, limits, inner, changed: Notify::new() }
    }

    /// What CREATE_SESSION granted.
    pub fn limits(&self) -> &ChannelLimits {
        &self.limits
    }

    /// Adds a connection for callbacks.
    pub fn bind(&self, connection: &Arc<Connection>) {
        let mut inner = self.lock();
        inner.wanted = true;
        inner.faulty = false;
        inner.remove(connection);
        if inner.connections.len() == CONNECTIONS_MAX {
            inner.connections.remove(0);
        }
        inner.connections.push(Arc::downgrade(connection));
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Changes the program and the credentials: BACKCHANNEL_CTL.
    pub fn set_parameters(&self, program: u32, security: Vec<CallbackSecurity>) {
        let mut inner = self.lock();
        inner.program = program;
        inner.security = security;
    }

    /// Whether a callback can be sent now.
    pub fn is_up(&self) -> bool {
        let inner = self.lock();
        !inner.closed && inner.connection().is_some()
    }

    /// What SEQUENCE reports about the back channel. RFC 8881 18.46.3.
    pub fn status(&self) -> SequenceStatus {
        let inner = self.lock();
        let mut status = SequenceStatus::empty();
        if inner.wanted && inner.connection().is_none() {
            // Clients bind a connection for either; one session is the rule.
            status |= SequenceStatus::CB_PATH_DOWN | SequenceStatus::CB_PATH_DOWN_SESSION;
        }
        if inner.faulty {
            status |= SequenceStatus::BACKCHANNEL_FAULT;
        }
        status
    }

    /// Ends the back channel with its session. Callbacks in flight fail.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
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

    /// Removes a connection, and those that ended.
    fn remove(&mut self, connection: &Arc<Connection>) {
        self.connections.retain(|other| {
            let other = other.upgrade().filter(|other| !other.is_closed());
            other.is_some_and(|other| other.number() != connection.number())
        });
    }
}

#[cfg(test)]
mod tests;
