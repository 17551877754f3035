//! Makes TLS 1.3 records (RFC 8446 section 5) in a reused buffer: one copy, no allocation.
//!
//! ```text
//!   | sent | start: sealed, not sent .. end | space for records |
//!            23 3 3 length | ciphertext of plaintext and type | tag
//! ```
//!
//! Invariant: no key seals more than [`RECORDS_PER_KEY`] records.

use std::{
    array,
    io::{self, IoSlice, IoSliceMut},
};

use aws_lc_rs::aead::Aad;

use super::{
    DATA, HANDSHAKE, HEADER_BYTES, KEY_UPDATE, PLAINTEXT_BYTES_MAX, SEND_RECORDS, TAG_BYTES,
    invalid, keys::Keys,
};

/// A third of the limit in RFC 8446 section 5.5 for AES-GCM; 128 GiB of full records.
const RECORDS_PER_KEY: u64 = 1 << 23;
/// A full record.
const RECORD_BYTES: usize = HEADER_BYTES + PLAINTEXT_BYTES_MAX + TRAILER_BYTES;
/// Type and tag.
const TRAILER_BYTES: usize = 1 + TAG_BYTES;

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

    /// Sealed bytes that are not sent.
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

    /// Seals a prefix of `pieces`, up to [`SEND_RECORDS`]. Returns how many bytes of it.
    pub(super) fn take(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut plain = Gather { pieces, offset: 0 };
        let length = pieces.iter().map(|piece| piece.len()).sum();
        self.take_from(length, |buffers| {
            Ok(buffers.iter_mut().map(|buffer| plain.copy(buffer)).sum())
        })
    }

    /// Seals up to `length` bytes, at most [`SEND_RECORDS`], that `read` puts into the plaintext
    /// space of the records in order. Returns how many bytes `read` had. When it fails, nothing was
    /// sealed.
    pub(super) fn take_from(
        &mut self,
        length: usize,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if length == 0 {
            return Ok(0);
        }
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.records_left() == 0 {
            self.update_key()?;
        }
        let records = length
            .div_ceil(PLAINTEXT_BYTES_MAX)
            .min(SEND_RECORDS)
            .min(self.records_left() as usize);
        let length = length.min(records * PLAINTEXT_BYTES_MAX);
        let mut buffers: [_; SEND_RECORDS] = array::from_fn(|_| IoSliceMut::new(&mut []));
        let space = self.space(length + records * (HEADER_BYTES + TRAILER_BYTES));
        for (n, record) in space.chunks_mut(RECORD_BYTES).enumerate() {
            let plain = PLAINTEXT_BYTES_MAX.min(length - n * PLAINTEXT_BYTES_MAX);
            buffers[n] = IoSliceMut::new(&mut record[HEADER_BYTES..HEADER_BYTES + plain]);
        }
        let taken = read(&mut buffers[..records])?;
        assert!(taken <= length, "more was read than there is room for");
        for at in (0..taken).step_by(PLAINTEXT_BYTES_MAX) {
            self.seal(DATA, PLAINTEXT_BYTES_MAX.min(taken - at))?;
        }
        Ok(taken)
    }

    /// Announces to the peer that the next record uses the next key.
    pub(super) fn update_key(&mut self) -> io::Result<()> {
        let bytes = HEADER_BYTES + KEY_UPDATE.len() + TRAILER_BYTES;
        self.space(bytes)[HEADER_BYTES..][..KEY_UPDATE.len()].copy_from_slice(&KEY_UPDATE);
        self.seal(HANDSHAKE, KEY_UPDATE.len())?;
        self.keys.update()
    }

    /// Records that this key may still seal before the one that announces the next key.
    fn records_left(&self) -> u64 {
        (self.records_per_key - 1).saturating_sub(self.keys.records())
    }

    /// Space behind the sealed bytes.
    fn space(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes.len() < self.end + bytes {
            self.bytes.resize(self.end + bytes, 0);
        }
        &mut self.bytes[self.end..self.end + bytes]
    }

    /// Makes a record of the `length` bytes in its plaintext space.
    fn seal(&mut self, kind: u8, length: usize) -> io::Result<()> {
        let (head, rest) = self.bytes[self.end..].split_at_mut(HEADER_BYTES);
        let (inner, tag) = rest.split_at_mut(length + 1);
        inner[length] = kind;
        let [high, low] = ((length + TRAILER_BYTES) as u16).to_be_bytes();
        let header = [DATA, 3, 3, high, low];
        head.copy_from_slice(&header);
        let (key, nonce) = self.keys.next();
        let sealed = key.seal_in_place_separate_tag(nonce, Aad::from(header), inner);
        tag[..TAG_BYTES]
            .copy_from_slice(sealed.map_err(|_| invalid("a record could not be sealed"))?.as_ref());
        self.end += HEADER_BYTES + length + TRAILER_BYTES;
        debug_assert!(
            self.keys.records() <= self.records_per_key,
            "invariant: a key sealed too many records"
        );
        Ok(())
    }
}

/// Source of the plaintext.
struct Gather<'a, 'b> {
    pieces: &'a [IoSlice<'b>],
    offset: usize,
}

impl Gather<'_, '_> {
    fn copy(&mut self, mut buffer: &mut [u8]) -> usize {
        let mut copied = 0;
        while let [piece, rest @ ..] = self.pieces {
            let bytes = buffer.len().min(piece.len() - self.offset);
            let (now, later) = buffer.split_at_mut(bytes);
            now.copy_from_slice(&piece[self.offset..self.offset + bytes]);
            (buffer, self.offset, copied) = (later, self.offset + bytes, copied + bytes);
            if self.offset < piece.len() {
                break;
            }
            (self.pieces, self.offset) = (rest, 0);
        }
        copied
    }
}
