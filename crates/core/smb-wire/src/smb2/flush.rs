//! FLUSH. MS-SMB2 2.2.17; the response (2.2.18) is [`Empty`](super::Empty).

use super::{Body, FileId};
use crate::cursor::{Reader, Result, Writer};

/// The request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushRequest {
    /// The open.
    pub file_id: FileId,
}

impl Body for FlushRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(24)?;
        reader.skip(6)?;
        Ok(Self { file_id: FileId::decode(reader)? })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(24);
        writer.zeros(6);
        self.file_id.encode(writer);
    }
}
