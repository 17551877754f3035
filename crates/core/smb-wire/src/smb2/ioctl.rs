//! IOCTL. MS-SMB2 2.2.31, 2.2.32.

use super::bits::bits;
use super::{Body, FileId, HEADER_BYTES, buffer};
use crate::cursor::{Reader, Result, Writer};
use bytes::Bytes;

bits! {
    /// 2.2.31, Flags.
    IoctlFlags(u32) {
        /// The code is an FSCTL. A server refuses others (3.3.5.15).
        IS_FSCTL = 1,
    }
}

/// The request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IoctlRequest {
    /// What is asked for.
    pub code: u32,
    /// The open; [`FileId::RELATED`] for codes of the server or share.
    pub file_id: FileId,
    /// Flags.
    pub flags: IoctlFlags,
    /// The input.
    pub input: Bytes,
    /// Most bytes of input in the response.
    pub max_input: u32,
    /// Most bytes of output in the response.
    pub max_output: u32,
}

impl Body for IoctlRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(57)?;
        reader.skip(2)?;
        let code = reader.u32()?;
        let file_id = FileId::decode(reader)?;
        let input = buffer::wide(reader)?;
        let max_input = reader.u32()?;
        // A request has no output (2.2.31, OutputCount).
        reader.skip(8)?;
        let max_output = reader.u32()?;
        let flags = IoctlFlags(reader.u32()?);
        reader.skip(4)?;
        Ok(Self { code, file_id, flags, input, max_input, max_output })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(57);
        writer.u16(0);
        writer.u32(self.code);
        self.file_id.encode(writer);
        writer.u32((HEADER_BYTES + 56) as u32);
        writer.u32(self.input.len() as u32);
        writer.u32(self.max_input);
        writer.u64(0);
        writer.u32(self.max_output);
        writer.u32(self.flags.0);
        writer.u32(0);
        buffer::put_one_at_least(writer, &self.input);
    }
}

/// The response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IoctlResponse {
    /// As in the request.
    pub code: u32,
    /// As in the request.
    pub file_id: FileId,
    /// The output. The input is not sent back (3.3.5.15: InputCount "SHOULD" be 0).
    pub output: Bytes,
}

impl Body for IoctlResponse {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(49)?;
        reader.skip(2)?;
        let code = reader.u32()?;
        let file_id = FileId::decode(reader)?;
        reader.skip(8)?;
        let output = buffer::wide(reader)?;
        reader.skip(8)?;
        Ok(Self { code, file_id, output })
    }

    fn encode(&self, writer: &mut Writer) {
        let offset = (HEADER_BYTES + 48) as u32;
        writer.u16(49);
        writer.u16(0);
        writer.u32(self.code);
        self.file_id.encode(writer);
        writer.u32(offset);
        writer.u32(0);
        writer.u32(offset);
        writer.u32(self.output.len() as u32);
        writer.u64(0);
        writer.bytes(&self.output);
    }
}
