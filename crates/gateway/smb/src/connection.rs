//! One TCP connection: frames in, requests run, responses out.
//!
//! ```text
//!   socket ─> frame ─> [decrypt] ─> messages, one after the other ─> [sign, encrypt] ─> socket
//! ```
//!
//! The task of the connection runs one frame itself, and reads on while that one waits. Frames that
//! arrive meanwhile run in tasks of their own. So a client that sends one request after the other
//! costs no task switch, and requests in frames of their own run at the same time.
//!
//! Invariants:
//! 1. At most [`FRAMES_MAX`] frames of a connection run or have a response that waits, with at most
//!    [`FRAME_BYTES_RUNNING_MAX`] bytes of requests and [`RESPONSE_BYTES_MAX`] bytes of long
//!    responses, and at most [`SERVER_FRAME_BYTES_MAX`] and [`SERVER_RESPONSE_BYTES_MAX`] bytes of
//!    all connections ([`budget`]). A connection with [`RESPONSE_BYTES_UNSENT`] bytes of responses
//!    that wait for its peer is not read.
//! 2. A peer that begins a frame, or does not read its responses, is disconnected after
//!    [`STALL_MAX`].
//! 3. The first frames negotiate; a connection that asks for anything else before is ended.

pub mod budget;
pub mod credits;
pub mod negotiated;
mod serve;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use braid_smb_wire::protect::PreauthHash;
use bytes::Bytes;
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use budget::Budget;
use credits::{CREDITS_BEFORE_LOGON, CREDITS_MAX, Credits};
use negotiated::Negotiated;
pub use serve::serve;
use writer::Writer;

use crate::logon::PendingLogon;
use crate::pending::PendingRequests;

/// Most bytes of a READ, a WRITE, and other data (MaxTransactSize, MaxReadSize, MaxWriteSize).
/// Windows and Samba offer 8 MiB; larger calls do not make our stripes faster.
pub const TRANSFER_BYTES_MAX: u32 = 8 << 20;
/// The same for SMB 2.0.2, which has no credits for more (MS-SMB2 3.3.5.4).
pub const TRANSFER_BYTES_MAX_202: u32 = 64 << 10;
/// Most bytes of a frame: a WRITE, with what goes around it and a few requests beside it.
pub const FRAME_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + (64 << 10);
/// Most bytes of a frame before a user has logged on: a NEGOTIATE or SESSION_SETUP, whose token
/// has at most 64 KiB. So strangers take little memory, and little of what all connections share.
pub const FRAME_BYTES_BEFORE_LOGON: usize = 72 << 10;
/// Most frames of a connection that run, or whose response waits to be sent.
pub const FRAMES_MAX: usize = 256;
/// The same before a user has logged on.
pub const FRAMES_BEFORE_LOGON: usize = 2;
/// Most bytes of frames that run at the same time on one connection.
pub const FRAME_BYTES_RUNNING_MAX: usize = 32 << 20;
/// Most bytes of frames that run at the same time on all connections.
pub const SERVER_FRAME_BYTES_MAX: usize = 64 << 20;
/// The same of all connections without a session together, which take nothing of the others'.
pub const SERVER_FRAME_BYTES_BEFORE_LOGON: usize = 8 << 20;
/// Most bytes of responses of one connection that are made or wait to be sent: five of the longest.
pub const RESPONSE_BYTES_MAX: usize = 40 << 20;
/// Bytes of responses that wait to be sent, from which on their connection is not read.
pub const RESPONSE_BYTES_UNSENT: usize = 24 << 20;
/// The same as [`RESPONSE_BYTES_MAX`] on all connections. READs that wait for a disk count, with
/// what they asked for: a server that does not answer must not stop those of the others.
pub const SERVER_RESPONSE_BYTES_MAX: usize = 1 << 30;
/// How long a peer may take for the rest of a frame that it began, and for reading any byte of a
/// response that waits.
pub const STALL_MAX: Duration = Duration::from_secs(60);
/// How long a connection without a session may be without any request. One with a session may be
/// silent for good: clients keep connections of mounts open, and TCP keep-alive finds dead ones.
pub const LOGON_MAX: Duration = Duration::from_secs(60);
/// Most notifications of a connection that wait to be sent. A client with more is disconnected, and
/// then caches nothing: it must not go on to cache what others change.
pub const NOTICES_MAX: usize = 16_384;
/// Most logons of a connection that have not ended.
pub const LOGONS_MAX: usize = 16;

/// What the requests of a connection share.
#[derive(Debug)]
pub struct Connection {
    number: u64,
    peer: SocketAddr,
    writer: Writer,
    budget: Budget,
    credits: Mutex<Credits>,
    negotiated: OnceLock<Negotiated>,
    /// Whether an SMB 1 client has asked for "SMB 2.???": it negotiates once more (3.3.5.3.2).
    wildcard: AtomicBool,
    /// Over the messages of the negotiation, for 3.1.1. 3.3.1.7, PreauthIntegrityHashValue.
    preauth: Mutex<Option<PreauthHash>>,
    /// Logons that have not ended, by session.
    logons: Mutex<HashMap<u64, PendingLogon>>,
    /// Sessions that end with the connection.
    sessions: Mutex<Vec<u64>>,
    /// Requests that wait for something to happen.
    pub(crate) pending: PendingRequests,
    /// Notifications that wait to be sent.
    notices: AtomicUsize,
    closed: AtomicBool,
    mistaken: AtomicBool,
    close: Notify,
}

