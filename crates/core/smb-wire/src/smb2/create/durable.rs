//! Contexts of durable and persistent opens, and of applications that move with their opens.
//! MS-SMB2 2.2.13.2.3, 4, 11, 12, 13 and 15, 2.2.14.2.3 and 12.

use super::context::{self, CreateContext};
use crate::cursor::{Reader, Result, Writer};
use crate::smb2::FileId;
use crate::smb2::bits::bits;
use bytes::Bytes;

bits! {
    /// 2.2.13.2.11, Flags.
    DurableFlags(u32) {
        /// The open outlives its server.
        PERSISTENT = 2,
    }
}

/// A durable open is asked for: 16 reserved bytes. 2.2.13.2.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DurableRequest;

impl DurableRequest {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 16 bytes.
    pub fn decode(data: &Bytes) -> Result<Self> {
        Reader::new(data.clone()).skip(16).map(|()| Self)
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        CreateContext::new(context::DURABLE_REQUEST, vec![0; 16])
    }
}

/// A durable open is granted: 8 reserved bytes. 2.2.14.2.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DurableResponse;

impl DurableResponse {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn decode(data: &Bytes) -> Result<Self> {
        Reader::new(data.clone()).skip(8).map(|()| Self)
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        CreateContext::new(context::DURABLE_REQUEST, vec![0; 8])
    }
}

/// A durable open is opened again. 2.2.13.2.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurableReconnect {
    /// The open.
    pub file_id: FileId,
}

impl DurableReconnect {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 16 bytes.
    pub fn decode(data: &Bytes) -> Result<Self> {
        Ok(Self { file_id: FileId::decode(&mut Reader::new(data.clone()))? })
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        let mut writer = Writer::new();
        self.file_id.encode(&mut writer);
        CreateContext::new(context::DURABLE_RECONNECT, writer.finish())
    }
}

/// A durable or persistent open of SMB 3 is asked for. 2.2.13.2.11.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurableRequestV2 {
    /// Milliseconds for which the open is to outlive its connection; 0: as the server likes.
    pub timeout: u32,
    /// Whether it is persistent.
    pub flags: DurableFlags,
    /// Names the CREATE, so that its repetition is recognised.
    pub create_guid: [u8; 16],
}

impl DurableRequestV2 {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 32 bytes.
    pub fn decode(data: &Bytes) -> Result<Self> {
        let mut reader = Reader::new(data.clone());
        let timeout = reader.u32()?;
        let flags = DurableFlags(reader.u32()?);
        reader.skip(8)?;
        Ok(Self { timeout, flags, create_guid: reader.array()? })
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        let mut writer = Writer::new();
        writer.u32(self.timeout);
        writer.u32(self.flags.0);
        writer.u64(0);
        writer.bytes(&self.create_guid);
        CreateContext::new(context::DURABLE_REQUEST_V2, writer.finish())
    }
}

/// A durable or persistent open of SMB 3 is granted. 2.2.14.2.12.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurableResponseV2 {
    /// Milliseconds for which the open outlives its connection.
    pub timeout: u32,
    /// Whether it is persistent.
    pub flags: DurableFlags,
}

impl DurableResponseV2 {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn decode(data: &Bytes) -> Result<Self> {
        let mut reader = Reader::new(data.clone());
        Ok(Self { timeout: reader.u32()?, flags: DurableFlags(reader.u32()?) })
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        let mut writer = Writer::new();
        writer.u32(self.timeout);
        writer.u32(self.flags.0);
        CreateContext::new(context::DURABLE_REQUEST_V2, writer.finish())
    }
}

/// An open of SMB 3 is opened again. 2.2.13.2.12.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurableReconnectV2 {
    /// The open.
    pub file_id: FileId,
    /// As in the request that made it.
    pub create_guid: [u8; 16],
    /// Whether it is persistent.
    pub flags: DurableFlags,
}

impl DurableReconnectV2 {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 36 bytes.
    pub fn decode(data: &Bytes) -> Result<Self> {
        let mut reader = Reader::new(data.clone());
        Ok(Self {
            file_id: FileId::decode(&mut reader)?,
            create_guid: reader.array()?,
            flags: DurableFlags(reader.u32()?),
        })
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        let mut writer = Writer::new();
        self.file_id.encode(&mut writer);
        writer.bytes(&self.create_guid);
        writer.u32(self.flags.0);
        CreateContext::new(context::DURABLE_RECONNECT_V2, writer.finish())
    }
}

/// The application that opens a file. 2.2.13.2.13.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppInstanceId(pub [u8; 16]);

impl AppInstanceId {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 20 bytes, or another structure size.
    pub fn decode(data: &Bytes) -> Result<Self> {
        let mut reader = Reader::new(data.clone());
        reader.structure_size(20)?;
        reader.skip(2)?;
        reader.array().map(Self)
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        let mut writer = Writer::new();
        writer.u16(20);
        writer.u16(0);
        writer.bytes(&self.0);
        CreateContext::new(context::APP_INSTANCE_ID, writer.finish())
    }
}

/// The version of the application that opens a file. 2.2.13.2.15.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AppInstanceVersion {
    /// The high half.
    pub high: u64,
    /// The low half.
    pub low: u64,
}

impl AppInstanceVersion {
    /// Reads it.
    ///
    /// # Errors
    /// Fewer than 24 bytes, or another structure size.
    pub fn decode(data: &Bytes) -> Result<Self> {
        let mut reader = Reader::new(data.clone());
        reader.structure_size(24)?;
        reader.skip(6)?;
        Ok(Self { high: reader.u64()?, low: reader.u64()? })
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        let mut writer = Writer::new();
        writer.u16(24);
        writer.zeros(6);
        writer.u64(self.high);
        writer.u64(self.low);
        CreateContext::new(context::APP_INSTANCE_VERSION, writer.finish())
    }
}
