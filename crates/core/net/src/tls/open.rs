//! Takes TLS 1.3 records (RFC 8446 section 5) apart where they were received: small ones in the inbox, from where they
//! are copied, and large payloads in the memory of the caller.
//!
//! ```text
//!   inbox:  | .. opened and not taken: plain .. | start: not opened .. end | room for the socket |
//!
//!   caller: | record | record | beginning of one          inbox: | .. room .. | a little of what follows |
//!           | plaintext plaintext | (not said to be his)         | beginning and rest of the last record |
//! ```
//!
//! In the caller's memory each record is opened to where the plaintext before it ends, which is never behind where it
//! begins. What is cut off at the end is opened in the inbox.
//!
//! Invariants: (1) bytes are given out only after their record's tag was verified: what stands in the caller's memory
//! behind the bytes that were given out means nothing; (2) after an error nothing more is opened.

use std::{
    io::{self, ErrorKind, IoSliceMut},
    ops::Range,
};

use aws_lc_rs::aead::Aad;

use super::{
    ALERT, CIPHERTEXT_BYTES_MAX, DATA, HANDSHAKE, HEADER_BYTES, KEY_UPDATE, PLAINTEXT_BYTES_MAX,
    RECEIVE_BYTES, invalid, keys::Keys,
};

/// Received beyond what is asked for: the rests of records, and the next record if it is the next frame's header. It is
/// little since what of it turns out to be payload is copied.
const AHEAD_BYTES: usize = 1024;
/// From here on plaintext is opened where it is wanted. A record must have room, also behind the beginning of another.
pub(super) const DIRECT_BYTES_MIN: usize = 2 * RECORD_BYTES_MAX;
const RECORD_BYTES_MAX: usize = HEADER_BYTES + CIPHERTEXT_BYTES_MAX;

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
        let received = &self.bytes[self.start..self.end];
        let record = record_bytes(received)?.filter(|bytes| *bytes <= received.len());
        Ok(record.map(|bytes| self.start..self.start + bytes))
    }

    /// Receives more, about `wanted` bytes of plaintext. There must be no whole record.
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

    /// Receives more, first into `room`, in which what was received before now begins; how much of `room` is
    /// received. The rest is behind the room for a record.
    fn refill_into(
        &mut self,
        room: &mut [u8],
        recv: &mut impl FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let (front, rest) = room.split_at_mut(self.end - self.start);
        front.copy_from_slice(&self.bytes[self.start..self.end]);
        let around = rest.len() / PLAINTEXT_BYTES_MAX * (RECORD_BYTES_MAX - PLAINTEXT_BYTES_MAX);
        let until = self.bytes.len().min(RECORD_BYTES_MAX + around + AHEAD_BYTES);
        let behind = &mut self.bytes[RECORD_BYTES_MAX..until];
        let received = some(recv(&mut [IoSliceMut::new(rest), IoSliceMut::new(behind)])?)?;
        let direct = received.min(rest.len());
        (self.start, self.end) = (RECORD_BYTES_MAX, RECORD_BYTES_MAX + received - direct);
        Ok(front.len() + direct)
    }

    /// Takes back the beginning of a record that [`Inbox::refill_into`] received.
    fn put_back(&mut self, beginning: &[u8]) {
        self.start -= beginning.len();
        self.bytes[self.start..][..beginning.len()].copy_from_slice(beginning);
    }
}

/// How long the record is that `received` begins with, if so much of it is known.
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

    /// Receives more, about `wanted` bytes of plaintext. All plaintext must have been taken.
    pub(super) fn refill(
        &mut self,
        wanted: usize,
        recv: &mut impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.plain = 0..0;
        self.inbox.refill(wanted, recv)
    }

    /// Receives more where its plaintext is wanted and opens it there: how much plaintext stands in `room`, which has at
    /// least [`DIRECT_BYTES_MIN`] bytes, and whether the peer asked for a new key.
    pub(super) fn refill_into(
        &mut self,
        room: &mut [u8],
        recv: &mut impl FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<(usize, bool)> {
        assert!(self.plain.is_empty(), "plaintext is taken before more is received");
        let received = self.inbox.refill_into(room, recv)?;
        let opened = self.open_direct(&mut room[..received]);
        self.ended |= opened.is_err();
        opened
    }

    /// Each record becomes plaintext behind the plaintext of the one before.
    fn open_direct(&mut self, room: &mut [u8]) -> io::Result<(usize, bool)> {
        let (mut plain, mut at, mut update_asked) = (0, 0, false);
        while let Some(bytes) = record_bytes(&room[at..])?.filter(|bytes| *bytes <= room.len() - at)
        {
            let (kind, length) =
                open_record(&mut self.keys, &mut room[plain..at + bytes], at - plain)?;
            at += bytes;
            match opened(kind, &room[plain..plain + length], &mut self.keys)? {
                Opened::Updated { asked } => update_asked |= asked,
                Opened::End => {
                    self.ended = true;
                    return Ok((plain, update_asked));
                }
                _ => plain += length,
            }
        }
        self.inbox.put_back(&room[at..]);
        Ok((plain, update_asked))
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
        let begin = record.start;
        let (kind, length) = open_record(&mut self.keys, &mut self.inbox.bytes[record], 0)?;
        let opened = opened(kind, &self.inbox.bytes[begin..begin + length], &mut self.keys)?;
        if matches!(opened, Opened::Data) {
            self.plain = begin..begin + length;
        }
        Ok(opened)
    }
}

/// What a record of this type is that was opened.
fn opened(kind: u8, plain: &[u8], keys: &mut Keys) -> io::Result<Opened> {
    let [a, b, c, d, _] = KEY_UPDATE;
    match (kind, plain) {
        (DATA, _) => Ok(Opened::Data),
        (HANDSHAKE, &[w, x, y, z, asked @ (0 | 1)]) if [w, x, y, z] == [a, b, c, d] => {
            keys.update()?;
            Ok(Opened::Updated { asked: asked == 1 })
        }
        (ALERT, [_, 0]) => Ok(Opened::End),
        (ALERT, [_, alert]) => Err(invalid(&format!("the peer ended TLS with alert {alert}"))),
        _ => Err(invalid("a TLS record of a kind that does not belong here")),
    }
}

/// Opens the record that stands in `bytes` from `at` on, to the front of `bytes`: its type, and how long the plaintext is.
fn open_record(keys: &mut Keys, bytes: &mut [u8], at: usize) -> io::Result<(u8, usize)> {
    let inner = at + HEADER_BYTES;
    let mut header = [0; HEADER_BYTES];
    header.copy_from_slice(&bytes[at..inner]);
    if header[0] != DATA {
        return Err(invalid("a TLS record that is not encrypted"));
    }
    let (key, nonce) = keys.next();
    let opened = key.open_within(nonce, Aad::from(header), bytes, inner..);
    let plain = opened.map_err(|_| invalid("a TLS record was changed on its way"))?;
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
