//! QUERY_INFO. MS-SMB2 2.2.37, 2.2.38.

use super::bits::{bits, values};
use super::{Body, FileId, HEADER_BYTES, buffer};
use crate::cursor::{Reader, Result, Writer};
use bytes::Bytes;

/// The response.
pub type QueryInfoResponse = super::output::OutputResponse;

values! {
    /// What information is of. 2.2.37, InfoType.
    InfoType(u8) {
        /// The file (MS-FSCC 2.4).
        FILE = 1,
        /// Its file system (MS-FSCC 2.5).
        FILESYSTEM = 2,
        /// Its security descriptor.
        SECURITY = 3,
        /// Quotas.
        QUOTA = 4,
    }
}

bits! {
    /// Parts of a security descriptor. 2.2.37, AdditionalInformation.
    SecurityInformation(u32) {
        /// The owner.
        OWNER = 1,
        /// The group.
        GROUP = 2,
        /// The discretionary access control list.
        DACL = 4,
        /// The system access control list.
        SACL = 8,
        /// The integrity label.
        LABEL = 0x10,
        /// Resource attributes.
        ATTRIBUTE = 0x20,
        /// The central access policy.
        SCOPE = 0x40,
        /// All, for backup.
        BACKUP = 0x1_0000,
    }

    /// How extended attributes are listed. 2.2.37, Flags.
    QueryInfoFlags(u32) {
        /// From the beginning.
        RESTART_SCAN = 1,
        /// One.
        RETURN_SINGLE_ENTRY = 2,
        /// From an index.
        INDEX_SPECIFIED = 4,
    }
}

/// The request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryInfoRequest {
    /// What information is of.
    pub info_type: InfoType,
    /// Which information (MS-FSCC 2.4, 2.5).
    pub info_class: u8,
    /// Most bytes of the response's buffer.
    pub output_buffer_length: u32,
    /// Parts of a security descriptor, or an index of extended attributes.
    pub additional_information: u32,
    /// Flags.
    pub flags: QueryInfoFlags,
    /// The open.
    pub file_id: FileId,
    /// The input: names of extended attributes, or users of quotas.
    pub input: Bytes,
}

impl Body for QueryInfoRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(41)?;
        let info_type = InfoType(reader.u8()?);
        let info_class = reader.u8()?;
        let output_buffer_length = reader.u32()?;
        let input_offset = usize::from(reader.u16()?);
        reader.skip(2)?;
        let input_length = reader.u32()? as usize;
        Ok(Self {
            info_type,
            info_class,
            output_buffer_length,
            additional_information: reader.u32()?,
            flags: QueryInfoFlags(reader.u32()?),
            file_id: FileId::decode(reader)?,
            input: reader.slice(input_offset, input_length)?,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(41);
        writer.u8(self.info_type.0);
        writer.u8(self.info_class);
        writer.u32(self.output_buffer_length);
        writer.u32((HEADER_BYTES + 40) as u32);
        writer.u32(self.input.len() as u32);
        writer.u32(self.additional_information);
        writer.u32(self.flags.0);
        self.file_id.encode(writer);
        buffer::put_one_at_least(writer, &self.input);
    }
}