impl Connection {
    /// A connection that writes to `stream`. `number` is unique in the server.
    pub fn new(
        number: u64,
        peer: SocketAddr,
        stream: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            number,
            peer,
            writer: Writer::new(Box::new(stream)),
            budget: Budget::default(),
            credits: Mutex::default(),
            negotiated: OnceLock::new(),
            wildcard: AtomicBool::new(false),
            preauth: Mutex::default(),
            logons: Mutex::default(),
            sessions: Mutex::default(),
            pending: PendingRequests::default(),
            notices: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            mistaken: AtomicBool::new(false),
            close: Notify::new(),
        }
    }

    /// Unique in the server.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The client's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// What was negotiated, if that has happened.
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.get()
    }

    /// Records what was negotiated. `false` if that has happened before.
    #[must_use]
    pub fn set_negotiated(&self, negotiated: Negotiated) -> bool {
        self.negotiated.set(negotiated).is_ok()
    }

    /// Records that an SMB 1 client was offered any dialect. `false` if that has happened before.
    #[must_use]
    pub fn set_wildcard(&self) -> bool {
        !self.wildcard.swap(true, Ordering::AcqRel)
    }

    /// Grants credits for a response: hardly any before a user has logged on, so that a stranger
    /// sends one request after the other. MS-SMB2 3.3.1.2 leaves the number to the server.
    pub fn grant(&self, asked: u16, charge: u16) -> u16 {
        let most = match self.session_count() {
            0 => CREDITS_BEFORE_LOGON,
            _ => CREDITS_MAX,
        };
        self.credits().grant(asked, charge, most)
    }

    /// The sequence window.
    pub fn credits(&self) -> MutexGuard<'_, Credits> {
        lock(&self.credits)
    }

    /// Begins the hash over the negotiation. 3.3.5.4.
    pub fn begin_hash(&self) {
        *lock(&self.preauth) = Some(PreauthHash::default());
    }

    /// The hash over the negotiation, if the dialect has one.
    pub fn preauth(&self) -> Option<PreauthHash> {
        lock(&self.preauth).clone()
    }

    /// Adds a message of the negotiation to the hash, if the dialect has one.
    pub fn hash(&self, message: &[&[u8]]) {
        if let Some(hash) = lock(&self.preauth).as_mut() {
            hash.update(message);
        }
    }

    /// Adds a message of a logon to its hash, if the dialect has one. 3.3.5.5.
    pub fn hash_logon(&self, session: u64, message: &[&[u8]]) {
        if let Some(logon) = self.logons().get_mut(&session) {
            logon.hash(message);
        }
    }

    /// The logons that have not ended.
    pub fn logons(&self) -> MutexGuard<'_, HashMap<u64, PendingLogon>> {
        lock(&self.logons)
    }

    /// Adds a session that ends with the connection.
    pub fn add_session(&self, id: u64) {
        lock(&self.sessions).push(id);
    }

    /// Removes a session that has ended.
    pub fn remove_session(&self, id: u64) {
        lock(&self.sessions).retain(|other| *other != id);
    }

    /// The number of its sessions.
    pub fn session_count(&self) -> usize {
        lock(&self.sessions).len()
    }

    /// Its sessions, which it no longer has afterwards.
    pub fn take_sessions(&self) -> Vec<u64> {
        std::mem::take(&mut *lock(&self.sessions))
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

    /// Ends the connection. Responses that are not sent yet are lost, as when a network fails.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.close.notify_one();
    }

    /// Counts a notification until [`Connection::end_notice`]. `false` if there are too many; then
    /// the connection is closed.
    pub(crate) fn begin_notice(&self) -> bool {
        let is_free = self.notices.fetch_add(1, Ordering::AcqRel) < NOTICES_MAX;
        if !is_free {
            self.end_notice();
            if self.is_first_mistake() {
                let peer = self.peer;
                tracing::info!(%peer, "a client does not read notifications, and is disconnected");
            }
            self.close();
        }
        is_free
    }

    /// A notification was sent.
    pub(crate) fn end_notice(&self) {
        self.notices.fetch_sub(1, Ordering::AcqRel);
    }

    /// Sends a frame. A failure closes the connection.
    pub async fn send(&self, frame: &[Bytes]) {
        let _queued = self.budget.queue(frame.iter().map(Bytes::len).sum()).await;
        let Err(error) = self.writer.send(frame).await else { return };
        if error.kind() == io::ErrorKind::TimedOut && self.is_first_mistake() {
            let peer = self.peer;
            tracing::info!(%peer, "a client does not read its responses, and is disconnected");
        }
        tracing::debug!(peer = %self.peer, %error, "a response was not sent");
        self.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
