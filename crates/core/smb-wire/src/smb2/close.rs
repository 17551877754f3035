//! CLOSE. MS-SMB2 2.2.15, 2.2.16.

use super::bits::bits;
use super::{Body, FileId};
use crate::cursor::{Reader, Result, Writer};

bits! {
    /// 2.2.15, Flags.
    CloseFlags(u16) {
        /// The response has the attributes of the file.
        POSTQUERY_ATTRIB = 1,
    }
}

/// The request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CloseRequest {
    /// Flags.
    pub flags: CloseFlags,
    /// The open.
    pub file_id: FileId,
}

impl Body for CloseRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(24)?;
        let flags = CloseFlags(reader.u16()?);
        reader.skip(4)?;
        Ok(Self { flags, file_id: FileId::decode(reader)? })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(24);
        writer.u16(self.flags.0);
        writer.u32(0);
        self.file_id.encode(writer);
    }
}

/// The response. Without [`CloseFlags::POSTQUERY_ATTRIB`] all is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CloseResponse {
    /// Whether the attributes are there.
    pub flags: CloseFlags,
    /// When the file was made: a FILETIME, 100 ns since 1601.
    pub creation_time: u64,
    /// When it was last read.
    pub last_access_time: u64,
    /// When it was last written.
    pub last_write_time: u64,
    /// When its data or attributes last changed.
    pub change_time: u64,
    /// Bytes that it takes on disks.
    pub allocation_size: u64,
    /// Its size in bytes.
    pub end_of_file: u64,
    /// Its attributes (MS-FSCC 2.6).
    pub file_attributes: u32,
}

impl Body for CloseResponse {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(60)?;
        let flags = CloseFlags(reader.u16()?);
        reader.skip(4)?;
        Ok(Self {
            flags,
            creation_time: reader.u64()?,
            last_access_time: reader.u64()?,
            last_write_time: reader.u64()?,
            change_time: reader.u64()?,
            allocation_size: reader.u64()?,
            end_of_file: reader.u64()?,
            file_attributes: reader.u32()?,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(60);
        writer.u16(self.flags.0);
        writer.u32(0);
        writer.u64(self.creation_time);
        writer.u64(self.last_access_time);
        writer.u64(self.last_write_time);
        writer.u64(self.change_time);
        writer.u64(self.allocation_size);
        writer.u64(self.end_of_file);
        writer.u32(self.file_attributes);
    }
}
