//! Serves connections that carry small calls, in batches: the metadata server's way.
//!
//! ```text
//!   one recv -> frame frame frame -> handle() each -> replies gathered -> one send
//!                                        `- a responder that moved to another thread sends by itself
//! ```
//!
//! Invariants: (1) every request is answered exactly once: a responder that is dropped unsent answers
//! [`Status::Internal`]; (2) requests in flight never exceed the credits, so the replies that wait for a
//! client that does not read are bounded (I9): while many bytes of replies wait, nothing more is handled; (3) replies of
//! different requests may go out in any order.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use braid_types::{Failure, Status};
use braid_wire::{FrameFlags, WireError, encode_failure};

use super::{End, FrameSender, Handler, Newcomer, Peer, listener::lock};
use crate::{
    frames::{FrameBuffer, push_frame},
    transport::{Transport, Wait},
};

/// What one recv takes: some hundreds of small requests.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Replies of a batch are sent when they are so long, and not gathered on: a request of some bytes may list a directory.
const REPLIES_BYTES_MAX: usize = 1 << 20;
/// Room for gathered replies that is kept from batch to batch.
const REPLIES_BYTES_KEPT: usize = 256 * 1024;

/// A server whose requests are small and carry no payload.
pub trait CallService: Send + Sync + 'static {
    /// What it keeps for each connection.
    type Session: Send + Sync + 'static;

    /// A peer proved itself.
    ///
    /// # Errors
    /// Why it is not served; every request that it sends is answered with this.
    fn connected(&self, peer: &Peer) -> Result<Self::Session, Failure>;

    /// A request came. Must not block for long: what waits moves `responder` to another thread.
    fn handle(&self, session: &Arc<Self::Session>, op: u16, body: &[u8], responder: Responder);

    /// The connection is over. Responders of its requests may still be alive.
    fn disconnected(&self, session: &Arc<Self::Session>);
}

/// Answers one request, once.
#[must_use = "a responder that is dropped answers with an internal error"]
pub struct Responder(Option<Way>);

enum Way {
    Connection { replies: Arc<Replies>, op: u16, request_id: u64 },
    Function(Box<dyn FnOnce(Vec<u8>) + Send>),
}

impl Responder {
    /// A responder that gives the body of the final frame to `answer`: for tests and simulation.
    pub fn new(answer: impl FnOnce(Vec<u8>) + Send + 'static) -> Self {
        Self(Some(Way::Function(Box::new(answer))))
    }

    /// Answers with the body of a final frame, as `braid_wire::encode_success` or `encode_failure` make it.
    pub fn send(mut self, body: Vec<u8>) {
        self.answer(body);
    }

