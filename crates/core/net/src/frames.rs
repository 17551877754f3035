//! Splits a byte stream into frames, without I/O: bytes go in as they arrive, whole frames come
//! out.
//!
//! ```text
//!   buffer: | consumed | bytes of frames not yet taken | space |
//!                      ^ start                         ^ end
//! ```
//!
//! Invariants:
//! 1. A header is checked before memory for its frame is allocated (I9).
//! 2. The buffer never grows past one header and one body of the maximum length.
//! 3. It never shrinks below its initial size.
//!
//! `make_space` asserts 2 and only ever makes the buffer longer (3). `peek_header` refuses a header
//! that breaks 1.

use braid_types::limits::FRAME_BODY_BYTES_MAX;
use braid_wire::{FRAME_HEADER_BYTES, FrameFlags, FrameHeader, WireError};

/// A buffer that a socket is read into and frames are taken from.
#[derive(Debug)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    body_bytes_max: usize,
}

impl FrameBuffer {
    /// A buffer of `bytes` that accepts bodies up to the protocol's limit.
    pub fn new(bytes: usize) -> Self {
        Self::with_body_max(bytes, FRAME_BODY_BYTES_MAX)
    }

    /// A buffer that refuses bodies over `body_bytes_max`, for peers that have not proved a key.
    pub fn with_body_max(bytes: usize, body_bytes_max: usize) -> Self {
        Self { bytes: vec![0; bytes.max(FRAME_HEADER_BYTES)], start: 0, end: 0, body_bytes_max }
    }

    /// Where the next bytes of the stream belong. Never empty after [`FrameBuffer::header`] or
    /// [`FrameBuffer::frame`] returned `None`.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        &mut self.bytes[self.end..]
    }

    /// `n` bytes were put into [`FrameBuffer::space`].
    pub fn filled(&mut self, n: usize) {
        self.end += n;
        assert!(self.end <= self.bytes.len(), "more bytes filled than there was space");
    }

    /// Bytes that were put in and not taken.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether every byte was taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the next header. `None` when more bytes are needed.
    ///
    /// # Errors As [`FrameHeader::from_bytes`], and [`WireError::TooLong`] for a body over the
    /// buffer's limit.
    pub fn header(&mut self) -> Result<Option<FrameHeader>, WireError> {
        let Some(header) = self.peek_header()? else {
            self.make_space(FRAME_HEADER_BYTES);
            return Ok(None);
        };
        self.start += FRAME_HEADER_BYTES;
        Ok(Some(header))
    }

    /// Takes the next frame without its payload. `None` when more bytes are needed. The payload, if
    /// any, is left for [`FrameBuffer::take`].
    ///
    /// # Errors
    /// As [`FrameBuffer::header`].
    pub fn frame(&mut self) -> Result<Option<(FrameHeader, &[u8])>, WireError> {
        let Some(header) = self.peek_header()? else {
            self.make_space(FRAME_HEADER_BYTES);
            return Ok(None);
        };
        let frame_bytes = FRAME_HEADER_BYTES + header.body_bytes as usize;
        if self.len() < frame_bytes {
            self.make_space(frame_bytes);
            return Ok(None);
        }
        let body = self.start + FRAME_HEADER_BYTES..self.start + frame_bytes;
        self.start = body.end;
        Ok(Some((header, &self.bytes[body])))
    }

    /// Makes space for the next `n` bytes to be contiguous; `n` is at most the body limit.
    pub fn reserve(&mut self, n: usize) {
        self.make_space(n);
    }

    /// Takes at most `n` bytes that have arrived.
    pub fn take(&mut self, n: usize) -> &[u8] {
        let from = self.start;
        self.start += n.min(self.len());
        &self.bytes[from..self.start]
    }

    fn peek_header(&self) -> Result<Option<FrameHeader>, WireError> {
        let Some(bytes) = self.bytes[self.start..self.end].first_chunk() else { return Ok(None) };
        let header = FrameHeader::from_bytes(bytes)?;
        if header.body_bytes as usize > self.body_bytes_max {
            Err(WireError::TooLong)
        } else {
            Ok(Some(header))
        }
    }

    /// Moves the remaining bytes to the front, and grows the buffer if `want` bytes from `start` do
    /// not fit.
    fn make_space(&mut self, want: usize) {
        if self.start + want <= self.bytes.len() {
            return;
        }
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if want > self.bytes.len() {
            debug_assert!(
                want <= FRAME_HEADER_BYTES + self.body_bytes_max,
                "invariant 2: the buffer holds at most one header and one body"
            );
            self.bytes.resize(want, 0);
        }
    }
}

/// Appends a frame without payload.
pub fn push_frame(out: &mut Vec<u8>, op: u16, flags: FrameFlags, request_id: u64, body: &[u8]) {
    let header =
        FrameHeader { op, flags, request_id, body_bytes: body.len() as u32, payload_bytes: 0 };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(body);
}
