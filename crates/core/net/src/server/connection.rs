//! The receiving half of an authenticated connection.

use std::{
    io::{self, ErrorKind, IoSliceMut},
    sync::Arc,
    time::{Duration, Instant},
};

use braid_wire::{FrameFlags, FrameHeader, WireError};

use super::{FrameSender, Peer, receive_limit::ReceiveLimit};
use crate::{
    frames::FrameBuffer,
    transport::{Transport, Wait},
};

/// Bytes read before a header is known: small requests whole, and little of a payload that should
/// be received directly into its destination.
const READ_AHEAD_BYTES: usize = 8 * 1024;

/// Why a connection yields no more requests.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The peer closed it between two frames, or the listener stopped.
    #[error("the peer closed the connection")]
    Closed,
    /// It ended within a frame, or the peer was silent there for too long.
    #[error("the connection was lost: {0}")]
    Lost(#[source] io::Error),
    /// The peer's bytes are not frames.
    #[error("the peer broke the protocol: {0}")]
    Malformed(#[source] WireError),
    /// The peer had more requests in flight than its credits.
    #[error("the peer had more than {credits} requests in flight")]
    TooManyInFlight {
        /// The credits that it was granted.
        credits: u32,
    },
}

/// An authenticated connection, for the thread that serves it. For each request call, in this
/// order: [`next_header`](Self::next_header), [`body`](Self::body), and [`payload`](Self::payload)
/// any number of times. Whatever is not read is skipped.
#[derive(Debug)]
pub struct ServerConnection {
    peer: Arc<Peer>,
    transport: Arc<Transport>,
    sender: Arc<FrameSender>,
    credits: u32,
    stall_timeout: Duration,
    buffer: FrameBuffer,
    body_left: usize,
    payload_left: usize,
    /// [`has_pending`](Self::has_pending) has seen the end of the connection.
    is_over: bool,
    /// Incast control of its payloads; `None` on loopback.
    receive_limit: Option<ReceiveLimit>,
}

impl ServerConnection {
    pub(super) fn new(
        peer: Peer,
        transport: Arc<Transport>,
        inflow: Option<ReceiveLimit>,
        credits: u32,
        stall_timeout: Duration,
    ) -> Self {
        let sender = Arc::new(FrameSender::new(Arc::clone(&transport), stall_timeout));
        let buffer = FrameBuffer::new(READ_AHEAD_BYTES);
        let peer = Arc::new(peer);
        Self {
            peer,
            transport,
            sender,
            credits,
            stall_timeout,
            buffer,
            body_left: 0,
            payload_left: 0,
            is_over: false,
            receive_limit: inflow,
        }
    }

    /// The authenticated peer.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Requests that the peer may have in flight.
    pub fn credits(&self) -> u32 {
        self.credits
    }

    /// The sending half. Clone it to answer from another thread.
    pub fn sender(&self) -> &Arc<FrameSender> {
        &self.sender
    }

    /// The header of the next request. Waits at most `wait`, or without limit for `None`.
    /// `Ok(None)` when no request arrived in that time.
    ///
    /// # Errors
    /// Why there are no more requests. The connection must then be dropped.
    pub fn next_header(
        &mut self,
        wait: Option<Duration>,
    ) -> Result<Option<FrameHeader>, ReceiveError> {
        self.pause();
        self.skip_rest()?;
        let wait = wait.map_or(Wait::Forever, |time| Wait::Until(Instant::now() + time));
        loop {
            if let Some(header) = self.buffer.header().map_err(ReceiveError::Malformed)? {
                return self.begin(header).map(Some);
            }
            if self.is_over {
                return Err(ReceiveError::Closed);
            }
            let within_frame = !self.buffer.is_empty();
            match self.fill(if within_frame { self.stall_deadline() } else { wait }) {
                Err(ReceiveError::Lost(e)) if e.kind() == ErrorKind::TimedOut && !within_frame => {
                    return Ok(None);
                }
                filled => filled?,
            }
        }
    }

    /// The whole body of the request. A second call returns nothing.
    ///
    /// # Errors
    /// As [`ServerConnection::next_header`].
    pub fn body(&mut self) -> Result<&[u8], ReceiveError> {
        let bytes = std::mem::take(&mut self.body_left);
        while self.buffer.len() < bytes {
            self.buffer.reserve(bytes);
            let deadline = self.stall_deadline();
            self.fill(deadline)?;
        }
        Ok(self.buffer.take(bytes))
    }

    /// Payload bytes of the request that are not received yet.
    pub fn payload_left(&self) -> usize {
        self.payload_left
    }

    /// Receives the next bytes of the payload directly into `into`. The body must have been read.
    /// When many connections receive large payloads, it waits for a receive permit, and holds the
    /// permit until the next bytes or the next request are asked for.
    ///
    /// # Errors
    /// As [`ServerConnection::next_header`].
    ///
    /// # Panics
    /// When `into` is longer than [`ServerConnection::payload_left`].
    pub fn payload(&mut self, into: &mut [u8]) -> Result<(), ReceiveError> {
        assert!(into.len() <= self.payload_left, "more payload asked for than the frame has");
        self.skip_body()?;
        let mut done = self.take_buffered(into);
        if done < into.len()
            && let Some(inflow) = &mut self.receive_limit
        {
            inflow.begin(self.stall_timeout);
            inflow.add(done);
        }
        while done < into.len() {
            match self.transport.recv_into(&mut into[done..], self.stall_deadline()) {
                Ok(0) => return Err(ReceiveError::Lost(ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => {
                    done += bytes;
                    if let Some(inflow) = &mut self.receive_limit {
                        inflow.add(bytes);
                    }
                }
                Err(error) => return Err(ReceiveError::Lost(error)),
            }
        }
        self.payload_left -= done;
        Ok(())
    }

    /// Receives the next bytes of the payload into `pieces`, in order, as many as arrive without a
    /// pause. Returns how many; 0 when none arrived within `wait_time`. The body must have been
    /// read. For a thread that receives from many connections in turn: it waits for no permit.
    ///
    /// # Errors
    /// As [`ServerConnection::next_header`].
    ///
    /// # Panics
    /// When `pieces` are longer than [`ServerConnection::payload_left`].
    pub fn payload_within(
        &mut self,
        pieces: &mut [IoSliceMut<'_>],
        wait_time: Duration,
    ) -> Result<usize, ReceiveError> {
        let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert!(wanted <= self.payload_left, "more payload asked for than the frame has");
        self.skip_body()?;
        let received = if self.buffer.is_empty() {
            self.receive_within(pieces, wait_time)
        } else {
            Ok(pieces.iter_mut().map(|piece| self.take_buffered(piece)).sum())
        };
        self.payload_left -= *received.as_ref().unwrap_or(&0);
        received
    }

    fn receive_within(
        &mut self,
        pieces: &mut [IoSliceMut<'_>],
        wait_time: Duration,
    ) -> Result<usize, ReceiveError> {
        if let Some(inflow) = &mut self.receive_limit {
            inflow.begin_without_waiting();
        }
        let mut received = self.transport.recv(pieces, Wait::No);
        if matches!(&received, Err(error) if error.kind() == ErrorKind::WouldBlock) {
            received = match self.transport.wait_for_bytes(wait_time) {
                Ok(true) => self.transport.recv(pieces, Wait::No),
                Ok(false) => Err(ErrorKind::WouldBlock.into()),
                Err(error) => Err(error),
            };
        }
        if let Some(inflow) = &mut self.receive_limit {
            inflow.add(*received.as_ref().unwrap_or(&0));
            inflow.end();
        }
        match received {
            Ok(0) => Err(ReceiveError::Lost(ErrorKind::UnexpectedEof.into())),
            Ok(bytes) => Ok(bytes),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(0)
            }
            Err(error) => Err(ReceiveError::Lost(error)),
        }
    }

    /// Takes bytes that were read ahead. Returns how many.
    fn take_buffered(&mut self, into: &mut [u8]) -> usize {
        let buffered = self.buffer.take(into.len());
        into[..buffered.len()].copy_from_slice(buffered);
        buffered.len()
    }

    /// Releases the receive permit.
    fn pause(&mut self) {
        if let Some(inflow) = &mut self.receive_limit {
            inflow.end();
        }
    }

    /// Receives and discards the rest of the payload.
    ///
    /// # Errors
    /// As [`ServerConnection::next_header`].
    pub fn drain(&mut self) -> Result<(), ReceiveError> {
        self.skip_body()?;
        while self.payload_left > 0 {
            if self.buffer.is_empty() {
                let deadline = self.stall_deadline();
                self.fill(deadline)?;
            }
            self.payload_left -= self.buffer.take(self.payload_left).len();
        }
        Ok(())
    }

    /// Whether bytes of another request, or the end of the connection, have arrived; never waits.
    /// [`next_header`](Self::next_header) then returns which. The current payload must have been
    /// received.
    pub fn has_pending(&mut self) -> bool {
        let at_end = self.payload_left == 0 && self.body_left == 0 && self.buffer.is_empty();
        if at_end && !self.is_over {
            match self.transport.recv_into(self.buffer.space(), Wait::No) {
                Ok(0) => self.is_over = true,
                Ok(bytes) => self.buffer.filled(bytes),
                Err(error) => {
                    self.is_over =
                        !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
                }
            }
        }
        self.is_over || !self.buffer.is_empty()
    }

    /// How long the peer may be silent within a frame.
    pub(super) fn stall_timeout(&self) -> Duration {
        self.stall_timeout
    }

    /// The parts that a [`super::CallHandler`] reads by itself.
    pub(super) fn into_parts(self) -> (Arc<Peer>, Arc<Transport>, Arc<FrameSender>, FrameBuffer) {
        (self.peer, self.transport, self.sender, self.buffer)
    }

    fn begin(&mut self, header: FrameHeader) -> Result<FrameHeader, ReceiveError> {
        if header.flags != FrameFlags::REQUEST {
            return Err(ReceiveError::Malformed(WireError::Unknown));
        }
        self.body_left = header.body_bytes as usize;
        self.payload_left = header.payload_bytes as usize;
        if let Some(inflow) = &mut self.receive_limit {
            inflow.expect_payload(header.payload_bytes);
        }
        Ok(header)
    }

    fn skip_rest(&mut self) -> Result<(), ReceiveError> {
        if self.body_left > 0 || self.payload_left > 0 { self.drain() } else { Ok(()) }
    }

    fn skip_body(&mut self) -> Result<(), ReceiveError> {
        if self.body_left > 0 { self.body().map(|_| ()) } else { Ok(()) }
    }

    fn fill(&mut self, wait: Wait) -> Result<(), ReceiveError> {
        match self.transport.recv_into(self.buffer.space(), wait) {
            Ok(0) if self.buffer.is_empty() => Err(ReceiveError::Closed),
            Ok(0) => Err(ReceiveError::Lost(ErrorKind::UnexpectedEof.into())),
            Ok(bytes) => {
                self.buffer.filled(bytes);
                Ok(())
            }
            Err(error) => Err(ReceiveError::Lost(error)),
        }
    }

    fn stall_deadline(&self) -> Wait {
        Wait::Until(Instant::now() + self.stall_timeout)
    }
}
