//! The task of one connection: moves bytes, and matches replies to calls.
//!
//! Invariants:
//! 1. Unsent data is bounded by the credits and the window of the callers.
//! 2. Payload is accepted only as far as its call has space for it. A data frame without payload
//!    ends the connection: it would reset the server's time-out and bring nothing (I8).
//! 3. When the task ends, every call gets the reason.
//!
//! `begin_frame` checks 2, since a server may send anything, and `digest` asserts it. The permits
//! in each [`Command`] bound 1. The end of the task is one place (3).

use std::{
    collections::{HashMap, VecDeque},
    io::{self, ErrorKind, IoSlice, IoSliceMut},
    sync::{Arc, OnceLock},
};

use braid_wire::{FrameFlags, FrameHeader};
use bytes::BufMut;
use tokio::{
    io::Interest,
    net::TcpStream,
    sync::{mpsc, oneshot},
};

use super::connection_handle::{Command, LastProgress, Permits, Reply};
use crate::{
    driver::NetError, frames::FrameBuffer, incast::ReceiveProgress, tls::Channel,
    transport::Transport,
};

/// Bytes that one read takes when it is not payload.
const RECEIVE_BYTES: usize = 32 * 1024;
/// Reads before commands and sends get a chance.
const READS_MAX: usize = 8;

/// Starts the task. It ends when `commands` is closed or the connection fails, and then stores the
/// reason in `ended`.
pub(super) fn spawn(
    server: String,
    transport: Transport,
    commands: mpsc::Receiver<Command>,
    (ended, moves): (Arc<OnceLock<NetError>>, Arc<LastProgress>),
) -> io::Result<()> {
    let (socket, tls) = transport.into_parts();
    socket.set_nonblocking(true)?;
    let stream = Stream { socket: TcpStream::from_std(socket)?, tls };
    let mut task = Task {
        server,
        stream,
        commands,
        next_id: 1,
        calls: HashMap::new(),
        out: SendQueue::default(),
        buffer: FrameBuffer::new(RECEIVE_BYTES),
        payload: None,
        last_progress: moves,
    };
    tokio::spawn(async move {
        let error = match task.run().await {
            Ok(()) => return,
            Err(error) => error,
        };
        let _ = ended.set(error.clone()); // no other code sets it
        task.commands.close();
        while let Ok(command) = task.commands.try_recv() {
            let _ = command.answer.send(Err(error.clone())); // fails if the caller gave up
        }
        for call in task.calls.into_values() {
            let _ = call.answer.send(Err(error.clone())); // fails if the caller gave up
        }
    });
    Ok(())
}

struct Task {
    server: String,
    stream: Stream,
    commands: mpsc::Receiver<Command>,
    next_id: u64,
    calls: HashMap<u64, Call>,
    out: SendQueue,
    buffer: FrameBuffer,
    /// The call whose payload is being received.
    payload: Option<IncomingPayload>,
    /// Where callers check how long the server has been silent.
    last_progress: Arc<LastProgress>,
}

struct IncomingPayload {
    request_id: u64,
    last: bool,
    /// Bytes that have arrived, of this frame and those before it.
    done: usize,
    /// Bytes that will have arrived at the end of this frame.
    wanted: usize,
}

struct Call {
    op: u16,
    reply_bytes_max: usize,
    reply: Reply,
    answer: oneshot::Sender<Result<Reply, NetError>>,
    _permits: Permits,
    progress: Option<ReceiveProgress>,
}

impl Task {
    async fn run(&mut self) -> Result<(), NetError> {
        loop {
            let unsent = !self.out.is_empty() || self.stream.has_unsent();
            let interest =
                if unsent { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.begin(command),
                    None => return Ok(()),
                },
                ready = self.stream.socket.ready(interest) => {
                    ready.map_err(|error| self.lost(&error))?;
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                self.begin(command);
            }
            self.send()?;
            self.receive()?;
        }
    }

    fn begin(&mut self, command: Command) {
        let Command { op, body, payload, reply_bytes_max, answer, permits, progress } = command;
        let request_id = self.next_id;
        self.next_id += 1;
        let (body_bytes, payload_bytes) = (body.len() as u32, payload.len() as u32);
        let header =
            FrameHeader { op, flags: FrameFlags::REQUEST, request_id, body_bytes, payload_bytes };
        self.out.push(&header.to_bytes());
        self.out.push(&body);
        self.out.push_long(payload);
        self.calls.insert(
            request_id,
            Call {
                op,
                reply_bytes_max,
                reply: Reply::default(),
                answer,
                _permits: permits,
                progress,
            },
        );
    }

