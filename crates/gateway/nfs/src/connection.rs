//! One TCP connection: records in, compounds run, replies out.
//!
//! ```text
//!   socket ─> RecordReader ─> call ──> rpc::execute ──> writer ─> socket
//!                          └> reply ─> the callback that waits for it
//! ```
//!
//! The task of the connection runs one request itself, and reads on while that one waits. Requests
//! that arrive meanwhile run in tasks of their own. So a client that sends one request after the
//! other costs no task switch, and requests of different slots run at the same time.
//!
//! Invariants:
//! 1. At most [`REQUESTS_MAX`] requests of a connection run, with at most [`REQUEST_BYTES_MAX`]
//!    bytes, and at most [`SERVER_REQUEST_BYTES_MAX`] bytes of all connections. Further ones wait,
//!    and their connection is not read. Results of READ and READDIR have limits of the same size.
//! 2. A peer that begins a record, or does not read its replies, is disconnected after
//!    [`STALL_MAX`].

mod serve;
mod writer;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braid_nfs_wire::nfs4::SessionId;
use bytes::Bytes;
use tokio::io::AsyncWrite;
use tokio::sync::{Notify, Semaphore, oneshot};

pub use serve::serve;
use writer::Writer;

use crate::config::Transport;
use crate::rpc::RpcReply;

/// Most requests of a connection that run at the same time: the slots of one session, and some for
/// calls outside of it.
pub const REQUESTS_MAX: usize = 96;
/// Most bytes of requests that run at the same time on one connection: 16 WRITEs of 1 MiB.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;
/// Most bytes of requests that run at the same time on all connections: with the replies and the
/// rest of the gateway, this is what it may use besides its state.
pub const SERVER_REQUEST_BYTES_MAX: usize = 32 << 20;
/// Most bytes of results that wait to be sent on one connection: 16 READs of 1 MiB.
pub const REPLY_BYTES_MAX: usize = 16 << 20;
/// Most bytes of results that wait to be sent on all connections.
pub const SERVER_REPLY_BYTES_MAX: usize = 32 << 20;
/// How long a peer may take for the rest of a record that it began, and for reading a reply.
pub const STALL_MAX: Duration = Duration::from_secs(60);
/// How long a connection may be without any request. Linux itself disconnects after 6 minutes.
pub const IDLE_MAX: Duration = Duration::from_secs(900);
/// How long a new connection may be without its first request.
pub const FIRST_REQUEST_MAX: Duration = Duration::from_secs(30);
/// Most sessions that one connection is associated with.
pub const SESSIONS_MAX: usize = 64;

/// What requests and callbacks share of a connection.
#[derive(Debug)]
pub struct Connection {
    number: u64,
    peer: SocketAddr,
    transport: Transport,
    writer: Writer,
    /// Sessions whose fore channel has this connection. RFC 8881 2.10.3.1.
    sessions: Mutex<Vec<SessionId>>,
    /// Callbacks that wait for a reply, by transaction.
    callbacks: Mutex<HashMap<u32, oneshot::Sender<Bytes>>>,
    next_xid: AtomicU32,
    /// Bytes of results that may wait to be sent.
    reply_bytes: Arc<Semaphore>,
    closed: AtomicBool,
    mistaken: AtomicBool,
    close: Notify,
}

impl Connection {
    /// A connection that writes to `stream`, without TLS. `number` is unique in the server.
    pub fn new(
        number: u64,
        peer: SocketAddr,
        stream: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            number,
            peer,
            transport: Transport::Plain,
            writer: Writer::new(Box::new(stream)),
            sessions: Mutex::default(),
            callbacks: Mutex::default(),
            next_xid: AtomicU32::new(1),
            reply_bytes: Arc::new(Semaphore::new(REPLY_BYTES_MAX)),
            closed: AtomicBool::new(false),
            mistaken: AtomicBool::new(false),
            close: Notify::new(),
        }
    }

    /// The connection, whose stream is protected by `transport`.
    #[must_use]
    pub fn with_transport(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    /// Unique in the server.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The client's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// How its bytes are protected.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Bytes of results that may wait to be sent.
    pub(crate) fn reply_bytes(&self) -> &Arc<Semaphore> {
        &self.reply_bytes
    }

    /// Whether the fore channel of a session has this connection.
    pub fn is_bound(&self, session: SessionId) -> bool {
        lock(&self.sessions).contains(&session)
    }

    /// Associates the connection with the fore channel of a session.
    pub fn bind(&self, session: SessionId) {
        let mut sessions = lock(&self.sessions);
        if !sessions.contains(&session) {
            if sessions.len() == SESSIONS_MAX {
                sessions.remove(0);
            }
            sessions.push(session);
        }
    }

    /// Ends the association with a session that is destroyed.
    pub fn unbind(&self, session: SessionId) {
        lock(&self.sessions).retain(|other| *other != session);
    }

    /// Whether this is the first mistake of the peer: one is logged for people, the rest for
    /// debugging, so that a peer cannot fill the log.
    pub(crate) fn is_first_mistake(&self) -> bool {
        !self.mistaken.swap(true, Ordering::Relaxed)
    }

    /// Whether the connection ended or is ending.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends the connection. Replies that are not sent yet are lost, as when a network fails.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.close.notify_one();
        // Callbacks that wait end with an error.
        lock(&self.callbacks).clear();
    }

    /// Sends a reply. A failure closes the connection.
    pub async fn send_reply(&self, reply: RpcReply) {
        let sent = self.writer.send(&reply.header, &reply.results).await;
        if let Err(error) = sent {
            tracing::debug!(peer = %self.peer, %error, "reply not sent");
            self.close();
        }
        drop(reply.memory);
    }

    /// Sends a call and waits for its reply record. `message` makes the call for a transaction.
    /// Cancelling is safe; a late reply is ignored.
    ///
    /// # Errors
    /// [`ConnectionLost`] if the connection ended before the reply.
    pub(crate) async fn call(
        &self,
        message: impl FnOnce(u32) -> Bytes,
    ) -> Result<Bytes, ConnectionLost> {
        let (sender, receiver) = oneshot::channel();
        let pending = {
            let mut callbacks = lock(&self.callbacks);
            // After `close` nothing would remove the entry.
            if self.is_closed() {
                return Err(ConnectionLost);
            }
            let xid = loop {
                let xid = self.next_xid.fetch_add(1, Ordering::Relaxed);
                if !callbacks.contains_key(&xid) {
                    break xid;
                }
            };
            callbacks.insert(xid, sender);
            PendingCall { connection: self, xid }
        };
        if self.writer.send(&message(pending.xid), &[]).await.is_err() {
            self.close();
            return Err(ConnectionLost);
        }
        receiver.await.map_err(|_| ConnectionLost)
    }

    /// Gives a reply record to the callback that waits for it.
    fn deliver(&self, xid: u32, record: Bytes) {
        match lock(&self.callbacks).remove(&xid) {
            Some(sender) => drop(sender.send(record)),
            None => tracing::debug!(peer = %self.peer, xid, "reply to no callback"),
        }
    }
}

/// The connection ended before the reply to a callback.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the connection ended before the reply")]
pub struct ConnectionLost;

/// Removes a callback that is no longer waited for.
struct PendingCall<'a> {
    connection: &'a Connection,
    xid: u32,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        lock(&self.connection.callbacks).remove(&self.xid);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
