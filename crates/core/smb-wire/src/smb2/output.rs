//! The response that QUERY_DIRECTORY, QUERY_INFO and CHANGE_NOTIFY share. MS-SMB2 2.2.34, 2.2.36,
//! 2.2.38.

use super::{Body, HEADER_BYTES, buffer};
use crate::cursor::{Reader, Result, Writer};
use bytes::Bytes;

/// A response that is one buffer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OutputResponse {
    /// The buffer; the request decides what it has.
    pub output: Bytes,
}

impl OutputResponse {
    /// Offset of the buffer from the header, as it is encoded.
    pub const OFFSET: usize = HEADER_BYTES + 8;
}

impl Body for OutputResponse {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(9)?;
        Ok(Self { output: buffer::long(reader)? })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(9);
        writer.u16(Self::OFFSET as u16);
        writer.u32(self.output.len() as u32);
        writer.bytes(&self.output);
    }
}
