//! The other contexts of CREATE that have fields. MS-SMB2 2.2.13.2, 2.2.14.2.

use super::context::{self, CreateContext};
use crate::cursor::{Malformed, Reader, Result, Writer};
use crate::status::NtStatus;
use bytes::Bytes;

/// The maximal access is asked for. 2.2.13.2.5.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MaximalAccessRequest {
    /// A FILETIME: nothing is answered if the file changed after it. None always gets an answer.
    pub timestamp: Option<u64>,
}

impl MaximalAccessRequest {
    /// Reads it.
    ///
    /// # Errors
    /// The length is neither 0 nor 8 bytes (3.3.5.9.5).
    pub fn decode(data: &Bytes) -> Result<Self> {
        match data.len() {
            0 => Ok(Self::default()),
            8 => Ok(Self { timestamp: Some(Reader::new(data.clone()).u64()?) }),
            _ => Err(Malformed("MxAc context: length")),
        }
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        let data = self.timestamp.map(|time| time.to_le_bytes().to_vec()).unwrap_or_default();
        CreateContext::new(context::MAXIMAL_ACCESS, data)
    }
}

/// The maximal access. 2.2.14.2.5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaximalAccessResponse {
    /// Whether it could be found.
    pub status: NtStatus,
    /// An access mask (2.2.13.1).
    pub maximal_access: u32,
}

impl MaximalAccessResponse {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn decode(data: &Bytes) -> Result<Self> {
        let mut reader = Reader::new(data.clone());
        Ok(Self { status: NtStatus(reader.u32()?), maximal_access: reader.u32()? })
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        let mut writer = Writer::new();
        writer.u32(self.status.0);
        writer.u32(self.maximal_access);
        CreateContext::new(context::MAXIMAL_ACCESS, writer.finish())
    }
}

/// The number of the file on its volume. 2.2.14.2.9. The request has no data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnDiskId {
    /// The file.
    pub file: u64,
    /// The volume.
    pub volume: u64,
}

impl OnDiskId {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 32 bytes.
    pub fn decode(data: &Bytes) -> Result<Self> {
        let mut reader = Reader::new(data.clone());
        let id = Self { file: reader.u64()?, volume: reader.u64()? };
        reader.skip(16)?;
        Ok(id)
    }

    /// The context of a response.
    pub fn to_context(self) -> CreateContext {
        let mut writer = Writer::new();
        writer.u64(self.file);
        writer.u64(self.volume);
        writer.zeros(16);
        CreateContext::new(context::ON_DISK_ID, writer.finish())
    }

    /// The context of a request.
    pub fn request() -> CreateContext {
        CreateContext::new(context::ON_DISK_ID, Bytes::new())
    }
}

/// Bytes to reserve for a new file. 2.2.13.2.6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationSize(pub u64);

impl AllocationSize {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn decode(data: &Bytes) -> Result<Self> {
        Reader::new(data.clone()).u64().map(Self)
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        CreateContext::new(context::ALLOCATION_SIZE, self.0.to_le_bytes().to_vec())
    }
}

/// The snapshot in which the file is opened. 2.2.13.2.7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeWarp {
    /// When the snapshot was made: a FILETIME, 100 ns since 1601.
    pub timestamp: u64,
}

impl TimeWarp {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn decode(data: &Bytes) -> Result<Self> {
        Ok(Self { timestamp: Reader::new(data.clone()).u64()? })
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        CreateContext::new(context::TIMEWARP, self.timestamp.to_le_bytes().to_vec())
    }
}

/// An open with the POSIX extensions is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PosixRequest {
    /// Permission bits of a new file.
    pub mode: u32,
}

impl PosixRequest {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 4 bytes.
    pub fn decode(data: &Bytes) -> Result<Self> {
        Ok(Self { mode: Reader::new(data.clone()).u32()? })
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        CreateContext::new(context::POSIX, self.mode.to_le_bytes().to_vec())
    }
}

/// The file of an open with the POSIX extensions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PosixResponse {
    /// Number of links.
    pub link_count: u32,
    /// The tag of a reparse point, or 0.
    pub reparse_tag: u32,
    /// Permission bits.
    pub mode: u32,
    /// The SID of the owner, then that of the group: MS-DTYP 2.4.2.2.
    pub sids: Bytes,
}

impl PosixResponse {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 12 bytes.
    pub fn decode(data: &Bytes) -> Result<Self> {
        let mut reader = Reader::new(data.clone());
        Ok(Self {
            link_count: reader.u32()?,
            reparse_tag: reader.u32()?,
            mode: reader.u32()?,
            sids: reader.rest(),
        })
    }

    /// The context.
    pub fn to_context(&self) -> CreateContext {
        let mut writer = Writer::new();
        writer.u32(self.link_count);
        writer.u32(self.reparse_tag);
        writer.u32(self.mode);
        writer.bytes(&self.sids);
        CreateContext::new(context::POSIX, writer.finish())
    }
}
