//! Reads and writes little-endian fields, and buffers that fields give the offset and length of.

use bytes::Bytes;

/// A message that does not follow its format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(pub &'static str);

/// A decoder's result.
pub type Result<T> = std::result::Result<T, Malformed>;

/// Reads fields from the front of a message, and buffers anywhere in it.
#[derive(Clone, Debug)]
pub struct Reader {
    message: Bytes,
    /// Offset of the next byte; never over the length of `message`.
    at: usize,
}

impl Reader {
    /// A reader of `message` from its first byte.
    pub fn new(message: Bytes) -> Self {
        Self { message, at: 0 }
    }

    /// Offset of the next byte from the beginning of the message.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.message.len() - self.at
    }

    /// The whole message.
    pub fn message(&self) -> &Bytes {
        &self.message
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let chunk = self.message[self.at..].first_chunk().ok_or(Malformed("message: too short"))?;
        self.at += N;
        Ok(*chunk)
    }

    /// An 8-bit number.
    ///
    /// # Errors
    /// No byte is left.
    pub fn u8(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    /// A 16-bit number.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// A 32-bit number.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A 64-bit number.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Passes over `count` bytes.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn skip(&mut self, count: usize) -> Result<()> {
        self.take(count).map(drop)
    }

    /// The next `count` bytes, a slice of the message.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take(&mut self, count: usize) -> Result<Bytes> {
        let slice = self.slice(self.at, count)?;
        self.at += count;
        Ok(slice)
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> Bytes {
        let rest = self.message.slice(self.at..);
        self.at = self.message.len();
        rest
    }

    /// Passes to the next multiple of `to` bytes from the beginning of the message, or to its end.
    pub fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to).min(self.message.len());
    }

    /// The `length` bytes at `offset` from the beginning of the message, a slice of it. An empty
    /// buffer may have any offset: clients send 0.
    ///
    /// # Errors
    /// They are not in the message.
    pub fn slice(&self, offset: usize, length: usize) -> Result<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let end = offset.checked_add(length).filter(|end| *end <= self.message.len());
        let end = end.ok_or(Malformed("message: a buffer is not inside"))?;
        Ok(self.message.slice(offset..end))
    }

    /// Checks the `StructureSize` that begins each body.
    ///
    /// # Errors
    /// It is another.
    pub fn structure_size(&mut self, wanted: u16) -> Result<()> {
        match self.u16()? {
            size if size == wanted => Ok(()),
            _ => Err(Malformed("message: StructureSize")),
        }
    }
}

/// The text of UTF-16 in little-endian bytes.
///
/// # Errors
/// An odd number of bytes, or a surrogate without its other half.
pub fn utf16(bytes: &[u8]) -> Result<String> {
    if !bytes.len().is_multiple_of(2) {
        return Err(Malformed("text: odd number of bytes"));
    }
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let text: std::result::Result<String, _> = char::decode_utf16(units).collect();
    text.map_err(|_| Malformed("text: not UTF-16"))
}

/// Text as UTF-16 in little-endian bytes.
pub fn to_utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Writes little-endian fields. Offsets count from `base` bytes before its first byte: the body of
/// a message is written without its header, and its offsets count from the header.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    base: usize,
}

impl Writer {
    /// A writer of bytes whose first has offset 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// A writer of bytes whose first has offset `base`.
    pub fn with_base(base: usize) -> Self {
        Self { bytes: Vec::new(), base }
    }

    /// Offset of the next byte.
    pub fn position(&self) -> usize {
        self.base + self.bytes.len()
    }

    /// Appends an 8-bit number.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Appends a 16-bit number.
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends a 32-bit number.
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends a 64-bit number.
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends `count` bytes of 0.
    pub fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }

    /// Appends bytes of 0 up to an offset that is a multiple of `to`.
    pub fn align(&mut self, to: usize) {
        self.zeros(self.position().next_multiple_of(to) - self.position());
    }

    /// Overwrites a 16-bit number at an offset that was written before.
    ///
    /// # Panics
    /// If it was not.
    pub fn set_u16(&mut self, offset: usize, value: u16) {
        let at = offset - self.base;
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    /// Overwrites a 32-bit number at an offset that was written before.
    ///
    /// # Panics
    /// If it was not.
    pub fn set_u32(&mut self, offset: usize, value: u32) {
        let at = offset - self.base;
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Removes what was written at and after an offset.
    pub fn truncate(&mut self, offset: usize) {
        self.bytes.truncate(offset.saturating_sub(self.base));
    }

    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_buffers_are_read_inside_the_message_only() {
        let mut reader = Reader::new(Bytes::from_static(&[1, 2, 0, 3, 0, 0, 0, 9]));
        assert_eq!((reader.u8(), reader.u16(), reader.u32()), (Ok(1), Ok(2), Ok(3)));
        assert_eq!((reader.position(), reader.remaining()), (7, 1));
        assert!(reader.clone().u16().is_err());
        assert_eq!(reader.slice(6, 2).unwrap(), &[0, 9][..]);
        assert_eq!(reader.slice(usize::MAX, 0).unwrap(), Bytes::new());
        for (offset, length) in [(7, 2), (8, 1), (usize::MAX, 1), (0, usize::MAX)] {
            assert!(reader.slice(offset, length).is_err(), "{offset} {length}");
        }
        reader.align(16);
        assert_eq!(reader.remaining(), 0);
    }

    #[test]
    fn text_that_is_no_utf16_is_refused() {
        assert_eq!(utf16(&to_utf16("aß\u{1f600}")).unwrap(), "aß\u{1f600}");
        assert!(utf16(&[65]).is_err());
        assert!(utf16(&[0, 0xd8, 65, 0]).is_err(), "half a surrogate pair");
    }

    #[test]
    fn offsets_of_a_writer_count_from_its_base() {
        let mut writer = Writer::with_base(64);
        writer.u16(0);
        writer.align(8);
        assert_eq!(writer.position(), 72);
        writer.set_u16(64, 7);
        assert_eq!(writer.finish(), [7, 0, 0, 0, 0, 0, 0, 0]);
    }
}
