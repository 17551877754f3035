//! QUERY_DIRECTORY. MS-SMB2 2.2.33, 2.2.34.

use super::bits::bits;
use super::{Body, FileId, HEADER_BYTES, buffer};
use crate::cursor::{Reader, Result, Writer, to_utf16, utf16};

/// The response.
pub type QueryDirectoryResponse = super::output::OutputResponse;

bits! {
    /// 2.2.33, Flags.
    QueryDirectoryFlags(u8) {
        /// The listing begins again, with the pattern of this request if it has one.
        RESTART_SCANS = 1,
        /// The response has one name.
        RETURN_SINGLE_ENTRY = 2,
        /// The listing begins at the file index.
        INDEX_SPECIFIED = 4,
        /// The listing begins again, with the pattern of this request.
        REOPEN = 0x10,
    }
}

/// The request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryDirectoryRequest {
    /// What is asked for of each name (MS-FSCC 2.4).
    pub information_class: u8,
    /// Flags.
    pub flags: QueryDirectoryFlags,
    /// Where the listing begins, with [`QueryDirectoryFlags::INDEX_SPECIFIED`].
    pub file_index: u32,
    /// The open of the directory.
    pub file_id: FileId,
    /// Which names are asked for.
    pub pattern: String,
    /// Most bytes of the response's buffer.
    pub output_buffer_length: u32,
}

impl Body for QueryDirectoryRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(33)?;
        Ok(Self {
            information_class: reader.u8()?,
            flags: QueryDirectoryFlags(reader.u8()?),
            file_index: reader.u32()?,
            file_id: FileId::decode(reader)?,
            pattern: utf16(&buffer::short(reader)?)?,
            output_buffer_length: reader.u32()?,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        let pattern = to_utf16(&self.pattern);
        writer.u16(33);
        writer.u8(self.information_class);
        writer.u8(self.flags.0);
        writer.u32(self.file_index);
        self.file_id.encode(writer);
        writer.u16((HEADER_BYTES + 32) as u16);
        writer.u16(pattern.len() as u16);
        writer.u32(self.output_buffer_length);
        buffer::put_one_at_least(writer, &pattern);
    }
}
