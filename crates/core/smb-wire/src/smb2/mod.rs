//! SMB 2 and 3 messages. MS-SMB2 2.2.
//!
//! Each module has the request and the response of one command, with both directions of each: the
//! server decodes requests, the tests and clients decode responses. A body begins behind the header
//! of [`HEADER_BYTES`], and its offsets count from the header; so a [`Reader`] of a body
//! has the whole message and stands behind the header, and a [`Writer`] of a body has the base
//! [`HEADER_BYTES`].

mod bits;
mod buffer;
pub mod change_notify;
pub mod close;
pub mod create;
pub mod dialect;
pub mod error_context;
pub mod flush;
pub mod header;
pub mod ioctl;
pub mod lock;
pub mod negotiate;
pub mod oplock_break;
pub mod output;
pub mod query_directory;
pub mod query_info;
pub mod read;
pub mod response;
pub mod session_setup;
pub mod set_info;
pub mod tree_connect;
pub mod write;

pub use dialect::Dialect;
pub use header::{Command, Flags, HEADER_BYTES, Header};

use crate::cursor::{Reader, Result, Writer};

/// A body of a message.
pub trait Body: Sized {
    /// Reads the body; the reader stands behind the header.
    ///
    /// # Errors
    /// The bytes do not follow the format.
    fn decode(reader: &mut Reader) -> Result<Self>;

    /// Appends the body to a writer whose base is [`HEADER_BYTES`].
    fn encode(&self, writer: &mut Writer);

    /// The bytes of the body.
    fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::with_base(HEADER_BYTES);
        self.encode(&mut writer);
        writer.finish()
    }
}

/// Names an open of a server. 2.2.14.1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileId {
    /// Lasts after a lost connection.
    pub persistent: u64,
    /// Lasts as long as the session.
    pub volatile: u64,
}

impl FileId {
    /// In a related request of a compound: the open of the request before it (3.3.5.2.7.2).
    pub const RELATED: Self = Self { persistent: u64::MAX, volatile: u64::MAX };

    /// Reads it.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn decode(reader: &mut Reader) -> Result<Self> {
        Ok(Self { persistent: reader.u64()?, volatile: reader.u64()? })
    }

    /// Appends it.
    pub fn encode(self, writer: &mut Writer) {
        writer.u64(self.persistent);
        writer.u64(self.volatile);
    }
}

/// A body that has only its size and a reserved field: ECHO, LOGOFF, TREE_DISCONNECT, CANCEL, and
/// the responses of FLUSH and LOCK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Empty;

impl Body for Empty {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(4)?;
        reader.skip(2).map(|()| Self)
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(4);
        writer.u16(0);
    }
}

/// The body of a response with an error. 2.2.2.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ErrorBody {
    /// Number of error contexts (3.1.1).
    pub contexts: u8,
    /// Their bytes, or the error data of the older dialects.
    pub data: Vec<u8>,
}

impl Body for ErrorBody {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(9)?;
        let contexts = reader.u8()?;
        reader.skip(1)?;
        let length = reader.u32()? as usize;
        Ok(Self { contexts, data: reader.take(length)?.to_vec() })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(9);
        writer.u8(self.contexts);
        writer.u8(0);
        writer.u32(self.data.len() as u32);
        writer.bytes(&self.data);
        if self.data.is_empty() {
            // One byte, if there are no data (2.2.2, ErrorData).
            writer.u8(0);
        }
    }
}
