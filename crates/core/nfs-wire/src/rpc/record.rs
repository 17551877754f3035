//! Record marking (RFC 5531 11): RPC messages over a byte stream, without I/O.
//!
//! ```text
//!   record   = fragment, fragment, ... last fragment      one record is one RPC message
//!   fragment = header (4 bytes: bit 31 "last", bits 0-30 length) · that many bytes
//!
//!   buffer:  | header | bytes of a fragment ... | offered |   a socket is read into `offered`
//! ```
//!
//! Invariants:
//! 1. A fragment's length is checked against the record's limit before memory for it is reserved.
//! 2. Memory is filled only as bytes arrive, [`READ_BYTES_MAX`] ahead of them at most: a peer that
//!    announces a long record and sends nothing costs address space only.
//! 3. A record of one fragment is returned without a copy. Linux sends only such records.
//! 4. A record has at most [`FRAGMENTS_MAX`] fragments, so empty fragments cannot follow each
//!    other without an end.
//! 5. After an error the stream has no known boundary; every later call returns the same error.

#[cfg(test)]
mod tests;

use bytes::buf::Limit;
use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

/// Length of a fragment's header.
pub const RECORD_HEADER_BYTES: usize = 4;

/// Longest record by default: the data of one READ or WRITE (1 MiB is the largest I/O size of
/// Linux) and 64 KiB for the rest of the compound and its credential.
pub const RECORD_BYTES_MAX: usize = (1 << 20) + (64 << 10);

/// Most fragments of one record: at the default limit fragments may be as short as 1 KiB; the
/// buffers of real clients are longer (8 KiB in libtirpc).
pub const FRAGMENTS_MAX: u32 = 1088;

/// Most bytes offered to one read of the socket.
pub const READ_BYTES_MAX: usize = 256 << 10;

/// Bytes offered while the length of the next fragment is unknown: several small calls arrive
/// with one read.
const READ_AHEAD_BYTES: usize = 16 << 10;

/// Bit 31 of a fragment's header.
const LAST_FRAGMENT: u32 = 1 << 31;

/// Why a stream cannot be read further. The connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The fragments announced so far exceed the limit.
    #[error("a record of at least {announced} bytes, the limit is {limit}")]
    TooLong {
        /// Bytes of the record's fragments, including the one just announced.
        announced: usize,
        /// The reader's limit.
        limit: usize,
    },
    /// More than [`FRAGMENTS_MAX`] fragments.
    #[error("a record of more than {FRAGMENTS_MAX} fragments")]
    TooManyFragments,
}

/// Splits a byte stream into records.
///
/// ```
/// use braid_nfs_wire::rpc::record::{RecordReader, record_header};
///
/// let mut reader = RecordReader::new();
/// let mut stream: &[u8] = &[&record_header(3)[..], b"abc"].concat();
/// let read = std::io::Read::read(&mut stream, reader.space()).unwrap();
/// reader.advance(read);
/// assert_eq!(reader.next_record().unwrap().unwrap(), "abc");
/// assert_eq!(reader.next_record().unwrap(), None);
/// ```
#[derive(Debug)]
pub struct RecordReader {
    /// Bytes that arrived and were not taken, then `offered` bytes of space.
    buffer: BytesMut,
    /// Initialised bytes at the buffer's end that [`RecordReader::space`] handed out.
    offered: usize,
    /// The complete fragments of a record whose last fragment has not arrived.
    assembled: BytesMut,
    /// The number of those fragments.
    fragments: u32,
    record_bytes_max: usize,
    error: Option<RecordError>,
}

impl Default for RecordReader {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordReader {
    /// A reader that accepts records of up to [`RECORD_BYTES_MAX`].
    pub fn new() -> Self {
        Self::with_limit(RECORD_BYTES_MAX)
    }

    /// A reader that accepts records of up to `record_bytes_max` bytes.
    pub fn with_limit(record_bytes_max: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            offered: 0,
            assembled: BytesMut::new(),
            fragments: 0,
            record_bytes_max,
            error: None,
        }
    }

    /// Changes the limit for records whose header has not been read. A server raises it to the
    /// session's largest request when the session exists.
    pub fn set_limit(&mut self, record_bytes_max: usize) {
        self.record_bytes_max = record_bytes_max;
    }

    /// Initialised memory for the next bytes of the stream, never empty. Call
    /// [`RecordReader::advance`] with the number of bytes that were written to it.
    pub fn space(&mut self) -> &mut [u8] {
        let want = self.bytes_wanted();
        if self.offered < want {
            let filled = self.filled();
            self.reserve(want);
            self.buffer.resize(filled + want, 0);
            self.offered = want;
        }
        let filled = self.filled();
        &mut self.buffer[filled..filled + want]
    }

