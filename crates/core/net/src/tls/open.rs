//! Opens TLS 1.3 records (RFC 8446 section 5) where they were received: small ones in the inbox,
//! from which they are copied; large payloads in the caller's memory.
//!
//! ```text
//!   inbox:  | .. opened, not taken: plain .. | start: not opened .. end | space for the socket |
//!
//!   caller: | record | record | start of one     inbox: | .. space .. | a little of what follows |
//!           | plaintext plaintext | (no result)         | start and rest of the last record |
//! ```
//!
//! In the caller's memory, each record is opened to the end of the preceding plaintext, which is
//! never behind the record's start. A record that is incomplete at the end is opened in the inbox.
//!
//! Invariants:
//! 1. Bytes are returned only after their record's tag was verified. Memory behind the returned
//!    bytes has no meaning.
//! 2. After an error no record is opened.
//!
//! `open_record` returns bytes only when the library has verified their tag, and the assertions
//! check that none is overwritten before it is taken (1). `ended` remembers an error (2).

use std::{
    io::{self, ErrorKind, IoSliceMut},
    ops::Range,
};

use aws_lc_rs::aead::Aad;

use super::{
    ALERT, CIPHERTEXT_BYTES_MAX, DATA, HANDSHAKE, HEADER_BYTES, KEY_UPDATE, PLAINTEXT_BYTES_MAX,
    RECEIVE_BYTES, invalid, keys::Keys,
};

/// Received beyond what is asked for: the rest of records, and the next record if it holds the next
/// frame's header. Small, because payload that arrives here must be copied.
const AHEAD_BYTES: usize = 1024;
/// From this size on, plaintext is opened at its destination. A record must fit, even behind the
/// start of another.
pub(super) const DIRECT_BYTES_MIN: usize = 2 * RECORD_BYTES_MAX;
const RECORD_BYTES_MAX: usize = HEADER_BYTES + CIPHERTEXT_BYTES_MAX;

/// Received bytes, record by record.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; RECEIVE_BYTES], start: 0, end: 0 }
    }

    /// The next record with its header, if it is complete.
    pub(super) fn record(&mut self) -> io::Result<Option<&mut [u8]>> {
        let Some(range) = self.next_record()? else { return Ok(None) };
        self.start = range.end;
        Ok(Some(&mut self.bytes[range]))
    }

    fn next_record(&self) -> io::Result<Option<Range<usize>>> {
        let received = &self.bytes[self.start..self.end];
        let record = record_bytes(received)?.filter(|bytes| *bytes <= received.len());
        Ok(record.map(|bytes| self.start..self.start + bytes))
    }

    /// Receives about `wanted` bytes of plaintext more. There must be no complete record.
    pub(super) fn refill(
        &mut self,
        wanted: usize,
        recv: &mut impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let missing = record_bytes(&self.bytes[..self.end])?.map_or(0, |bytes| bytes - self.end);
        let until = self.bytes.len().min(self.end + wanted.max(missing) + AHEAD_BYTES);
        self.end += some(recv(&mut self.bytes[self.end..until])?)?;
        Ok(())
    }

    /// Receives more, first into `buffer`, which now begins with the bytes received before. Returns
    /// how many bytes of `buffer` are filled. The rest goes into the inbox, behind space for a
    /// record.
    fn refill_into(
        &mut self,
        buffer: &mut [u8],
        recv: &mut impl FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let (front, rest) = buffer.split_at_mut(self.end - self.start);
        front.copy_from_slice(&self.bytes[self.start..self.end]);
        let around = rest.len() / PLAINTEXT_BYTES_MAX * (RECORD_BYTES_MAX - PLAINTEXT_BYTES_MAX);
        let until = self.bytes.len().min(RECORD_BYTES_MAX + around + AHEAD_BYTES);
        let behind = &mut self.bytes[RECORD_BYTES_MAX..until];
        let received = some(recv(&mut [IoSliceMut::new(rest), IoSliceMut::new(behind)])?)?;
        let direct = received.min(rest.len());
        (self.start, self.end) = (RECORD_BYTES_MAX, RECORD_BYTES_MAX + received - direct);
        Ok(front.len() + direct)
    }

    /// Takes back the start of a record that [`Inbox::refill_into`] received.
    fn put_back(&mut self, beginning: &[u8]) {
        self.start -= beginning.len();
        self.bytes[self.start..][..beginning.len()].copy_from_slice(beginning);
    }
}

/// Length of the record that `received` begins with, if its header is complete.
fn record_bytes(received: &[u8]) -> io::Result<Option<usize>> {
    let Some(&[_, _, _, high, low]) = received.first_chunk() else { return Ok(None) };
    let bytes = usize::from(u16::from_be_bytes([high, low]));
    if bytes > CIPHERTEXT_BYTES_MAX {
        Err(invalid("a TLS record is too long"))
    } else {
        Ok(Some(HEADER_BYTES + bytes))
    }
}

fn some(received: usize) -> io::Result<usize> {
    if received == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(received) }
}

/// The kind of a record.
pub(super) enum OpenedRecord {
    Data,
    /// The peer has a new key; `asked`: it asks for one in return.
    Updated {
        asked: bool,
    },
    /// There is no complete record.
    Nothing,
    /// The peer announced the end, or the channel failed.
    End,
}

/// Opens records.
pub(super) struct RecordOpener {
    keys: Keys,
    inbox: Inbox,
    plain: Range<usize>,
    ended: bool,
}

