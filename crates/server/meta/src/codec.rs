//! Little-endian encoding of the records of the metadata store.

use std::ops::Range;

use braid_types::Timestamp;

use crate::record::RecordError;

/// Appends fields to a record.
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    /// Begins a record with its version byte.
    pub(crate) fn new(version: u8) -> Self {
        let mut bytes = Vec::with_capacity(320);
        bytes.push(version);
        Self(bytes)
    }

    /// Appends to existing bytes.
    pub(crate) fn append_to(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Appends a copy of a range of its own bytes.
    pub(crate) fn repeat(&mut self, bytes: Range<usize>) {
        self.0.extend_from_within(bytes);
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn time(&mut self, value: Timestamp) -> &mut Self {
        self.u64(value.seconds as u64).u32(value.nanos)
    }

    /// Bytes without a length: a fixed field, or the tail of a record.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A 32-bit length, then the bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32).raw(bytes)
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads fields from a record. Every length is checked against the remaining bytes (I9).
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Decoder<'a> {
    /// Checks the version byte (I10). `what` names the record in errors.
    pub(crate) fn new(
        what: &'static str,
        version: u8,
        bytes: &'a [u8],
    ) -> Result<Self, RecordError> {
        match bytes.split_first() {
            Some((found, rest)) if *found == version => Ok(Self { rest, what }),
            Some((found, _)) => Err(RecordError::Version { what, found: *found }),
            None => Err(RecordError::Broken { what }),
        }
    }

    pub(crate) fn broken(&self) -> RecordError {
        RecordError::Broken { what: self.what }
    }

    pub(crate) fn raw(&mut self, bytes: usize) -> Result<&'a [u8], RecordError> {
        let (head, rest) =
            self.rest.split_at_checked(bytes).ok_or(RecordError::Broken { what: self.what })?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let (head, rest) =
            self.rest.split_first_chunk::<N>().ok_or(RecordError::Broken { what: self.what })?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, RecordError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, RecordError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, RecordError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, RecordError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, RecordError> {
        Ok(Timestamp { seconds: self.u64()? as i64, nanos: self.u32()? })
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], RecordError> {
        let bytes = self.u32()? as usize;
        self.raw(bytes)
    }

    /// Whether nothing remains.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All remaining bytes.
    pub(crate) fn tail(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// An error if bytes remain (I10).
    pub(crate) fn finish(self) -> Result<(), RecordError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.broken()) }
    }
}
