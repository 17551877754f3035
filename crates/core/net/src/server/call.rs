//! Serves connections that carry small calls, in batches. The metadata server uses this.
//!
//! ```text
//!   one recv -> frame frame frame -> handle() each -> replies collected -> one send
//!                                        `- a responder on another thread sends by itself
//! ```
//!
//! Invariants:
//! 1. Every request is answered exactly once. A responder that is dropped unsent answers
//!    [`Status::Internal`].
//! 2. Requests in flight never exceed the credits. So the replies to a client that does not read
//!    are bounded (I9): while many bytes of replies wait, no further request is handled.
//! 3. Replies to different requests may be sent in any order.
//!
//! `push` asserts the count of 1; a responder can answer once, since it gives up what it answers
//! to. `handle_arrived` refuses a request beyond the credits (2), which a client may send. 3
//! permits something and needs no check.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use braid_types::{Failure, Status};
use braid_wire::{FrameFlags, WireError, encode_failure};

use super::{AdmittedPeer, FrameSender, Handler, Peer, ReceiveError, listener::lock};
use crate::{
    frames::{FrameBuffer, push_frame},
    transport::{Transport, Wait},
};

/// Bytes that one recv takes: some hundred small requests.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Replies of a batch are sent at this size before the batch ends, since a small request may list a
/// directory.
const REPLIES_BYTES_MAX: usize = 1 << 20;
/// A reply buffer up to this size is reused for the next batch.
const REPLIES_BYTES_KEPT: usize = 256 * 1024;

/// A server whose requests are small and carry no payload.
pub trait CallService: Send + Sync + 'static {
    /// The server's state for each connection.
    type Session: Send + Sync + 'static;

    /// Called once the peer is authenticated.
    ///
    /// # Errors
    /// Why the peer is not served. Every request that it sends is answered with this failure.
    fn connected(&self, peer: &Peer) -> Result<Self::Session, Failure>;

    /// Handles a request. It must not block for long: a call that waits moves `responder` to
    /// another thread.
    fn handle(&self, session: &Arc<Self::Session>, op: u16, body: &[u8], responder: Responder);

    /// The connection has ended. Responders of its requests may still exist.
    fn disconnected(&self, session: &Arc<Self::Session>);
}

/// Answers one request, once.
#[must_use = "a responder that is dropped answers with an internal error"]
pub struct Responder(Option<ReplyTarget>);

enum ReplyTarget {
    Connection { replies: Arc<Replies>, op: u16, request_id: u64 },
    Function(Box<dyn FnOnce(Vec<u8>) + Send>),
}

impl Responder {
    /// A responder that passes the body of the final frame to `answer`, for tests and simulation.
    pub fn new(answer: impl FnOnce(Vec<u8>) + Send + 'static) -> Self {
        Self(Some(ReplyTarget::Function(Box::new(answer))))
    }

    /// Answers with the body of a final frame, made by `braid_wire::encode_success` or
    /// `encode_failure`.
    pub fn send(mut self, body: Vec<u8>) {
        self.answer(body);
    }

    fn answer(&mut self, body: Vec<u8>) {
        match self.0.take() {
            Some(ReplyTarget::Connection { replies, op, request_id }) => {
                replies.push(op, request_id, &body)
            }
            Some(ReplyTarget::Function(answer)) => answer(body),
            None => {}
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.answer(encode_failure(&Failure::new(
                Status::Internal,
                "the request was dropped unanswered",
            )));
        }
    }
}

impl std::fmt::Debug for Responder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Responder")
    }
}

/// The [`Handler`] that serves a [`CallService`].
#[derive(Debug)]
pub struct CallHandler<S> {
    service: Arc<S>,
}

impl<S: CallService> CallHandler<S> {
    /// A handler for `service`.
    pub fn new(service: Arc<S>) -> Self {
        Self { service }
    }
}

impl<S: CallService> Handler for CallHandler<S> {
    fn run(&self, admitted: AdmittedPeer) {
        let Some(connection) = admitted.accept() else { return };
        let session = self.service.connected(connection.peer()).map(Arc::new);
        let credits = connection.credits();
        let stall_timeout = connection.stall_timeout();
        let (_, transport, sender, buffer) = connection.into_parts();
        let replies = Arc::new(Replies::new(sender, credits));
        let guard = DisconnectGuard { service: &*self.service, session: session.as_ref().ok() };
        let mut reader = Reader { transport: &transport, replies: &replies, buffer, stall_timeout };
        let _why = reader.run(|op, body, responder| match &session {
            Ok(session) => self.service.handle(session, op, body, responder),
            Err(failure) => responder.send(encode_failure(failure)),
        });
        transport.shutdown();
        drop(guard);
    }
}

/// Reports the end of the connection to the service, also after a panic.
struct DisconnectGuard<'a, S: CallService> {
    service: &'a S,
    session: Option<&'a Arc<S::Session>>,
}

impl<S: CallService> Drop for DisconnectGuard<'_, S> {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            self.service.disconnected(session);
        }
    }
}

struct Reader<'a> {
    transport: &'a Transport,
    replies: &'a Arc<Replies>,
    buffer: FrameBuffer,
    stall_timeout: Duration,
}

