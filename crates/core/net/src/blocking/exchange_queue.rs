//! The exchanges of one exclusive connection during a batch: what is still to be sent, and the
//! replies.
//!
//! ```text
//!   queue:   exchanges of this connection, in order
//!              done .. | in flight (sent or being sent) .. | waiting for credits and window ..
//!   receive: header -> payload directly into the exchange's slices, the next header into the inbox
//!                   -> body of the final frame -> outcome
//! ```
//!
//! Invariants:
//! 1. At most [`IN_FLIGHT_BYTES_MAX`] and the credits are in flight, but always one exchange.
//! 2. A large payload is received only where the caller wants it.
//! 3. A frame ends the connection if its call is not in flight, or if its payload exceeds the space
//!    for it. So does a data frame without payload: it would reset the server's time-out and bring
//!    nothing (I8).
//!
//! `begin` asserts 1, after `may_begin` has checked it. `receive_bytes` lists the caller's buffers
//! (2), and `begin_frame` refuses what breaks 3, since a server may send anything.

use std::{
    io::{self, ErrorKind, IoSlice, IoSliceMut},
    net::SocketAddr,
    time::{Duration, Instant},
};

use braid_types::{ConnectionId, limits::WINDOW_BYTES};
use braid_wire::{Call, FRAME_HEADER_BYTES, FrameFlags, FrameHeader, message::iod::JoinRead};

use super::{connect::Connected, idle_time::IdleTime};
use crate::{
    driver::{Answer, Exchange, NetError},
    frames::FrameBuffer,
    handshake::Established,
    incast::{BOUNDED_BYTES_MIN, ReceiveProgress, ReceiveStats},
    tcp::ReceiveWindow,
    transport::{PIECES_MAX, Transport, Wait},
};

/// Payload requested and sent at a time on one connection: one window that the server works on and
/// one in flight. So the answers of many servers at the same time are bounded and do not overflow a
/// switch (incast).
const IN_FLIGHT_BYTES_MAX: u64 = 2 * WINDOW_BYTES;

/// Bytes received behind a large payload: the next header, and the whole body of a final frame.
/// Small, because payload that arrives here must be copied.
const AHEAD_BYTES: usize = 512;
/// A reply up to this size is received with its header and body in one system call, and copied.
/// Copying 16 KiB costs less than a second call.
const SMALL_BYTES_MAX: u64 = 16 * 1024;

/// A connection that one batch uses at a time.
#[derive(Debug)]
pub struct Connection {
    pub(super) server: String,
    pub(super) id: ConnectionId,
    pub(super) transport: Transport,
    credits: usize,
    pub(super) next_id: u64,
    /// Received bytes without a place of their own: headers, bodies, small payloads.
    pub(super) inbox: FrameBuffer,
    /// Its payload arrives in fragments too small for a pipe.
    pub(super) fills_pipe: bool,
    /// The receive window set for the peer; `None`: the system manages it.
    pub(super) window: Option<ReceiveWindow>,
    /// Why the connection must not be used again.
    pub(super) broken: Option<NetError>,
}

impl Connection {
    pub(super) fn new(connected: Connected) -> Self {
        let Connected { server, transport, established } = connected;
        let inbox = FrameBuffer::new(FRAME_HEADER_BYTES + AHEAD_BYTES + SMALL_BYTES_MAX as usize);
        let Established { credits, connection: id, .. } = established;
        let (credits, window) = (credits as usize, ReceiveWindow::for_connection(&transport));
        Self {
            server,
            id,
            transport,
            credits,
            next_id: 1,
            inbox,
            fills_pipe: false,
            window,
            broken: None,
        }
    }

    /// Whether an answer of this size needs a receive permit.
    pub(super) fn is_limited(&self, answer_bytes: u64) -> bool {
        self.window.is_some() && answer_bytes >= BOUNDED_BYTES_MIN
    }

    /// Call before an answer that has a permit.
    pub(super) fn open_window(&mut self, share: Option<u32>) {
        if let Some(window) = &mut self.window {
            window.begin(self.transport.socket(), share);
        }
    }

    /// Call after it. Adds the observations to `received`.
    pub(super) fn close_window(&mut self, received: &mut ReceiveStats) {
        if let Some(window) = &mut self.window {
            window.end(self.transport.socket(), received);
        }
    }

