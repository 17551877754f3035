//! The fields that say where a buffer of a body is, and how long it is.

use crate::cursor::{Reader, Result, Writer};
use bytes::Bytes;

/// Reads a 16-bit offset and a 16-bit length, and gives the buffer.
pub(super) fn short(reader: &mut Reader) -> Result<Bytes> {
    let (offset, length) = (reader.u16()?, reader.u16()?);
    reader.slice(usize::from(offset), usize::from(length))
}

/// Reads a 16-bit offset and a 32-bit length, and gives the buffer.
pub(super) fn long(reader: &mut Reader) -> Result<Bytes> {
    let (offset, length) = (reader.u16()?, reader.u32()?);
    reader.slice(usize::from(offset), length as usize)
}

/// Reads a 32-bit offset and a 32-bit length, and gives the buffer.
pub(super) fn wide(reader: &mut Reader) -> Result<Bytes> {
    let (offset, length) = (reader.u32()?, reader.u32()?);
    reader.slice(offset as usize, length as usize)
}

/// Appends the buffer of a request, which has at least one byte if its `StructureSize` is odd: for
/// example 2.2.13, Buffer.
pub(super) fn put_one_at_least(writer: &mut Writer, bytes: &[u8]) {
    writer.bytes(if bytes.is_empty() { &[0] } else { bytes });
}
