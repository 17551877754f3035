//! Makes TLS 1.3 records (RFC 8446 section 5) in a buffer that is used again: one copy, no allocation.
//!
//! ```text
//!   | sent | start: sealed, not sent .. end | room for records |
//!            23 3 3 length | ciphertext of plaintext and type | tag
//! ```
//!
//! Invariant: no key seals more than [`RECORDS_PER_KEY`] records.

use std::io::{self, IoSlice};

use ring::aead::Aad;

use super::{
    DATA, HANDSHAKE, HEADER_BYTES, KEY_UPDATE, PLAINTEXT_BYTES_MAX, SEND_RECORDS, TAG_BYTES, invalid, keys::Keys,
};

/// A third of what RFC 8446 section 5.5 allows AES-GCM; 128 GiB of full records.
const RECORDS_PER_KEY: u64 = 1 << 23;

/// Makes records.
pub(super) struct Sealer {
    keys: Keys,
    records_per_key: u64,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Sealer {
    pub(super) fn new(keys: Keys) -> Self {
        Self { keys, records_per_key: RECORDS_PER_KEY, bytes: Vec::new(), start: 0, end: 0 }
    }

    #[cfg(test)]
    pub(super) fn set_records_per_key(&mut self, records: u64) {
        self.records_per_key = records;
    }

    /// What is to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.start += bytes;
        assert!(self.start <= self.end, "more was sent than there is");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Seals a beginning of `pieces`, up to [`SEND_RECORDS`]; how many bytes of it. All before must be sent.
    pub(super) fn take(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut plain = Gather { pieces, offset: 0 };
        self.take_from(pieces.iter().map(|piece| piece.len()).sum(), |room| Ok(plain.copy(room)))
    }

    /// Seals up to `length` bytes, at most [`SEND_RECORDS`], that `read` puts where it is told; how many it had.
    pub(super) fn take_from(
        &mut self,
        length: usize,
        mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        assert!(self.unsent().is_empty(), "records are sent before the next are made");
        let mut taken = 0;
        while taken < length.min(SEND_RECORDS * PLAINTEXT_BYTES_MAX) {
            let want = (length - taken).min(PLAINTEXT_BYTES_MAX);
            match self.seal(want, &mut read) {
                Ok(0) => break,
                Ok(bytes) => taken += bytes,
                Err(error) if taken == 0 => return Err(error),
                Err(_) => break, // said again when it is read again
            }
        }
        Ok(taken)
    }

    /// Tells the peer that the next record has the next key.
    pub(super) fn update_key(&mut self) -> io::Result<()> {
        self.seal_with_this_key(HANDSHAKE, KEY_UPDATE.len(), |room| {
            room.copy_from_slice(&KEY_UPDATE);
            Ok(KEY_UPDATE.len())
        })?;
        self.keys.update()
    }

    fn seal(&mut self, length: usize, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        if self.keys.records() + 1 >= self.records_per_key {
            self.update_key()?;
        }
        self.seal_with_this_key(DATA, length, read)
    }

    fn seal_with_this_key(
        &mut self,
        kind: u8,
        length: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let begin = self.end + HEADER_BYTES;
        if self.bytes.len() < begin + length + 1 + TAG_BYTES {
            self.bytes.resize(begin + length + 1 + TAG_BYTES, 0);
        }
        let length = read(&mut self.bytes[begin..begin + length])?;
        if length == 0 {
            return Ok(0);
        }
        self.bytes[begin + length] = kind;
        let [high, low] = ((length + 1 + TAG_BYTES) as u16).to_be_bytes();
        let header = [DATA, 3, 3, high, low];
        let inner = &mut self.bytes[begin..=begin + length];
        let (key, nonce) = self.keys.next();
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(header), inner);
        let tag = tag.map_err(|_| invalid("a record could not be sealed"))?;
        self.bytes[begin - HEADER_BYTES..begin].copy_from_slice(&header);
        self.end = begin + length + 1 + TAG_BYTES;
        self.bytes[self.end - TAG_BYTES..self.end].copy_from_slice(tag.as_ref());
        Ok(length)
    }
}

/// Where the plaintext comes from.
struct Gather<'a, 'b> {
    pieces: &'a [IoSlice<'b>],
    offset: usize,
}

impl Gather<'_, '_> {
    fn copy(&mut self, mut room: &mut [u8]) -> usize {
        let mut copied = 0;
        while let [piece, rest @ ..] = self.pieces {
            let bytes = room.len().min(piece.len() - self.offset);
            let (now, later) = room.split_at_mut(bytes);
            now.copy_from_slice(&piece[self.offset..self.offset + bytes]);
            (room, self.offset, copied) = (later, self.offset + bytes, copied + bytes);
            if self.offset < piece.len() {
                break;
            }
            (self.pieces, self.offset) = (rest, 0);
        }
        copied
    }
}
