//! WRITE. MS-SMB2 2.2.21, 2.2.22.

use super::bits::bits;
use super::read::Channel;
use super::{Body, FileId, HEADER_BYTES};
use crate::cursor::{Reader, Result, Writer};
use bytes::Bytes;

/// Offset of the data of a request from its header, as it is encoded.
pub const WRITE_DATA_OFFSET: usize = HEADER_BYTES + 48;

bits! {
    /// 2.2.21, Flags.
    WriteFlags(u32) {
        /// The data are on disks before the response (2.1).
        WRITE_THROUGH = 1,
        /// Caches are passed by (3.0.2).
        UNBUFFERED = 2,
    }
}

/// The request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteRequest {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The open.
    pub file_id: FileId,
    /// How the data are sent. The information of a channel is not decoded.
    pub channel: Channel,
    /// Bytes that the client is going to write after these.
    pub remaining_bytes: u32,
    /// Flags.
    pub flags: WriteFlags,
    /// The data.
    pub data: Bytes,
}

impl Body for WriteRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(49)?;
        let data_offset = usize::from(reader.u16()?);
        let length = reader.u32()? as usize;
        let offset = reader.u64()?;
        let file_id = FileId::decode(reader)?;
        let channel = Channel(reader.u32()?);
        let remaining_bytes = reader.u32()?;
        reader.skip(4)?;
        let flags = WriteFlags(reader.u32()?);
        let data = reader.slice(data_offset, length)?;
        Ok(Self { offset, file_id, channel, remaining_bytes, flags, data })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(49);
        writer.u16(WRITE_DATA_OFFSET as u16);
        writer.u32(self.data.len() as u32);
        writer.u64(self.offset);
        self.file_id.encode(writer);
        writer.u32(self.channel.0);
        writer.u32(self.remaining_bytes);
        writer.u32(0);
        writer.u32(self.flags.0);
        super::buffer::put_one_at_least(writer, &self.data);
    }
}

/// The response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteResponse {
    /// Bytes that were written.
    pub count: u32,
}

impl Body for WriteResponse {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(17)?;
        reader.skip(2)?;
        let count = reader.u32()?;
        reader.skip(8)?;
        Ok(Self { count })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(17);
        writer.u16(0);
        writer.u32(self.count);
        // Remaining, WriteChannelInfoOffset and WriteChannelInfoLength are 0 (2.2.22).
        writer.u64(0);
    }
}
