//! Reads XDR items from a message.

use bytes::Bytes;

use super::{UNIT_BYTES, XdrError, padding};

/// Reads items from the front of a message.
#[derive(Clone, Debug)]
pub struct Decoder {
    message: Bytes,
    /// Offset of the next byte; never over the length of `message`.
    at: usize,
}

impl Decoder {
    /// A decoder of `message` from its first byte.
    pub fn new(message: Bytes) -> Self {
        Self { message, at: 0 }
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.message.len() - self.at
    }

    /// Bytes already read.
    pub fn position(&self) -> usize {
        self.at
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], XdrError> {
        let chunk = self.message[self.at..].first_chunk().ok_or(XdrError::Truncated)?;
        self.at += N;
        Ok(*chunk)
    }

    /// An unsigned integer (RFC 4506 4.2), also an enumeration.
    ///
    /// # Errors
    /// [`XdrError::Truncated`].
    pub fn u32(&mut self) -> Result<u32, XdrError> {
        self.chunk().map(u32::from_be_bytes)
    }

    /// A signed integer. RFC 4506 4.1.
    ///
    /// # Errors
    /// [`XdrError::Truncated`].
    pub fn i32(&mut self) -> Result<i32, XdrError> {
        self.chunk().map(i32::from_be_bytes)
    }

    /// An unsigned hyper integer. RFC 4506 4.5.
    ///
    /// # Errors
    /// [`XdrError::Truncated`].
    pub fn u64(&mut self) -> Result<u64, XdrError> {
        self.chunk().map(u64::from_be_bytes)
    }

    /// A signed hyper integer. RFC 4506 4.5.
    ///
    /// # Errors
    /// [`XdrError::Truncated`].
    pub fn i64(&mut self) -> Result<i64, XdrError> {
        self.chunk().map(i64::from_be_bytes)
    }

    /// A boolean. RFC 4506 4.4: only 0 and 1 are defined.
    ///
    /// # Errors
    /// [`XdrError::Truncated`], or [`XdrError::Invalid`] for any other number.
    pub fn bool(&mut self) -> Result<bool, XdrError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(XdrError::Invalid { what: "boolean", value }),
        }
    }

    /// Opaque data of variable length, at most `max` bytes: a slice of the message.
    ///
    /// # Errors
    /// [`XdrError::TooLong`] for more bytes, [`XdrError::Truncated`].
    pub fn opaque(&mut self, max: usize) -> Result<Bytes, XdrError> {
        let length = self.u32()? as usize;
        if length > max {
            return Err(XdrError::TooLong { length, limit: max });
        }
        self.fixed(length)
    }

    /// Opaque data of `N` bytes, copied, and its padding.
    ///
    /// # Errors
    /// [`XdrError::Truncated`].
    pub fn opaque_fixed<const N: usize>(&mut self) -> Result<[u8; N], XdrError> {
        if self.remaining() < N + padding(N) {
            return Err(XdrError::Truncated);
        }
        let chunk = self.chunk()?;
        self.at += padding(N);
        Ok(chunk)
    }

    /// Opaque data of `length` bytes, and its padding: a slice of the message.
    ///
    /// # Errors
    /// [`XdrError::Truncated`].
    pub fn fixed(&mut self, length: usize) -> Result<Bytes, XdrError> {
        // RFC 4506 4.9 wants zeros as padding; the content of the padding is not checked.
        let padded = length.checked_add(padding(length)).ok_or(XdrError::Truncated)?;
        if padded > self.remaining() {
            return Err(XdrError::Truncated);
        }
        let slice = self.message.slice(self.at..self.at + length);
        self.at += padded;
        Ok(slice)
    }

    /// A count and that number of items, at most `items_max`, each read by `item`. Items without
    /// bytes are not supported.
    ///
    /// # Errors
    /// [`XdrError::TooLong`] for more items, [`XdrError::Truncated`] for more items than the
    /// message can contain, and the errors of `item`.
    pub fn array<T>(
        &mut self,
        items_max: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, XdrError>,
    ) -> Result<Vec<T>, XdrError> {
        let count = self.u32()? as usize;
        if count > items_max {
            return Err(XdrError::TooLong { length: count, limit: items_max });
        }
        if count > self.remaining() / UNIT_BYTES {
            return Err(XdrError::Truncated);
        }
        // The vector grows with the items that are really there: an item can be larger in memory
        // than in the message.
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// The bytes not yet read.
    pub fn rest(self) -> Bytes {
        self.message.slice(self.at..)
    }

    /// Succeeds when everything was read.
    ///
    /// # Errors
    /// [`XdrError::TrailingBytes`].
    pub fn finish(self) -> Result<(), XdrError> {
        match self.remaining() {
            0 => Ok(()),
            count => Err(XdrError::TrailingBytes { count }),
        }
    }
}