    fn answer(&mut self, body: Vec<u8>) {
        match self.0.take() {
            Some(Way::Connection { replies, op, request_id }) => {
                replies.push(op, request_id, &body)
            }
            Some(Way::Function(answer)) => answer(body),
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
    fn run(&self, newcomer: Newcomer) {
        let Some(connection) = newcomer.welcome() else { return };
        let session = self.service.connected(connection.peer()).map(Arc::new);
        let credits = connection.credits();
        let stall_timeout = connection.stall_timeout();
        let (_, transport, sender, buffer) = connection.into_parts();
        let replies = Arc::new(Replies::new(sender, credits));
        let guard = Disconnect { service: &*self.service, session: session.as_ref().ok() };
        let mut reader = Reader { transport: &transport, replies: &replies, buffer, stall_timeout };
        let _why = reader.run(|op, body, responder| match &session {
            Ok(session) => self.service.handle(session, op, body, responder),
            Err(failure) => responder.send(encode_failure(failure)),
        });
        transport.shutdown();
        drop(guard);
    }
}

/// Tells the service that the connection is over, also when it panicked.
struct Disconnect<'a, S: CallService> {
    service: &'a S,
    session: Option<&'a Arc<S::Session>>,
}

impl<S: CallService> Drop for Disconnect<'_, S> {
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
    fn run(&mut self, mut handle: impl FnMut(u16, &[u8], Responder)) -> Result<(), End> {
        self.buffer = FrameBuffer::new(RECEIVE_BYTES);
        loop {
            // The rest of a frame has a time, the next one has none.
            let wait = match self.buffer.is_empty() {
                true => Wait::Forever,
                false => Wait::Until(Instant::now() + self.stall_timeout),
            };
            match self.transport.recv_into(self.buffer.space(), wait).map_err(End::Lost)? {
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
    ) -> Result<(), End> {
        while let Some((header, body)) = self.buffer.frame().map_err(End::Malformed)? {
            let (op, request_id) = (header.op, header.request_id);
            let within_credits = self.replies.begin();
            let responder = Responder(Some(Way::Connection {
                replies: Arc::clone(self.replies),
                op,
                request_id,
            }));
            if !within_credits {
                let credits = self.replies.credits;
                let why = format!("more than {credits} requests in flight");
                responder.send(encode_failure(&Failure::new(Status::LimitExceeded, why)));
                return Err(End::TooManyInFlight { credits });
            }
            if header.flags != FrameFlags::REQUEST || header.payload_bytes != 0 {
                let why = "a request without payload was expected";
                responder.send(encode_failure(&Failure::new(Status::Malformed, why)));
                return Err(End::Malformed(WireError::Unknown));
            }
            handle(op, body, responder);
            self.replies.bound();
        }
        Ok(())
    }
}

/// The replies of one connection on their way out.
struct Replies {
    sender: Arc<FrameSender>,
    credits: u32,
    in_flight: AtomicU32,
    out: Mutex<Out>,
    sent: Condvar,
}

#[derive(Default)]
struct Out {
    frames: Vec<u8>,
    spare: Vec<u8>,
    /// The reader is in the middle of a batch and will send when it is through.
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

    /// Counts a request in; whether it is within the credits.
    fn begin(&self) -> bool {
        self.in_flight.fetch_add(1, Ordering::Relaxed) < self.credits
    }

    fn hold(&self) {
        lock(&self.out).held = true;
    }

    /// Sends what was gathered, and returns when nothing waits any more.
    fn release(&self) {
        let mut out = lock(&self.out);
        out.held = false;
        while out.sending {
            out.reader_waits = true;
            out = self.sent.wait(out).unwrap_or_else(PoisonError::into_inner);
        }
        self.flush(out);
    }

    /// Of a batch, sends what is gathered if that is much.
    fn bound(&self) {
        if lock(&self.out).frames.len() >= REPLIES_BYTES_MAX {
            self.release();
            self.hold();
        }
    }

    fn push(&self, op: u16, request_id: u64, body: &[u8]) {
        let mut out = lock(&self.out);
        push_frame(&mut out.frames, op, FrameFlags::FINAL, request_id, body);
        // Before the reply is sent: the client may use the credit again as soon as it has read it.
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !out.held && !out.sending {
            self.flush(out);
        }
    }

    /// Sends until nothing is left; replies that others push meanwhile go with the next send.
    fn flush<'a>(&'a self, mut out: MutexGuard<'a, Out>) {
        while !out.frames.is_empty() && !out.held {
            let spare = std::mem::take(&mut out.spare);
            let frames = std::mem::replace(&mut out.frames, spare);
            out.sending = true;
            drop(out);
            let _ = self.sender.send_frames(&frames); // the reader sees the end of the connection by itself
            out = lock(&self.out);
            out.sending = false;
            if frames.capacity() <= REPLIES_BYTES_KEPT {
                out.spare = frames;
                out.spare.clear();
            }
            if std::mem::take(&mut out.reader_waits) {
                self.sent.notify_all(); // a system call, so only when it is of use
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
    fn replies_that_are_much_do_not_wait_for_the_rest_of_the_batch() {
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