    /// `n` bytes were written to the front of [`RecordReader::space`].
    ///
    /// # Panics
    /// With more bytes than the space had.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.offered, "{n} bytes written to {} bytes of space", self.offered);
        self.offered -= n;
    }

    /// The same memory as [`RecordReader::space`], without setting it to zero first, for readers
    /// that fill a [`BufMut`] (tokio's `read_buf`). What is put into it counts as arrived.
    pub fn unfilled(&mut self) -> Limit<&mut BytesMut> {
        let want = self.bytes_wanted();
        self.reserve(want);
        (&mut self.buffer).limit(want)
    }

    /// Appends bytes that were read elsewhere.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.space();
            let n = space.len().min(bytes.len());
            space[..n].copy_from_slice(&bytes[..n]);
            self.advance(n);
            bytes = &bytes[n..];
        }
    }

    /// Whether the stream may end here: no part of a record has arrived.
    pub fn is_between_records(&self) -> bool {
        self.filled() == 0 && self.fragments == 0
    }

    /// Takes the next record. `None` when more bytes are needed.
    ///
    /// The record shares memory with others that arrived in the same read, so a caller that keeps
    /// a small part of one for long copies it.
    ///
    /// # Errors
    /// When the peer exceeds a limit; see [`RecordError`].
    pub fn next_record(&mut self) -> Result<Option<Bytes>, RecordError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let record = self.take_record();
        self.error = record.as_ref().err().copied();
        record
    }

    fn take_record(&mut self) -> Result<Option<Bytes>, RecordError> {
        loop {
            let Some((length, last)) = self.fragment_header() else { return Ok(None) };
            let announced = self.assembled.len() + length;
            if announced > self.record_bytes_max {
                return Err(RecordError::TooLong { announced, limit: self.record_bytes_max });
            }
            if self.fragments == FRAGMENTS_MAX {
                return Err(RecordError::TooManyFragments);
            }
            if self.filled() < RECORD_HEADER_BYTES + length {
                return Ok(None);
            }
            let mut fragment = self.buffer.split_to(RECORD_HEADER_BYTES + length);
            let fragment = fragment.split_off(RECORD_HEADER_BYTES);
            if last && self.fragments == 0 {
                return Ok(Some(fragment.freeze())); // invariant 3
            }
            self.assembled.extend_from_slice(&fragment);
            self.fragments += 1;
            if last {
                self.fragments = 0;
                return Ok(Some(self.assembled.split().freeze()));
            }
        }
    }

    /// Length of the fragment at the buffer's front, and whether it is the record's last.
    fn fragment_header(&self) -> Option<(usize, bool)> {
        let header = u32::from_be_bytes(*self.buffer[..self.filled()].first_chunk()?);
        Some(((header & !LAST_FRAGMENT) as usize, header & LAST_FRAGMENT != 0))
    }

    /// Bytes that arrived and were not taken.
    fn filled(&self) -> usize {
        self.buffer.len() - self.offered
    }

    /// How many bytes the next read may bring: the rest of the fragment, or some read-ahead.
    fn bytes_wanted(&self) -> usize {
        match self.fragment_header() {
            // Invariant 1: a refused length reserves nothing. The error comes from `next_record`.
            Some((length, _)) if self.assembled.len() + length <= self.record_bytes_max => {
                let missing = (RECORD_HEADER_BYTES + length).saturating_sub(self.filled());
                missing.clamp(READ_AHEAD_BYTES, READ_BYTES_MAX)
            }
            _ => READ_AHEAD_BYTES,
        }
    }

    /// Reserves the rest of the announced fragment in one piece, `want` bytes at least, and takes
    /// back what was offered.
    fn reserve(&mut self, want: usize) {
        let filled = self.filled();
        self.buffer.truncate(filled);
        self.offered = 0;
        let fragment = match self.fragment_header() {
            Some((length, _)) if self.assembled.len() + length <= self.record_bytes_max => {
                RECORD_HEADER_BYTES + length
            }
            _ => 0,
        };
        self.buffer.reserve(want.max(fragment.saturating_sub(filled)));
    }
}

/// The header of a record that is sent as one fragment of `bytes`.
///
/// # Panics
/// With 2 GiB or more, which the 31 bits of the length cannot express.
pub fn record_header(bytes: usize) -> [u8; RECORD_HEADER_BYTES] {
    let length = u32::try_from(bytes).ok().filter(|length| length & LAST_FRAGMENT == 0);
    let length = length.expect("a record is shorter than 2 GiB");
    (length | LAST_FRAGMENT).to_be_bytes()
}