    fn send(&mut self) -> Result<(), NetError> {
        loop {
            match self.stream.send(&self.out.slices()) {
                Ok(0) => return Ok(()),
                Ok(bytes) => {
                    self.out.advance(bytes);
                    self.last_progress.record();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(self.lost(&error)),
            }
        }
    }

    fn receive(&mut self) -> Result<(), NetError> {
        for _ in 0..READS_MAX {
            let received = match &mut self.payload {
                None => self.stream.recv(self.buffer.space()),
                Some(IncomingPayload { request_id, done, wanted, .. }) => {
                    match self.calls.get_mut(request_id) {
                        Some(call) => {
                            self.stream.recv_payload(&mut call.reply.payload, *done, *wanted)
                        }
                        None => Ok(0),
                    }
                }
            };
            let bytes = match received {
                Ok(0) => {
                    return Err(self.lost(&io::Error::new(
                        ErrorKind::UnexpectedEof,
                        "it closed the connection",
                    )));
                }
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(self.lost(&error)),
            };
            self.last_progress.record();
            match &mut self.payload {
                None => self.buffer.filled(bytes),
                Some(payload) => payload.done += bytes,
            }
            let call =
                self.payload.as_ref().and_then(|payload| self.calls.get(&payload.request_id));
            if let Some(progress) = call.and_then(|call| call.progress.as_ref()) {
                progress.add(bytes);
            }
            self.digest()?;
        }
        Ok(()) // the socket may hold more bytes; its readiness still stands
    }

    /// Processes frames as far as the received bytes allow.
    fn digest(&mut self) -> Result<(), NetError> {
        loop {
            if let Some(IncomingPayload { request_id, last, done, wanted }) = &mut self.payload {
                let Some(call) = self.calls.get_mut(request_id) else { return Ok(()) };
                let bytes = self.buffer.take(*wanted - *done);
                self.stream.put_payload(&mut call.reply.payload, *done, bytes);
                *done += bytes.len();
                debug_assert!(*wanted <= call.reply_bytes_max, "2: more than its space");
                if *done < *wanted {
                    return Ok(());
                }
                let (request_id, last) = (*request_id, *last);
                self.payload = None;
                if last {
                    self.finish(request_id);
                }
            }
            match self.buffer.frame() {
                Ok(None) => return Ok(()),
                Ok(Some((header, body))) => {
                    let body = body.to_vec();
                    self.begin_frame(&header, body)?;
                }
                Err(error) => return Err(self.misbehaved(&error.to_string())),
            }
        }
    }

    fn begin_frame(&mut self, header: &FrameHeader, body: Vec<u8>) -> Result<(), NetError> {
        let last = header.flags == FrameFlags::FINAL;
        let misplaced = header.flags == FrameFlags::REQUEST || !last && !body.is_empty();
        let more = header.payload_bytes as usize;
        let what = match self.calls.get_mut(&header.request_id) {
            None => "it answered a call that was not made",
            Some(call) if misplaced || call.op != header.op => "its reply does not fit the call",
            Some(_) if !last && more == 0 => "it sent a data frame without payload",
            Some(call) if call.reply.payload.len() + more > call.reply_bytes_max => {
                "it sent more payload than was asked for"
            }
            Some(call) => {
                let done = call.reply.payload.len();
                let wanted = done + more;
                let payload = &mut call.reply.payload;
                self.stream.reserve_payload(payload, wanted, call.reply_bytes_max);
                call.reply.body = body;
                let request_id = header.request_id;
                self.payload = Some(IncomingPayload { request_id, last, done, wanted });
                return Ok(());
            }
        };
        Err(self.misbehaved(what))
    }

    fn finish(&mut self, request_id: u64) {
        if let Some(call) = self.calls.remove(&request_id) {
            let _ = call.answer.send(Ok(call.reply)); // fails if the caller gave up
        }
    }

    fn lost(&self, error: &io::Error) -> NetError {
        NetError::ConnectionLost { server: self.server.clone(), why: error.to_string() }
    }

    fn misbehaved(&self, what: &str) -> NetError {
        NetError::PeerMisbehaved { server: self.server.clone(), what: what.to_string() }
    }
}

/// Bytes that are to be sent. Long payloads are parts of their own, which are not copied.
#[derive(Default)]
struct SendQueue {
    /// None is empty.
    parts: VecDeque<Vec<u8>>,
    /// Bytes of the first part that were sent.
    sent: usize,
}

impl SendQueue {
    /// Parts of one system call.
    const PARTS_MAX: usize = 16;
    /// Up to this length, bytes are added to the part before them.
    const SHORT_BYTES_MAX: usize = 16 * 1024;

    fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    fn push(&mut self, bytes: &[u8]) {
        match self.parts.back_mut() {
            _ if bytes.is_empty() => {}
            Some(last) if last.len() + bytes.len() <= Self::SHORT_BYTES_MAX => {
                last.extend_from_slice(bytes);
            }
            _ => self.parts.push_back(bytes.to_vec()),
        }
    }

    fn push_long(&mut self, bytes: Vec<u8>) {
        if bytes.len() <= Self::SHORT_BYTES_MAX {
            self.push(&bytes);
        } else {
            self.parts.push_back(bytes);
        }
    }

    /// The first parts, without what was sent.
    fn slices(&self) -> Vec<IoSlice<'_>> {
        let starts = std::iter::once(self.sent).chain(std::iter::repeat(0));
        let parts = self.parts.iter().take(Self::PARTS_MAX).zip(starts);
        parts.map(|(part, start)| IoSlice::new(&part[start..])).collect()
    }

    /// Removes bytes that were sent.
    fn advance(&mut self, mut bytes: usize) {
        while let Some(first) = self.parts.front() {
            let left = first.len() - self.sent;
            if bytes < left {
                self.sent += bytes;
                return;
            }
            bytes -= left;
            self.parts.pop_front();
            self.sent = 0;
        }
        debug_assert_eq!(bytes, 0, "more was sent than there was");
    }
}

/// A nonblocking socket with or without TLS.
struct Stream {
    socket: TcpStream,
    tls: Option<Channel>,
}

impl Stream {
    fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(Channel::has_unsent)
    }

    /// Takes a prefix of what `slices` contain. `Ok(0)` when there is nothing left to do.
    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.tls {
            Some(tls) => tls.send(slices, false, |bytes| self.socket.try_write(bytes)),
            None if slices.is_empty() => Ok(0),
            None => self.socket.try_write_vectored(slices),
        }
    }

    /// Makes space for `wanted` bytes of a payload that has at most `max`. Without TLS, `payload`
    /// has the bytes that have arrived, and nothing is set to zero; with TLS it has zeros behind
    /// them.
    fn reserve_payload(&self, payload: &mut Vec<u8>, wanted: usize, max: usize) {
        match &self.tls {
            Some(_) => payload.resize(wanted, 0),
            // For all frames, so that none moves the bytes of those before it.
            None => payload.reserve_exact(max - payload.len()),
        }
    }

    /// Adds bytes that have arrived to the `done` ones of a payload.
    fn put_payload(&self, payload: &mut Vec<u8>, done: usize, bytes: &[u8]) {
        match &self.tls {
            Some(_) => payload[done..done + bytes.len()].copy_from_slice(bytes),
            None => payload.extend_from_slice(bytes),
        }
    }

    /// Receives more of a payload that has `done` of `wanted` bytes. `Ok(0)` at the end of the
    /// connection.
    fn recv_payload(
        &mut self,
        payload: &mut Vec<u8>,
        done: usize,
        wanted: usize,
    ) -> io::Result<usize> {
        match &self.tls {
            Some(_) => self.recv(&mut payload[done..wanted]),
            None => self.socket.try_read_buf(&mut payload.limit(wanted - done)),
        }
    }

    /// `Ok(0)` at the end of the connection.
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            Some(tls) => tls.recv(&mut [IoSliceMut::new(into)], |buffers| {
                self.socket.try_read_vectored(buffers)
            }),
            None => self.socket.try_read(into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bytes in order, sent in pieces of every length.
    #[test]
    fn a_queue_sends_what_was_put_into_it_in_any_pieces() {
        let long = |byte: u8| vec![byte; SendQueue::SHORT_BYTES_MAX + 1];
        let wanted = [&[1; 10][..], &long(2), &[3; 5], &[4; 6], &long(5)].concat();
        for piece in [1, 7, 4096, 20_000, wanted.len()] {
            let mut queue = SendQueue::default();
            queue.push(&[1; 10]);
            queue.push(&[]);
            queue.push_long(long(2));
            queue.push(&[3; 5]);
            queue.push_long(vec![4; 6]);
            queue.push_long(long(5));
            assert_eq!(queue.parts.len(), 4, "short ones share a part");
            let mut sent = Vec::new();
            while !queue.is_empty() {
                let first = queue.slices();
                let bytes: Vec<u8> = first.iter().flat_map(|slice| slice.iter().copied()).collect();
                assert!(!bytes.is_empty());
                let now = piece.min(bytes.len());
                sent.extend_from_slice(&bytes[..now]);
                queue.advance(now);
            }
            assert!(sent == wanted, "in pieces of {piece}");
            assert!(queue.slices().is_empty());
        }
    }
}
