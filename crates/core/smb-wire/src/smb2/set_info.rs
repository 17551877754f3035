//! SET_INFO. MS-SMB2 2.2.39, 2.2.40.

use super::query_info::InfoType;
use super::{Body, FileId, HEADER_BYTES, buffer};
use crate::cursor::{Reader, Result, Writer};
use bytes::Bytes;

/// The request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetInfoRequest {
    /// What information is of.
    pub info_type: InfoType,
    /// Which information (MS-FSCC 2.4, 2.5).
    pub info_class: u8,
    /// Parts of a security descriptor:
    /// [`SecurityInformation`](super::query_info::SecurityInformation).
    pub additional_information: u32,
    /// The open.
    pub file_id: FileId,
    /// The information.
    pub data: Bytes,
}

impl Body for SetInfoRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(33)?;
        let info_type = InfoType(reader.u8()?);
        let info_class = reader.u8()?;
        let length = reader.u32()? as usize;
        let offset = usize::from(reader.u16()?);
        reader.skip(2)?;
        Ok(Self {
            info_type,
            info_class,
            additional_information: reader.u32()?,
            file_id: FileId::decode(reader)?,
            data: reader.slice(offset, length)?,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(33);
        writer.u8(self.info_type.0);
        writer.u8(self.info_class);
        writer.u32(self.data.len() as u32);
        writer.u32((HEADER_BYTES + 32) as u32);
        writer.u32(self.additional_information);
        self.file_id.encode(writer);
        buffer::put_one_at_least(writer, &self.data);
    }
}

/// The response: only its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetInfoResponse;

impl Body for SetInfoResponse {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(2).map(|()| Self)
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(2);
    }
}