impl Reader<'_> {
    fn run(&mut self, mut handle: impl FnMut(u16, &[u8], Responder)) -> Result<(), ReceiveError> {
        self.buffer = FrameBuffer::new(RECEIVE_BYTES);
        loop {
            // The rest of a frame must arrive in time; the next frame may take any time.
            let wait = match self.buffer.is_empty() {
                true => Wait::Forever,
                false => Wait::Until(Instant::now() + self.stall_timeout),
            };
            match self.transport.recv_into(self.buffer.space(), wait).map_err(ReceiveError::Lost)? {
                0 => return Ok(()),
                bytes => self.buffer.filled(bytes),
            }
            self.replies.hold();
            let handled = self.handle_arrived(&mut handle);
            self.replies.release();
            handled?;
        }
    }

    fn handle_arrived(
        &mut self,
        handle: &mut impl FnMut(u16, &[u8], Responder),
    ) -> Result<(), ReceiveError> {
        while let Some((header, body)) = self.buffer.frame().map_err(ReceiveError::Malformed)? {
            let (op, request_id) = (header.op, header.request_id);
            let within_credits = self.replies.begin();
            let responder = Responder(Some(ReplyTarget::Connection {
                replies: Arc::clone(self.replies),
                op,
                request_id,
            }));
            if !within_credits {
                let credits = self.replies.credits;
                let why = format!("more than {credits} requests in flight");
                responder.send(encode_failure(&Failure::new(Status::LimitExceeded, why)));
                return Err(ReceiveError::TooManyInFlight { credits });
            }
            if header.flags != FrameFlags::REQUEST || header.payload_bytes != 0 {
                let why = "a request without payload was expected";
                responder.send(encode_failure(&Failure::new(Status::Malformed, why)));
                return Err(ReceiveError::Malformed(WireError::Unknown));
            }
            handle(op, body, responder);
            self.replies.flush_if_large();
        }
        Ok(())
    }
}

/// The replies of one connection that are not sent yet.
struct Replies {
    sender: Arc<FrameSender>,
    credits: u32,
    in_flight: AtomicU32,
    out: Mutex<ReplyBuffer>,
    sent: Condvar,
}

#[derive(Default)]
struct ReplyBuffer {
    frames: Vec<u8>,
    spare: Vec<u8>,
    /// The reader is within a batch and sends at its end.
    held: bool,
    /// A thread is sending.
    sending: bool,
    /// The reader waits for `sending` to end.
    reader_waits: bool,
}

impl Replies {
    fn new(sender: Arc<FrameSender>, credits: u32) -> Self {
        Self {
            sender,
            credits,
            in_flight: AtomicU32::new(0),
            out: Mutex::default(),
            sent: Condvar::new(),
        }
    }

    /// Counts a request. Returns whether it is within the credits.
    fn begin(&self) -> bool {
        self.in_flight.fetch_add(1, Ordering::Relaxed) < self.credits
    }

    fn hold(&self) {
        lock(&self.out).held = true;
    }

    /// Sends the collected replies, and returns when none is left.
    fn release(&self) {
        let mut out = lock(&self.out);
        out.held = false;
        while out.sending {
            out.reader_waits = true;
            out = self.sent.wait(out).unwrap_or_else(PoisonError::into_inner);
        }
        self.flush(out);
    }

    /// Sends the collected replies within a batch if they are large.
    fn flush_if_large(&self) {
        if lock(&self.out).frames.len() >= REPLIES_BYTES_MAX {
            self.release();
            self.hold();
        }
    }

    fn push(&self, op: u16, request_id: u64, body: &[u8]) {
        let mut out = lock(&self.out);
        push_frame(&mut out.frames, op, FrameFlags::FINAL, request_id, body);
        // Decrement before the reply is sent: the client may reuse the credit as soon as it has
        // read the reply.
        let before = self.in_flight.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "1: more replies than requests");
        if !out.held && !out.sending {
            self.flush(out);
        }
    }

    /// Sends until nothing is left. Replies that other threads add meanwhile leave with the next
    /// send.
    fn flush<'a>(&'a self, mut out: MutexGuard<'a, ReplyBuffer>) {
        while !out.frames.is_empty() && !out.held {
            let spare = std::mem::take(&mut out.spare);
            let frames = std::mem::replace(&mut out.frames, spare);
            out.sending = true;
            drop(out);
            // the reader detects the end of the connection itself
            let _ = self.sender.send_frames(&frames);
            out = lock(&self.out);
            out.sending = false;
            if frames.capacity() <= REPLIES_BYTES_KEPT {
                out.spare = frames;
                out.spare.clear();
            }
            if std::mem::take(&mut out.reader_waits) {
                self.sent.notify_all(); // a system call, so only when the reader waits
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        thread,
    };

    use super::*;

    #[test]
    fn large_replies_do_not_wait_for_the_rest_of_the_batch() {
        const REQUESTS: u64 = 500;
        const REPLY_BYTES: usize = 64 * 1024;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let transport = Arc::new(Transport::new(listener.accept().unwrap().0).unwrap());
        let mut requests = Vec::new();
        (0..REQUESTS).for_each(|id| push_frame(&mut requests, 9, FrameFlags::REQUEST, id, &[]));
        client.write_all(&requests).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let reads =
            thread::spawn(move || std::io::copy(&mut client, &mut std::io::sink()).unwrap());

        let stall_timeout = Duration::from_secs(60);
        let sender = Arc::new(FrameSender::new(Arc::clone(&transport), stall_timeout));
        let replies = Arc::new(Replies::new(sender, 8));
        let mut reader = Reader {
            transport: &transport,
            replies: &replies,
            buffer: FrameBuffer::new(1),
            stall_timeout,
        };
        let mut most = 0;
        let ended = reader.run(|_, _, responder| {
            most = most.max(lock(&replies.out).frames.len());
            responder.send(vec![7; REPLY_BYTES]);
        });
        assert!(ended.is_ok() && most < REPLIES_BYTES_MAX, "{ended:?}, {most} bytes waited");
        transport.shutdown();
        assert!(reads.join().unwrap() > REQUESTS * REPLY_BYTES as u64);
    }
}
