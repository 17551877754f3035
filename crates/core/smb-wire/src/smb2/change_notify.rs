//! CHANGE_NOTIFY. MS-SMB2 2.2.35, 2.2.36.

use super::bits::bits;
use super::{Body, FileId};
use crate::cursor::{Reader, Result, Writer};

/// The response: a list of FILE_NOTIFY_INFORMATION (MS-FSCC 2.7.1).
pub type ChangeNotifyResponse = super::output::OutputResponse;

bits! {
    /// 2.2.35, Flags.
    ChangeNotifyFlags(u16) {
        /// The directories below are watched too.
        WATCH_TREE = 1,
    }

    /// 2.2.35, CompletionFilter.
    CompletionFilter(u32) {
        /// A file's name.
        FILE_NAME = 1,
        /// A directory's name.
        DIR_NAME = 2,
        /// Attributes.
        ATTRIBUTES = 4,
        /// Size.
        SIZE = 8,
        /// Time of the last write.
        LAST_WRITE = 0x10,
        /// Time of the last access.
        LAST_ACCESS = 0x20,
        /// Time of creation.
        CREATION = 0x40,
        /// Extended attributes.
        EA = 0x80,
        /// Access control.
        SECURITY = 0x100,
        /// A stream's name.
        STREAM_NAME = 0x200,
        /// A stream's size.
        STREAM_SIZE = 0x400,
        /// A stream's data.
        STREAM_WRITE = 0x800,
    }
}

/// The request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangeNotifyRequest {
    /// Flags.
    pub flags: ChangeNotifyFlags,
    /// Most bytes of the response's buffer.
    pub output_buffer_length: u32,
    /// The open of the directory.
    pub file_id: FileId,
    /// Which changes are asked for.
    pub filter: CompletionFilter,
}

impl Body for ChangeNotifyRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(32)?;
        let request = Self {
            flags: ChangeNotifyFlags(reader.u16()?),
            output_buffer_length: reader.u32()?,
            file_id: FileId::decode(reader)?,
            filter: CompletionFilter(reader.u32()?),
        };
        reader.skip(4)?;
        Ok(request)
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(32);
        writer.u16(self.flags.0);
        writer.u32(self.output_buffer_length);
        self.file_id.encode(writer);
        writer.u32(self.filter.0);
        writer.u32(0);
    }
}
