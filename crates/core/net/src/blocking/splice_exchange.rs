//! One exchange whose payload is spliced into a pipe.
//!
//! ```text
//!   header (exactly) ─> payload: socket ──splice──> pipe ─> header ─> … ─> final header and body
//!                                  └ pipe full: pipe ──> buffer, and the rest into the buffer ──┘
//! ```
//!
//! Invariant: no payload byte is received together with a header, since bytes in the inbox cannot
//! be spliced.

use std::{
    io::{self, ErrorKind, IoSlice},
    sync::Arc,
    time::{Duration, Instant},
};

use braid_types::limits::FRAME_BODY_BYTES_MAX;
use braid_wire::{FRAME_HEADER_BYTES, FrameFlags, FrameHeader};

use super::{
    end_of,
    exchange_queue::{Connection, ConnectionEnd},
};
use crate::{
    driver::{Answer, NetError},
    incast::{ReceiveLimiter, ReceivePermit, ReceiveProgress, ReceiveStats},
    pipe::Pipe,
    transport::Wait,
};

/// Received with the header of what must be the final frame: its body, which is short.
const AHEAD_BYTES: usize = 512;

/// See [`crate::Driver::exchange_into_pipe`].
pub(super) fn exchange(
    intake: &Arc<ReceiveLimiter>,
    connection: &mut Connection,
    (op, body): (u16, &[u8]),
    (pipe, buffer): (&mut Pipe, &mut [u8]),
    silence_max: Duration,
) -> Option<Result<Answer, NetError>> {
    let can = connection.transport.is_plain()
        && connection.inbox.is_empty()
        && connection.broken.is_none();
    if !can || connection.fills_pipe {
        return None;
    }
    let begin = Instant::now();
    let permit = match connection.is_limited(buffer.len() as u64) {
        false => None,
        true => match intake.acquire(1, silence_max, || {}) {
            None => return Some(Err(connection.not_sent(silence_max))),
            permit => permit,
        },
    };
    let asked = Instant::now();
    if let Some(permit) = &permit {
        connection.open_window(permit.window_share());
    }
    let request_id = connection.next_id;
    connection.next_id += 1;
    let progress = permit.as_ref().map(ReceivePermit::progress);
    let mut call = SplicedCall {
        connection,
        op,
        request_id,
        silence_max,
        pipe,
        buffer,
        got: 0,
        copies: false,
        progress,
    };
    let outcome = call.send(body).and_then(|()| call.receive());
    // Happens with network interfaces that do not merge received segments. To try again each time
    // would cost both the pipe and the copy.
    let overfilled = call.copies;
    connection.fills_pipe |= overfilled;
    if let Some(permit) = permit {
        let mut received = ReceiveStats::default();
        connection.close_window(&mut received);
        permit.finish(received);
    }
    Some(outcome.map_err(|halt| {
        let error = connection.error_for(halt, silence_max.min(asked.elapsed()), asked - begin);
        connection.transport.shutdown();
        connection.broken = Some(error.clone());
        error
    }))
}

struct SplicedCall<'c> {
    connection: &'c mut Connection,
    op: u16,
    request_id: u64,
    silence_max: Duration,
    pipe: &'c mut Pipe,
    buffer: &'c mut [u8],
    /// Payload bytes received.
    got: usize,
    /// The pipe was full: received bytes are in the buffer.
    copies: bool,
    /// Where received bytes are reported for the permit.
    progress: Option<ReceiveProgress>,
}

