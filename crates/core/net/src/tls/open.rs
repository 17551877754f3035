//! Takes TLS 1.3 records (RFC 8446 section 5) apart where they were received.
//!
//! ```text
//!   | .. opened and not taken: plain .. | start: not opened .. end | room for the socket |
//! ```
//!
//! Invariants: (1) bytes are given out only after their record's tag was verified; (2) after an error nothing more
//! is opened.

use std::{
    io::{self, ErrorKind, IoSliceMut},
    ops::Range,
};

use ring::aead::Aad;

use super::{
    ALERT, CIPHERTEXT_BYTES_MAX, DATA, HANDSHAKE, HEADER_BYTES, KEY_UPDATE, PLAINTEXT_BYTES_MAX, RECEIVE_BYTES,
    invalid, keys::Keys,
};

/// What was received, record by record.
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

    /// The next record with its header, if it is whole.
    pub(super) fn record(&mut self) -> io::Result<Option<&mut [u8]>> {
        let Some(range) = self.next_record()? else { return Ok(None) };
        self.start = range.end;
        Ok(Some(&mut self.bytes[range]))
    }

    fn next_record(&self) -> io::Result<Option<Range<usize>>> {
        let Some(&[_, _, _, high, low]) = self.bytes[self.start..self.end].first_chunk() else { return Ok(None) };
        let bytes = usize::from(u16::from_be_bytes([high, low]));
        if bytes > CIPHERTEXT_BYTES_MAX {
            return Err(invalid("a TLS record is too long"));
        }
        let end = self.start + HEADER_BYTES + bytes;
        Ok((end <= self.end).then_some(self.start..end))
    }

    /// Receives more. There must be no whole record.
    pub(super) fn refill(&mut self, recv: &mut impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<()> {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        match recv(&mut self.bytes[self.end..])? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            bytes => {
                self.end += bytes;
                Ok(())
            }
        }
    }
}

/// What a record was.
pub(super) enum Opened {
    Data,
    /// The peer has a new key; whether it asks for one in return.
    Updated {
        asked: bool,
    },
    /// There is no whole record.
    Nothing,
    /// The peer said that it is the end, or the channel failed.
    End,
}

/// Takes records apart.
pub(super) struct Opener {
    keys: Keys,
    inbox: Inbox,
    plain: Range<usize>,
    ended: bool,
}

impl Opener {
    /// `inbox` has what came behind the handshake.
    pub(super) fn new(keys: Keys, inbox: Inbox) -> Self {
        Self { keys, inbox, plain: 0..0, ended: false }
    }

    /// Whether there may be plaintext without receiving more.
    pub(super) fn has_received(&self) -> bool {
        !self.plain.is_empty() || !matches!(self.inbox.next_record(), Ok(None))
    }

    pub(super) fn refill(&mut self, recv: &mut impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<()> {
        self.plain = 0..0;
        self.inbox.refill(recv)
    }

    /// Copies opened plaintext to `piece`; how much.
    pub(super) fn give(&mut self, piece: &mut IoSliceMut<'_>, at: usize) -> usize {
        let bytes = self.plain.len().min(piece.len() - at);
        let from = self.plain.start;
        piece[at..at + bytes].copy_from_slice(&self.inbox.bytes[from..from + bytes]);
        self.plain.start += bytes;
        bytes
    }

    /// Opens the next record. All plaintext before must have been taken.
    pub(super) fn open(&mut self) -> io::Result<Opened> {
        assert!(self.plain.is_empty(), "a record is taken before the next is opened");
        if self.ended {
            return Ok(Opened::End);
        }
        let opened = self.open_next();
        self.ended = matches!(opened, Err(_) | Ok(Opened::End));
        opened
    }

    fn open_next(&mut self) -> io::Result<Opened> {
        let Some(record) = self.inbox.next_record()? else { return Ok(Opened::Nothing) };
        self.inbox.start = record.end;
        let begin = record.start + HEADER_BYTES;
        let (kind, length) = open_record(&mut self.keys, &mut self.inbox.bytes[record])?;
        let plain = begin..begin + length;
        let [a, b, c, d, _] = KEY_UPDATE;
        match (kind, &self.inbox.bytes[plain.clone()]) {
            (DATA, _) => {
                self.plain = plain;
                Ok(Opened::Data)
            }
            (HANDSHAKE, &[w, x, y, z, asked @ (0 | 1)]) if [w, x, y, z] == [a, b, c, d] => {
                self.keys.update()?;
                Ok(Opened::Updated { asked: asked == 1 })
            }
            (ALERT, [_, 0]) => Ok(Opened::End),
            (ALERT, [_, alert]) => Err(invalid(&format!("the peer ended TLS with alert {alert}"))),
            _ => Err(invalid("a TLS record of a kind that does not belong here")),
        }
    }
}

/// Opens a record in its place: its type, and how long the plaintext behind the header is.
fn open_record(keys: &mut Keys, record: &mut [u8]) -> io::Result<(u8, usize)> {
    let (header, inner) = record.split_at_mut(HEADER_BYTES);
    if header[0] != DATA {
        return Err(invalid("a TLS record that is not encrypted"));
    }
    let (key, nonce) = keys.next();
    let opened = key.open_in_place(nonce, Aad::from(&*header), inner);
    let inner = opened.map_err(|_| invalid("a TLS record was changed on its way"))?;
    // RFC 8446 section 5.4: zeros behind the type are padding
    let last = inner.iter().rposition(|byte| *byte != 0).ok_or_else(|| invalid("a TLS record without a type"))?;
    if last > PLAINTEXT_BYTES_MAX {
        return Err(invalid("a TLS record is too long"));
    }
    Ok((inner[last], last))
}
