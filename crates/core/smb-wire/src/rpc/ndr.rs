//! Arguments of calls as NDR writes them (C706 chapter 14): little endian, each field aligned to
//! its size from the beginning of the arguments.

use bytes::Bytes;

use crate::cursor::{Malformed, Reader, Result, Writer, to_utf16, utf16};

/// The longest string that is taken, in UTF-16 units with its NUL. Names of servers and shares are
/// shorter.
pub const MAX_STRING: usize = 1024;

/// Reads arguments.
#[derive(Debug)]
pub struct NdrReader(Reader);

impl NdrReader {
    /// A reader of all arguments of a call, or of all its results.
    pub fn new(stub: Bytes) -> Self {
        Self(Reader::new(stub))
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> usize {
        self.0.remaining()
    }

    /// A 32-bit number.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn u32(&mut self) -> Result<u32> {
        self.0.align(4);
        self.0.u32()
    }

    /// Whether a pointer points to something (14.3.12.3), which follows later.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn pointer(&mut self) -> Result<bool> {
        self.u32().map(|referent| referent != 0)
    }

    /// A string (14.3.4.3) without its NUL.
    ///
    /// # Errors
    /// It is longer than [`MAX_STRING`] or than the bytes that are left, or no UTF-16.
    pub fn string(&mut self) -> Result<String> {
        let (maximum, offset, count) = (self.u32()?, self.u32()?, self.u32()?);
        let count = usize::try_from(count).map_err(|_| Malformed("string: too long"))?;
        if offset != 0 || count > maximum as usize || count > MAX_STRING {
            return Err(Malformed("string: counts"));
        }
        let mut text = utf16(&self.0.take(count * 2)?)?;
        if text.ends_with('\0') {
            text.pop();
        }
        Ok(text)
    }

    /// A string that a pointer points to, directly after the pointer.
    ///
    /// # Errors
    /// As for [`Self::string`].
    pub fn optional_string(&mut self) -> Result<Option<String>> {
        if self.pointer()? { self.string().map(Some) } else { Ok(None) }
    }

    /// A number that a pointer points to, directly after the pointer.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn optional_u32(&mut self) -> Result<Option<u32>> {
        if self.pointer()? { self.u32().map(Some) } else { Ok(None) }
    }
}

/// Writes arguments.
#[derive(Debug, Default)]
pub struct NdrWriter {
    writer: Writer,
    /// Pointers written.
    pointers: u32,
}

impl NdrWriter {
    /// A writer of all arguments of a call, or of all its results.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a 32-bit number.
    pub fn u32(&mut self, value: u32) {
        self.writer.align(4);
        self.writer.u32(value);
    }

    /// Appends a pointer: to something that the caller writes later, or to nothing.
    pub fn pointer(&mut self, to_something: bool) {
        // Each referent has a number of its own, such as Windows and Samba choose.
        let referent = 0x0002_0000_u32.wrapping_add(self.pointers.wrapping_mul(4));
        self.pointers = self.pointers.wrapping_add(u32::from(to_something));
        self.u32(if to_something { referent } else { 0 });
    }

    /// Appends a string with its NUL.
    pub fn string(&mut self, text: &str) {
        let units = to_utf16(text);
        let count = u32::try_from(units.len() / 2 + 1).unwrap_or(u32::MAX);
        for field in [count, 0, count] {
            self.u32(field);
        }
        self.writer.bytes(&units);
        self.writer.u16(0);
    }

    /// Appends a pointer to a string, and the string.
    pub fn optional_string(&mut self, text: Option<&str>) {
        self.pointer(text.is_some());
        if let Some(text) = text {
            self.string(text);
        }
    }

    /// Appends a pointer to a number, and the number.
    pub fn optional_u32(&mut self, value: Option<u32>) {
        self.pointer(value.is_some());
        if let Some(value) = value {
            self.u32(value);
        }
    }

    /// The arguments.
    pub fn finish(self) -> Vec<u8> {
        self.writer.finish()
    }
}