impl SplicedCall<'_> {
    /// The wait for the next bytes.
    fn wait(&self) -> Wait {
        Wait::Until(end_of(Instant::now(), self.silence_max))
    }

    fn send(&self, body: &[u8]) -> Result<(), ConnectionEnd> {
        let header = FrameHeader {
            op: self.op,
            flags: FrameFlags::REQUEST,
            request_id: self.request_id,
            body_bytes: body.len() as u32,
            payload_bytes: 0,
        };
        let header = header.to_bytes();
        let mut pieces = [IoSlice::new(&header), IoSlice::new(body)];
        Ok(self.connection.transport.send_all(&mut pieces, false, self.wait())?)
    }

    fn receive(&mut self) -> Result<Answer, ConnectionEnd> {
        loop {
            let (header, body) = self.frame()?;
            self.payload(header.payload_bytes as usize)?;
            if header.flags == FrameFlags::FINAL {
                return Ok(Answer { body, payload_bytes: self.got as u64 });
            }
        }
    }

    /// The next header, and the body of its frame.
    fn frame(&self) -> Result<(FrameHeader, Vec<u8>), ConnectionEnd> {
        let mut ahead = [0; FRAME_HEADER_BYTES + AHEAD_BYTES];
        // Once all payload is there, only the final frame can follow.
        let space = if self.got == self.buffer.len() { ahead.len() } else { FRAME_HEADER_BYTES };
        let came = self.receive_into(&mut ahead[..space], FRAME_HEADER_BYTES)?;
        let (header, behind) = ahead[..came].split_at(FRAME_HEADER_BYTES);
        let header: &[u8; FRAME_HEADER_BYTES] = header.try_into().expect("split there");
        let header =
            FrameHeader::from_bytes(header).map_err(|error| self.misbehaved(&error.to_string()))?;
        self.check(&header)?;
        let mut body = vec![0; header.body_bytes as usize];
        if behind.len() > body.len() {
            return Err(self.misbehaved("it sent more than its answer"));
        }
        body[..behind.len()].copy_from_slice(behind);
        let left = &mut body[behind.len()..];
        let want = left.len();
        self.receive_into(left, want)?;
        Ok((header, body))
    }

    fn check(&self, header: &FrameHeader) -> Result<(), ConnectionEnd> {
        if (header.request_id, header.op) != (self.request_id, self.op) {
            return Err(self.misbehaved("it answered a call that was not made"));
        }
        if header.payload_bytes as usize > self.buffer.len() - self.got {
            return Err(self.misbehaved("it sent more payload than was asked for"));
        }
        match header.flags {
            FrameFlags::DATA if header.payload_bytes == 0 => {
                // see `exchange_queue.rs`
                Err(self.misbehaved("it sent a data frame without payload"))
            }
            FrameFlags::DATA if header.body_bytes == 0 => Ok(()),
            FrameFlags::FINAL if header.body_bytes as usize <= FRAME_BODY_BYTES_MAX => Ok(()),
            _ => Err(self.misbehaved("it sent a frame that is no reply")),
        }
    }

    fn payload(&mut self, mut left: usize) -> Result<(), ConnectionEnd> {
        while left > 0 {
            let (transport, wait) = (&self.connection.transport, self.wait());
            let moved = match self.copies {
                true => transport.recv_into(&mut self.buffer[self.got..][..left], wait)?,
                false => match self.pipe.fill(transport, left, wait)? {
                    Some(moved) => moved,
                    None => {
                        self.pipe.take(self.buffer)?;
                        self.copies = true;
                        continue;
                    }
                },
            };
            if moved == 0 {
                return Err(closed());
            }
            if let Some(progress) = &self.progress {
                progress.add(moved);
            }
            self.got += moved;
            left -= moved;
        }
        Ok(())
    }

    /// Receives at least `least` bytes into `space`. Returns how many.
    fn receive_into(&self, space: &mut [u8], least: usize) -> Result<usize, ConnectionEnd> {
        let mut came = 0;
        while came < least {
            match self.connection.transport.recv_into(&mut space[came..], self.wait())? {
                0 => return Err(closed()),
                bytes => came += bytes,
            }
        }
        Ok(came)
    }

    fn misbehaved(&self, what: &str) -> ConnectionEnd {
        ConnectionEnd::Peer(self.connection.misbehaved(what))
    }
}

fn closed() -> ConnectionEnd {
    ConnectionEnd::Socket(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection"))
}
