//! Frames between tasks that have proved the secret to each other, with deadlines.
//!
//! ```text
//!   kind u8 | length u64 | MAC (32 bytes) over sequence, kind, length, body | body
//! ```

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use braid_wire::Secret;

const MAC_BYTES: usize = 32;
const HEAD_BYTES: usize = 1 + 8 + MAC_BYTES;

/// The kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FrameKind {
    /// To the root: the payload of a task in a round.
    Give,
    /// From the root: the payloads of all tasks.
    All,
    /// From the root: all tasks are there.
    Joined,
    /// From the root: a status and the reason why the group failed.
    Failed,
}

impl FrameKind {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Give => 1,
            Self::All => 2,
            Self::Joined => 3,
            Self::Failed => 4,
        }
    }

    pub(super) fn of_code(code: u8) -> Option<Self> {
        [Self::Give, Self::All, Self::Joined, Self::Failed]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// One direction of a connection.
pub(super) struct Direction {
    key: Secret,
    sequence: u64,
}

impl Direction {
    pub(super) fn new(key: Secret) -> Self {
        Self { key, sequence: 0 }
    }

    /// Sends a frame.
    pub(super) fn send(
        &mut self,
        stream: &TcpStream,
        kind: FrameKind,
        body: &[u8],
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        let mut timed = DeadlineStream { stream, deadline };
        timed.write_all(&self.next_head(kind, body))?;
        timed.write_all(body)
    }

    /// What is sent before the body of the next frame.
    pub(super) fn next_head(&mut self, kind: FrameKind, body: &[u8]) -> [u8; HEAD_BYTES] {
        let length = body.len() as u64;
        let mac = self.mac(kind, length, body);
        let mut head = [0; HEAD_BYTES];
        head[0] = kind.code();
        head[1..9].copy_from_slice(&length.to_le_bytes());
        head[9..].copy_from_slice(&mac);
        head
    }

    /// Receives a frame of at most `bytes_max`.
    pub(super) fn receive(
        &mut self,
        stream: &TcpStream,
        bytes_max: usize,
        deadline: Option<Instant>,
    ) -> io::Result<(FrameKind, Vec<u8>)> {
        self.read_frame(&mut DeadlineStream { stream, deadline }, bytes_max)
    }

    /// Reads the next frame, of at most `bytes_max`, from the bytes that were received.
    pub(super) fn read_frame(
        &mut self,
        from: &mut impl Read,
        bytes_max: usize,
    ) -> io::Result<(FrameKind, Vec<u8>)> {
        let mut head = [0; HEAD_BYTES];
        from.read_exact(&mut head)?;
        let (kind, length, mac) =
            parse(&head).ok_or_else(|| invalid_data("a frame that is not understood"))?;
        if length > bytes_max as u64 {
            return Err(invalid_data(&format!(
                "a frame of {length} bytes; the limit is {bytes_max}"
            )));
        }
        // Memory grows with the received bytes, not with the announced length.
        let mut body = Vec::new();
        if from.take(length).read_to_end(&mut body)? as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let expected = self.sequence;
        let parts = [&expected.to_le_bytes()[..], &[kind.code()], &length.to_le_bytes(), &body];
        if !self.key.verify("group frame", &parts, &mac) {
            return Err(invalid_data("a frame that no task of this group sent"));
        }
        self.sequence += 1;
        Ok((kind, body))
    }

    fn mac(&mut self, kind: FrameKind, length: u64, body: &[u8]) -> [u8; MAC_BYTES] {
        let sequence = self.sequence;
        self.sequence += 1;
        self.key.mac(
            "group frame",
            &[&sequence.to_le_bytes(), &[kind.code()], &length.to_le_bytes(), body],
        )
    }
}

fn parse(head: &[u8; HEAD_BYTES]) -> Option<(FrameKind, u64, [u8; MAC_BYTES])> {
    let (code, rest) = head.split_first()?;
    let (length, mac) = rest.split_first_chunk::<8>()?;
    Some((FrameKind::of_code(*code)?, u64::from_le_bytes(*length), *mac.first_chunk()?))
}

pub(super) fn invalid_data(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A stream whose calls end by a deadline.
pub(super) struct DeadlineStream<'s> {
    pub(super) stream: &'s TcpStream,
    pub(super) deadline: Option<Instant>,
}

impl DeadlineStream<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        match deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

/// Unix reports a time-out as `WouldBlock`.
fn as_timed_out<T>(outcome: io::Result<T>) -> io::Result<T> {
    outcome.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    })
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        let mut stream = self.stream;
        as_timed_out(stream.read(buffer))
    }
}

impl Write for DeadlineStream<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        let mut stream = self.stream;
        as_timed_out(stream.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