    pub(super) fn misbehaved(&self, what: &str) -> NetError {
        NetError::PeerMisbehaved { server: self.server.clone(), what: what.to_string() }
    }

    /// The error of a call that got no permit: this host received nothing for `waited`.
    pub(super) fn not_sent(&self, waited: Duration) -> NetError {
        NetError::NotSent { server: self.server.clone(), waited }
    }

    /// The error of a call whose server was silent for `waited`, after a wait of `unasked` for the
    /// permit.
    pub(super) fn error_for(
        &self,
        halt: ConnectionEnd,
        waited: Duration,
        unasked: Duration,
    ) -> NetError {
        let server = self.server.clone();
        match halt {
            ConnectionEnd::Peer(error) => error,
            ConnectionEnd::Socket(error) if error.kind() == ErrorKind::TimedOut => {
                NetError::TimedOut { server, waited, permit_wait: unasked }
            }
            ConnectionEnd::Socket(error) => {
                NetError::ConnectionLost { server, why: error.to_string() }
            }
        }
    }
}

/// A call whose reply is not complete.
#[derive(Debug)]
struct CallInFlight {
    request_id: u64,
    /// Index in the batch.
    exchange: usize,
    bytes: u64,
    /// Where the next payload byte belongs: index of the slice, offset in it.
    slice: usize,
    offset: usize,
    payload_bytes: u64,
}

/// What the next received byte belongs to.
#[derive(Debug)]
enum ReceiveState {
    Header,
    Body { call: usize, body: Vec<u8>, done: usize, payload_left: usize },
    Payload { call: usize, left: usize, last: Option<Vec<u8>> },
}

/// The state of one connection in a batch.
#[derive(Debug)]
pub(super) struct ExchangeQueue<'c> {
    connection: &'c mut Connection,
    /// Indexes of its exchanges in the batch, in order.
    queue: Vec<usize>,
    /// How many of them have started to be sent.
    begun: usize,
    /// The frame being sent: its header, and how many of its bytes are sent.
    sending: Option<([u8; FRAME_HEADER_BYTES], usize)>,
    in_flight: Vec<CallInFlight>,
    in_flight_bytes: u64,
    receiving: ReceiveState,
    permit: PermitState,
    idle_time: IdleTime,
    /// How long it waited for its permit.
    permit_wait: Duration,
}

/// Whether requests may be sent.
#[derive(Debug)]
enum PermitState {
    /// It needs no permit, or has released it.
    None,
    /// It must not send before it has a permit.
    Awaited,
    Taken(ReceiveProgress),
}

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum ConnectionEnd {
    /// The peer misbehaved.
    Peer(NetError),
    /// The socket failed, or the time is up.
    Socket(io::Error),
}

impl From<NetError> for ConnectionEnd {
    fn from(error: NetError) -> Self {
        Self::Peer(error)
    }
}

impl From<io::Error> for ConnectionEnd {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StepResult {
    /// Bytes moved; more may be possible immediately.
    Moved,
    /// The socket has no bytes or no space now.
    Blocked,
    /// There is nothing to do in this direction now.
    Nothing,
}

impl<'c> ExchangeQueue<'c> {
    /// The state at the beginning of a batch.
    pub(super) fn new(connection: &'c mut Connection, silence: IdleTime) -> Self {
        Self {
            connection,
            queue: Vec::new(),
            begun: 0,
            sending: None,
            in_flight: Vec::new(),
            in_flight_bytes: 0,
            receiving: ReceiveState::Header,
            permit: PermitState::None,
            idle_time: silence,
            permit_wait: Duration::ZERO,
        }
    }

    /// Returns whether its replies need a receive permit. If so, it sends no request until
    /// [`ExchangeQueue::take_permit`].
    pub(super) fn require_permit(&mut self, batch: &[Exchange<'_>]) -> bool {
        let bytes = self.queue.iter().map(|index| batch[*index].reply_capacity()).sum();
        let bounded = self.connection.is_limited(bytes);
        self.permit = if bounded { PermitState::Awaited } else { PermitState::None };
        bounded
    }

    pub(super) fn awaits_permit(&self) -> bool {
        matches!(self.permit, PermitState::Awaited)
    }

    pub(super) fn has_permit(&self) -> bool {
        matches!(self.permit, PermitState::Taken(_))
    }

    /// The peer's address, if its connection may need permits.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.connection.window.as_ref().map(|window| window.peer)
    }

