//! READ. MS-SMB2 2.2.19, 2.2.20.

use super::bits::{bits, values};
use super::{Body, FileId, HEADER_BYTES};
use crate::cursor::{Reader, Result, Writer};
use bytes::Bytes;

/// Offset of the data of a response from its header.
pub const READ_DATA_OFFSET: usize = HEADER_BYTES + 16;

bits! {
    /// 2.2.19, Flags.
    ReadFlags(u8) {
        /// Caches are passed by (3.0.2).
        UNBUFFERED = 1,
        /// The response may be compressed (3.1.1).
        REQUEST_COMPRESSED = 2,
    }
}

values! {
    /// How data go: in the message, or by RDMA. 2.2.19, Channel.
    Channel(u32) {
        /// In the message.
        NONE = 0,
        /// RDMA.
        RDMA_V1 = 1,
        /// RDMA, and the server invalidates the buffer.
        RDMA_V1_INVALIDATE = 2,
        /// RDMA, and the data are transformed.
        RDMA_TRANSFORM = 3,
    }
}

/// The request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadRequest {
    /// Flags.
    pub flags: ReadFlags,
    /// Bytes to read.
    pub length: u32,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The open.
    pub file_id: FileId,
    /// Fewer bytes than this are an error.
    pub minimum_count: u32,
    /// How the data are sent. The information of a channel is not decoded.
    pub channel: Channel,
    /// Bytes that the client is going to read after these.
    pub remaining_bytes: u32,
}

impl Body for ReadRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(49)?;
        reader.skip(1)?;
        let request = Self {
            flags: ReadFlags(reader.u8()?),
            length: reader.u32()?,
            offset: reader.u64()?,
            file_id: FileId::decode(reader)?,
            minimum_count: reader.u32()?,
            channel: Channel(reader.u32()?),
            remaining_bytes: reader.u32()?,
        };
        reader.skip(4)?;
        Ok(request)
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(49);
        writer.u8(READ_DATA_OFFSET as u8);
        writer.u8(self.flags.0);
        writer.u32(self.length);
        writer.u64(self.offset);
        self.file_id.encode(writer);
        writer.u32(self.minimum_count);
        writer.u32(self.channel.0);
        writer.u32(self.remaining_bytes);
        writer.u32(0);
        // One byte is there also without information of a channel (2.2.19, Buffer).
        writer.u8(0);
    }
}

/// The fixed part of a response. The data follow it, at [`READ_DATA_OFFSET`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadResponse {
    /// Bytes of the data.
    pub data_bytes: u32,
    /// Bytes that were sent by RDMA.
    pub remaining: u32,
}

impl Body for ReadResponse {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(17)?;
        reader.skip(2)?;
        let response = Self { data_bytes: reader.u32()?, remaining: reader.u32()? };
        reader.skip(4)?;
        Ok(response)
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(17);
        writer.u8(READ_DATA_OFFSET as u8);
        writer.u8(0);
        writer.u32(self.data_bytes);
        writer.u32(self.remaining);
        writer.u32(0);
    }
}

/// A response with its data, as a client reads it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadReply {
    /// The data.
    pub data: Bytes,
    /// Bytes that were sent by RDMA.
    pub remaining: u32,
}

impl Body for ReadReply {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(17)?;
        let offset = usize::from(reader.u8()?);
        reader.skip(1)?;
        let length = reader.u32()? as usize;
        let remaining = reader.u32()?;
        reader.skip(4)?;
        Ok(Self { data: reader.slice(offset, length)?, remaining })
    }

    fn encode(&self, writer: &mut Writer) {
        let data_bytes = self.data.len() as u32;
        ReadResponse { data_bytes, remaining: self.remaining }.encode(writer);
        writer.bytes(&self.data);
    }
}