impl RecordOpener {
    /// `inbox` holds what arrived behind the handshake.
    pub(super) fn new(keys: Keys, inbox: Inbox) -> Self {
        Self { keys, inbox, plain: 0..0, ended: false }
    }

    /// Whether there may be plaintext without receiving more.
    pub(super) fn has_received(&self) -> bool {
        !self.plain.is_empty() || !matches!(self.inbox.next_record(), Ok(None))
    }

    /// Receives about `wanted` bytes of plaintext more. All plaintext must have been taken.
    pub(super) fn refill(
        &mut self,
        wanted: usize,
        recv: &mut impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.plain = 0..0;
        self.inbox.refill(wanted, recv)
    }

    /// Receives more into `buffer` and opens it there. Returns how much plaintext is in `buffer`,
    /// and whether the peer asked for a new key. `buffer` has at least [`DIRECT_BYTES_MIN`] bytes.
    pub(super) fn refill_into(
        &mut self,
        buffer: &mut [u8],
        recv: &mut impl FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<(usize, bool)> {
        assert!(self.plain.is_empty(), "1: plaintext is taken before more is received");
        let received = self.inbox.refill_into(buffer, recv)?;
        let opened = self.open_direct(&mut buffer[..received]);
        self.ended |= opened.is_err();
        opened
    }

    /// Each record's plaintext follows that of the record before.
    fn open_direct(&mut self, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
        let (mut plain, mut at, mut update_asked) = (0, 0, false);
        while let Some(bytes) =
            record_bytes(&buffer[at..])?.filter(|bytes| *bytes <= buffer.len() - at)
        {
            let (kind, length) =
                open_record(&mut self.keys, &mut buffer[plain..at + bytes], at - plain)?;
            at += bytes;
            match opened(kind, &buffer[plain..plain + length], &mut self.keys)? {
                OpenedRecord::Updated { asked } => update_asked |= asked,
                OpenedRecord::End => {
                    self.ended = true;
                    return Ok((plain, update_asked));
                }
                _ => plain += length,
            }
        }
        self.inbox.put_back(&buffer[at..]);
        Ok((plain, update_asked))
    }

    /// Copies opened plaintext to `piece`. Returns how much.
    pub(super) fn copy_to(&mut self, piece: &mut IoSliceMut<'_>, at: usize) -> usize {
        let bytes = self.plain.len().min(piece.len() - at);
        let from = self.plain.start;
        piece[at..at + bytes].copy_from_slice(&self.inbox.bytes[from..from + bytes]);
        self.plain.start += bytes;
        bytes
    }

    /// Opens the next record. All plaintext before it must have been taken.
    pub(super) fn open(&mut self) -> io::Result<OpenedRecord> {
        assert!(self.plain.is_empty(), "1: a record is taken before the next is opened");
        if self.ended {
            return Ok(OpenedRecord::End);
        }
        let opened = self.open_next();
        self.ended = matches!(opened, Err(_) | Ok(OpenedRecord::End));
        opened
    }

    fn open_next(&mut self) -> io::Result<OpenedRecord> {
        let Some(record) = self.inbox.next_record()? else { return Ok(OpenedRecord::Nothing) };
        self.inbox.start = record.end;
        let begin = record.start;
        let (kind, length) = open_record(&mut self.keys, &mut self.inbox.bytes[record], 0)?;
        let opened = opened(kind, &self.inbox.bytes[begin..begin + length], &mut self.keys)?;
        if matches!(opened, OpenedRecord::Data) {
            self.plain = begin..begin + length;
        }
        Ok(opened)
    }
}

/// The meaning of an opened record of this type.
fn opened(kind: u8, plain: &[u8], keys: &mut Keys) -> io::Result<OpenedRecord> {
    let [a, b, c, d, _] = KEY_UPDATE;
    match (kind, plain) {
        (DATA, _) => Ok(OpenedRecord::Data),
        (HANDSHAKE, &[w, x, y, z, asked @ (0 | 1)]) if [w, x, y, z] == [a, b, c, d] => {
            keys.update()?;
            Ok(OpenedRecord::Updated { asked: asked == 1 })
        }
        (ALERT, [_, 0]) => Ok(OpenedRecord::End),
        (ALERT, [_, alert]) => Err(invalid(&format!("the peer ended TLS with alert {alert}"))),
        _ => Err(invalid("a TLS record of a kind that does not belong here")),
    }
}

/// Opens the record at `at` of `bytes`; the plaintext goes to the front of `bytes`. Returns the
/// record's type and the length of the plaintext.
fn open_record(keys: &mut Keys, bytes: &mut [u8], at: usize) -> io::Result<(u8, usize)> {
    let inner = at + HEADER_BYTES;
    let mut header = [0; HEADER_BYTES];
    header.copy_from_slice(&bytes[at..inner]);
    if header[0] != DATA {
        return Err(invalid("a TLS record that is not encrypted"));
    }
    let (key, nonce) = keys.next();
    let opened = key.open_within(nonce, Aad::from(header), bytes, inner..);
    let plain = opened.map_err(|_| invalid("a TLS record was modified in transit"))?;
    // RFC 8446 section 5.4: zeros behind the type are padding
    let last = plain
        .iter()
        .rposition(|byte| *byte != 0)
        .ok_or_else(|| invalid("a TLS record without a type"))?;
    if last > PLAINTEXT_BYTES_MAX {
        return Err(invalid("a TLS record is too long"));
    }
    Ok((plain[last], last))
}