    /// Whether its answer depends on requests of other tasks. Then it must not wait for them to
    /// receive.
    pub(super) fn is_collective(&self, batch: &[Exchange<'_>]) -> bool {
        self.queue.iter().any(|index| batch[*index].op == JoinRead::OP)
    }

    pub(super) fn take_permit(&mut self, share: Option<u32>, progress: ReceiveProgress) {
        self.connection.open_window(share);
        self.permit = PermitState::Taken(progress);
        self.permit_wait = self.idle_time.elapsed();
        self.idle_time.reset();
    }

    /// Releases the permit if it is no longer needed, and adds the observations to `received`.
    /// Returns whether it did.
    pub(super) fn release_permit(&mut self, received: &mut ReceiveStats) -> bool {
        let gives = self.is_done() && self.has_permit();
        if gives {
            self.connection.close_window(received);
            self.permit = PermitState::None;
        }
        gives
    }

    pub(super) fn push(&mut self, exchange: usize) {
        self.queue.push(exchange);
    }

    pub(super) fn transport(&self) -> &Transport {
        &self.connection.transport
    }

    pub(super) fn is_done(&self) -> bool {
        self.begun == self.queue.len() && self.sending.is_none() && self.in_flight.is_empty()
    }

    /// Whether every exchange is sent, so that only receiving is left.
    pub(super) fn is_sent(&self) -> bool {
        self.begun == self.queue.len() && self.sending.is_none() && !self.transport().has_unsent()
    }

    pub(super) fn wants_to_send(&self, batch: &[Exchange<'_>]) -> bool {
        self.sending.is_some() || self.may_begin(batch) || self.transport().has_unsent()
    }

    pub(super) fn wants_to_receive(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Sends what may be sent now, in at most one system call.
    pub(super) fn send(
        &mut self,
        batch: &[Exchange<'_>],
        wait: Wait,
    ) -> Result<StepResult, ConnectionEnd> {
        self.send_up_to(usize::MAX, batch, wait)
    }

    /// The same, but at most `most` bytes.
    pub(super) fn send_up_to(
        &mut self,
        most: usize,
        batch: &[Exchange<'_>],
        wait: Wait,
    ) -> Result<StepResult, ConnectionEnd> {
        if self.sending.is_none() && !self.begin(batch) {
            return self.flush(wait);
        }
        let (Some((header, sent)), Some(&index)) = (self.sending, self.queue.get(self.begun - 1))
        else {
            return Ok(StepResult::Nothing);
        };
        let exchange = &batch[index];
        let pieces = rest_of_request(&header, exchange, sent, most);
        match self.connection.transport.send(&pieces, false, wait) {
            Ok(bytes) => {
                let sent = sent + bytes;
                let whole = FRAME_HEADER_BYTES + exchange.body.len() + gathered(&exchange.send);
                self.sending = (sent < whole).then_some((header, sent));
                self.idle_time.reset();
                Ok(StepResult::Moved)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(StepResult::Blocked),
            Err(error) => Err(error.into()),
        }
    }

    fn flush(&mut self, wait: Wait) -> Result<StepResult, ConnectionEnd> {
        match self.transport().flush(wait) {
            Ok(()) => Ok(StepResult::Nothing),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(StepResult::Blocked),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives what has arrived, in one system call.
    pub(super) fn receive(
        &mut self,
        batch: &mut [Exchange<'_>],
        wait: Wait,
    ) -> Result<StepResult, ConnectionEnd> {
        if self.in_flight.is_empty() {
            return Ok(StepResult::Nothing);
        }
        match self.receive_bytes(batch, wait) {
            Ok(0) => {
                Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection").into())
            }
            Ok(bytes) => {
                if let PermitState::Taken(progress) = &self.permit {
                    progress.add(bytes);
                }
                self.idle_time.reset();
                self.received(batch, bytes)?;
                Ok(StepResult::Moved)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(StepResult::Blocked),
            Err(error) => Err(error.into()),
        }
    }

    /// The same, but waits until the server has been silent for too long.
    pub(super) fn receive_in_time(
        &mut self,
        batch: &mut [Exchange<'_>],
    ) -> Result<StepResult, ConnectionEnd> {
        let until = self.idle_deadline();
        match self.receive(batch, Wait::Until(until)) {
            // The answer may have arrived while this thread waited for another server.
            Err(ConnectionEnd::Socket(error)) if error.kind() == ErrorKind::TimedOut => {
                match self.receive(batch, Wait::No)? {
                    StepResult::Moved => Ok(StepResult::Moved),
                    StepResult::Blocked | StepResult::Nothing => Err(error.into()),
                }
            }
            received => received,
        }
    }

    /// When the server will have been silent for too long.
    pub(super) fn idle_deadline(&mut self) -> Instant {
        self.idle_time.deadline()
    }

    /// Ends the connection for this reason.
    pub(super) fn end_connection(&mut self, batch: &mut [Exchange<'_>], halt: ConnectionEnd) {
        let error = self.connection.error_for(halt, self.idle_time.elapsed(), self.permit_wait);
        self.fail(batch, &error);
    }

    /// Ends the wait for a permit that did not come. Nothing was sent; the connection stays usable.
    pub(super) fn fail_unsent(&mut self, batch: &mut [Exchange<'_>], waited: Duration) {
        debug_assert!(
            self.awaits_permit() && self.begun == 0,
            "a request was sent without a permit"
        );
        let error = self.connection.not_sent(waited);
        self.end(batch, &error);
    }

    /// Every exchange without an outcome gets this error, and the connection is not used again.
    pub(super) fn fail(&mut self, batch: &mut [Exchange<'_>], error: &NetError) {
        self.connection.transport.shutdown();
        self.connection.broken = Some(error.clone());
        self.end(batch, error);
    }

    fn end(&mut self, batch: &mut [Exchange<'_>], error: &NetError) {
        for index in &self.queue {
            batch[*index].outcome.get_or_insert_with(|| Err(error.clone()));
        }
        self.begun = self.queue.len();
        self.sending = None;
        self.in_flight.clear();
    }

    /// Payload requested and sent by the calls in flight.
    pub(super) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    pub(super) fn broken(&self) -> Option<NetError> {
        self.connection.broken.clone()
    }

    fn misbehaved(&self, what: &str) -> NetError {
        self.connection.misbehaved(what)
    }

    fn may_begin(&self, batch: &[Exchange<'_>]) -> bool {
        let Some(&next) = self.queue.get(self.begun) else { return false };
        if self.awaits_permit() {
            return false;
        }
        let fits = self.in_flight_bytes + wanted(&batch[next]) <= IN_FLIGHT_BYTES_MAX;
        self.in_flight.is_empty() || fits && self.in_flight.len() < self.connection.credits
    }

    fn begin(&mut self, batch: &[Exchange<'_>]) -> bool {
        if !self.may_begin(batch) {
            return false;
        }
        let index = self.queue[self.begun];
        let exchange = &batch[index];
        let request_id = self.connection.next_id;
        let header = FrameHeader {
            op: exchange.op,
            flags: FrameFlags::REQUEST,
            request_id,
            body_bytes: exchange.body.len() as u32,
            payload_bytes: gathered(&exchange.send) as u32,
        };
        self.connection.next_id += 1;
        self.begun += 1;
        self.sending = Some((header.to_bytes(), 0));
        let bytes = wanted(exchange);
        self.in_flight_bytes += bytes;
        self.in_flight.push(CallInFlight {
            request_id,
            exchange: index,
            bytes,
            slice: 0,
            offset: 0,
            payload_bytes: 0,
        });
        debug_assert!(
            self.in_flight.len() == 1
                || self.in_flight.len() <= self.connection.credits
                    && self.in_flight_bytes <= IN_FLIGHT_BYTES_MAX,
            "invariant 1: too much is in flight"
        );
        true
    }

    /// Receives directly into the caller's buffers, and a little of what follows into the inbox.
    fn receive_bytes(&mut self, batch: &mut [Exchange<'_>], wait: Wait) -> io::Result<usize> {
        let Connection { transport, inbox, .. } = &mut *self.connection;
        let small = self.in_flight.iter().all(|call| call.bytes <= SMALL_BYTES_MAX);
        let ahead = if small { inbox.space() } else { first_bytes(inbox.space(), AHEAD_BYTES) };
        let (call, body, left) = match &mut self.receiving {
            ReceiveState::Header => return transport.recv_into(ahead, wait),
            ReceiveState::Body { call, body, done, payload_left } => {
                (*call, &mut body[*done..], *payload_left)
            }
            ReceiveState::Payload { call, left, .. } => (*call, &mut [][..], *left),
        };
        let mut pieces = Vec::with_capacity(4);
        if !body.is_empty() {
            pieces.push(IoSliceMut::new(body));
        }
        let call = &self.in_flight[call];
        if push_space(&mut pieces, &mut batch[call.exchange].recv, (call.slice, call.offset), left)
        {
            pieces.push(IoSliceMut::new(ahead));
        }
        transport.recv(&mut pieces, wait)
    }

    /// Accounts for `bytes` that were received where [`ExchangeQueue::receive_bytes`] asked for
    /// them.
    fn received(&mut self, batch: &mut [Exchange<'_>], mut bytes: usize) -> Result<(), NetError> {
        if let ReceiveState::Body { body, done, .. } = &mut self.receiving {
            let taken = bytes.min(body.len() - *done);
            *done += taken;
            bytes -= taken;
        }
        let left = match &mut self.receiving {
            ReceiveState::Body { call, payload_left, .. } => Some((*call, payload_left)),
            ReceiveState::Payload { call, left, .. } => Some((*call, left)),
            ReceiveState::Header => None,
        };
        if let Some((call, left)) = left {
            let taken = bytes.min(*left);
            *left -= taken;
            bytes -= taken;
            let call = &mut self.in_flight[call];
            call.advance(&batch[call.exchange].recv, taken);
        }
        self.connection.inbox.filled(bytes);
        self.process_inbox(batch)
    }

    /// Processes frames as far as the received bytes allow.
    fn process_inbox(&mut self, batch: &mut [Exchange<'_>]) -> Result<(), NetError> {
        loop {
            let inbox = &mut self.connection.inbox;
            self.receiving = match std::mem::replace(&mut self.receiving, ReceiveState::Header) {
                ReceiveState::Header => match inbox.header() {
                    Ok(None) => return Ok(()),
                    Ok(Some(header)) => self.begin_frame(&header, batch)?,
                    Err(error) => return Err(self.misbehaved(&error.to_string())),
                },
                ReceiveState::Body { call, mut body, done, payload_left } => {
                    let bytes = inbox.take(body.len() - done);
                    body[done..done + bytes.len()].copy_from_slice(bytes);
                    let done = done + bytes.len();
                    if done < body.len() {
                        self.receiving = ReceiveState::Body { call, body, done, payload_left };
                        return Ok(());
                    }
                    ReceiveState::Payload { call, left: payload_left, last: Some(body) }
                }
                ReceiveState::Payload { call, left, last } => {
                    let bytes = inbox.take(left);
                    let left = left - bytes.len();
                    let state = &mut self.in_flight[call];
                    state.scatter(&mut batch[state.exchange].recv, bytes);
                    if left > 0 {
                        self.receiving = ReceiveState::Payload { call, left, last };
                        return Ok(());
                    }
                    if let Some(body) = last {
                        self.finish(batch, call, body);
                    }
                    ReceiveState::Header
                }
            };
        }
    }

    fn finish(&mut self, batch: &mut [Exchange<'_>], call: usize, body: Vec<u8>) {
        let state = self.in_flight.swap_remove(call);
        self.in_flight_bytes -= state.bytes;
        batch[state.exchange].outcome =
            Some(Ok(Answer { body, payload_bytes: state.payload_bytes }));
    }

    fn begin_frame(
        &self,
        header: &FrameHeader,
        batch: &[Exchange<'_>],
    ) -> Result<ReceiveState, NetError> {
        let call = self.in_flight.iter().position(|call| call.request_id == header.request_id);
        let call = call.ok_or_else(|| self.misbehaved("it answered a call that was not made"))?;
        let state = &self.in_flight[call];
        let exchange = &batch[state.exchange];
        let payload = header.payload_bytes as usize;
        if header.op != exchange.op {
            return Err(self.misbehaved("it answered a call with another message"));
        }
        if state.space(&exchange.recv) < payload {
            return Err(self.misbehaved("it sent more payload than was asked for"));
        }
        match header.flags {
            FrameFlags::DATA if payload == 0 => {
                Err(self.misbehaved("it sent a data frame without payload"))
            }
            FrameFlags::DATA if header.body_bytes == 0 => {
                Ok(ReceiveState::Payload { call, left: payload, last: None })
            }
            FrameFlags::FINAL => {
                let body = vec![0; header.body_bytes as usize];
                Ok(ReceiveState::Body { call, body, done: 0, payload_left: payload })
            }
            _ => Err(self.misbehaved("it sent a frame that is no reply")),
        }
    }
}

impl CallInFlight {
    /// Bytes that still fit the caller's buffers.
    fn space(&self, slices: &[IoSliceMut<'_>]) -> usize {
        slices[self.slice..].iter().map(|slice| slice.len()).sum::<usize>() - self.offset
    }

    /// Copies bytes from the inbox to their destination.
    fn scatter(&mut self, slices: &mut [IoSliceMut<'_>], mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = &mut slices[self.slice][self.offset..];
            let (now, rest) = bytes.split_at(space.len().min(bytes.len()));
            space[..now.len()].copy_from_slice(now);
            self.advance(slices, now.len());
            bytes = rest;
        }
    }

    /// `bytes` more have reached their destination.
    fn advance(&mut self, slices: &[IoSliceMut<'_>], bytes: usize) {
        self.payload_bytes += bytes as u64;
        self.offset += bytes;
        while self.slice < slices.len() && self.offset >= slices[self.slice].len() {
            self.offset -= slices[self.slice].len();
            self.slice += 1;
        }
    }
}

/// Adds buffer space for `bytes` from the given position to `pieces`, up to the limit of one system
/// call. Returns whether all fit. One entry stays free for a header.
fn push_space<'b>(
    pieces: &mut Vec<IoSliceMut<'b>>,
    slices: &'b mut [IoSliceMut<'_>],
    (slice, mut offset): (usize, usize),
    mut bytes: usize,
) -> bool {
    for slice in slices[slice..].iter_mut() {
        if bytes == 0 || pieces.len() == PIECES_MAX - 1 {
            break;
        }
        let space = &mut slice[offset..];
        offset = 0;
        let take = space.len().min(bytes);
        bytes -= take;
        pieces.push(IoSliceMut::new(&mut space[..take]));
    }
    bytes == 0
}

/// Up to `most` bytes of a request frame after its first `sent`, up to the slices that one system
/// call takes.
fn rest_of_request<'b>(
    header: &'b [u8; FRAME_HEADER_BYTES],
    exchange: &'b Exchange<'_>,
    mut sent: usize,
    mut most: usize,
) -> Vec<IoSlice<'b>> {
    let mut pieces = Vec::with_capacity(PIECES_MAX.min(2 + exchange.send.len()));
    let payload = exchange.send.iter().map(|piece| &piece[..]);
    for piece in [&header[..], &exchange.body[..]].into_iter().chain(payload) {
        if piece.len() <= sent {
            sent -= piece.len();
            continue;
        }
        let piece = &piece[sent..];
        pieces.push(IoSlice::new(&piece[..piece.len().min(most)]));
        (sent, most) = (0, most.saturating_sub(piece.len()));
        if pieces.len() == PIECES_MAX || most == 0 {
            break;
        }
    }
    pieces
}

fn first_bytes(bytes: &mut [u8], n: usize) -> &mut [u8] {
    let n = n.min(bytes.len());
    &mut bytes[..n]
}

fn gathered(pieces: &[IoSlice<'_>]) -> usize {
    pieces.iter().map(|piece| piece.len()).sum()
}

fn wanted(exchange: &Exchange<'_>) -> u64 {
    gathered(&exchange.send) as u64 + exchange.reply_capacity()
}
