//! Reads numbers and names from the front of bytes.

use super::ParseError;

/// The unread arguments of a request: the rest of this piece, and the next piece. No number or name
/// crosses from one to the other.
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    next: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, next: &[] }
    }

    /// For io_uring, where the fixed arguments and what follows them are in two places.
    pub(super) fn pieces(first: &'a [u8], next: &'a [u8]) -> Self {
        Self { rest: first, next }
    }

    fn refill(&mut self) {
        if self.rest.is_empty() {
            self.rest = std::mem::take(&mut self.next);
        }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], ParseError> {
        self.refill();
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(ParseError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        self.refill();
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(ParseError::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ParseError> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, ParseError> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, ParseError> {
        self.array().map(u64::from_ne_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, ParseError> {
        self.array().map(i64::from_ne_bytes)
    }

    /// The first number of a structure of `bytes`; the others are not used.
    pub(super) fn first_u32(&mut self, bytes: usize) -> Result<u32, ParseError> {
        Cursor::new(self.bytes(bytes)?).u32()
    }

    /// A name, which ends with NUL and is not empty.
    pub(super) fn name(&mut self) -> Result<&'a [u8], ParseError> {
        match self.text()? {
            [] => Err(ParseError::Name),
            name => Ok(name),
        }
    }

    /// As `name`, but may be empty.
    pub(super) fn text(&mut self) -> Result<&'a [u8], ParseError> {
        self.refill();
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(ParseError::Name)?;
        let text = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(text)
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        self.refill();
        std::mem::take(&mut self.rest)
    }

    /// Fails if bytes are left: a request that is not understood whole is refused (I10).
    pub(super) fn end(&self) -> Result<(), ParseError> {
        match self.rest.len() + self.next.len() {
            0 => Ok(()),
            left => Err(ParseError::Rest(left)),
        }
    }
}
