//! NEGOTIATE. MS-SMB2 2.2.3, 2.2.4.

mod context;

pub use context::*;

use super::bits::bits;
use super::{Body, Dialect, HEADER_BYTES, buffer};
use crate::cursor::{Malformed, Reader, Result, Writer};
use bytes::Bytes;

/// Most dialects of a request.
pub const MAX_DIALECTS: usize = 64;

bits! {
    /// What a client or server can do. 2.2.3, Capabilities.
    Capabilities(u32) {
        /// DFS.
        DFS = 1,
        /// Leases.
        LEASING = 2,
        /// Several credits for one request.
        LARGE_MTU = 4,
        /// Several connections of a session.
        MULTI_CHANNEL = 8,
        /// Persistent handles.
        PERSISTENT_HANDLES = 0x10,
        /// Leases of directories.
        DIRECTORY_LEASING = 0x20,
        /// Encryption (3.0 and 3.0.2).
        ENCRYPTION = 0x40,
        /// Notifications of the server to the client (3.1.1).
        NOTIFICATIONS = 0x80,
    }

    /// Whether messages are signed. 2.2.3, SecurityMode.
    SecurityMode(u16) {
        /// They may be.
        SIGNING_ENABLED = 1,
        /// They must be.
        SIGNING_REQUIRED = 2,
    }
}

/// The request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NegotiateRequest {
    /// Numbers of dialects, also of those that are not known.
    pub dialects: Vec<u16>,
    /// Signing.
    pub security_mode: SecurityMode,
    /// Capabilities of the client; 0 before SMB 3.
    pub capabilities: Capabilities,
    /// Names the client; 0 in SMB 2.0.2.
    pub client_guid: [u8; 16],
    /// Contexts; none without [`Dialect::Smb311`] in the list.
    pub contexts: Vec<NegotiateContext>,
}

impl NegotiateRequest {
    /// Whether it offers 3.1.1: only then has it contexts (2.2.3, NegotiateContextOffset).
    fn has_contexts(&self) -> bool {
        self.dialects.contains(&Dialect::Smb311.number())
    }
}

impl Body for NegotiateRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(36)?;
        let dialect_count = usize::from(reader.u16()?);
        if dialect_count > MAX_DIALECTS {
            return Err(Malformed("negotiate: DialectCount"));
        }
        let security_mode = SecurityMode(reader.u16()?);
        reader.skip(2)?;
        let capabilities = Capabilities(reader.u32()?);
        let client_guid = reader.array()?;
        let context_offset = reader.u32()? as usize;
        let context_count = usize::from(reader.u16()?);
        reader.skip(2)?;
        let dialects = (0..dialect_count).map(|_| reader.u16()).collect::<Result<Vec<_>>>()?;
        let mut request =
            Self { dialects, security_mode, capabilities, client_guid, contexts: Vec::new() };
        if request.has_contexts() {
            request.contexts = context::decode_list(reader, context_offset, context_count)?;
        }
        Ok(request)
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(36);
        writer.u16(self.dialects.len() as u16);
        writer.u16(self.security_mode.0);
        writer.u16(0);
        writer.u32(self.capabilities.0);
        writer.bytes(&self.client_guid);
        let offset_at = writer.position();
        writer.u64(0);
        for dialect in &self.dialects {
            writer.u16(*dialect);
        }
        if self.has_contexts() {
            writer.set_u16(offset_at + 4, self.contexts.len() as u16);
            context::encode_list(writer, offset_at, &self.contexts);
        }
    }
}

/// The response.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NegotiateResponse {
    /// Signing.
    pub security_mode: SecurityMode,
    /// The number of the dialect, or [`Dialect::WILDCARD`].
    pub dialect: u16,
    /// Names the server.
    pub server_guid: [u8; 16],
    /// Capabilities of the connection.
    pub capabilities: Capabilities,
    /// Most bytes of QUERY and SET requests and responses.
    pub max_transact_size: u32,
    /// Most bytes of a READ.
    pub max_read_size: u32,
    /// Most bytes of a WRITE.
    pub max_write_size: u32,
    /// Now, as a FILETIME: 100 ns since 1601.
    pub system_time: u64,
    /// The first token of the logon (SPNEGO), or nothing.
    pub security_buffer: Bytes,
    /// Contexts of 3.1.1.
    pub contexts: Vec<NegotiateContext>,
}

impl Body for NegotiateResponse {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(65)?;
        let security_mode = SecurityMode(reader.u16()?);
        let dialect = reader.u16()?;
        let context_count = usize::from(reader.u16()?);
        let server_guid = reader.array()?;
        let capabilities = Capabilities(reader.u32()?);
        let max_transact_size = reader.u32()?;
        let max_read_size = reader.u32()?;
        let max_write_size = reader.u32()?;
        let system_time = reader.u64()?;
        reader.skip(8)?;
        let security_buffer = buffer::short(reader)?;
        let context_offset = reader.u32()? as usize;
        let contexts = if dialect == Dialect::Smb311.number() {
            context::decode_list(reader, context_offset, context_count)?
        } else {
            Vec::new()
        };
        Ok(Self {
            security_mode,
            dialect,
            server_guid,
            capabilities,
            max_transact_size,
            max_read_size,
            max_write_size,
            system_time,
            security_buffer,
            contexts,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        let has_contexts = self.dialect == Dialect::Smb311.number();
        writer.u16(65);
        writer.u16(self.security_mode.0);
        writer.u16(self.dialect);
        writer.u16(if has_contexts { self.contexts.len() as u16 } else { 0 });
        writer.bytes(&self.server_guid);
        writer.u32(self.capabilities.0);
        writer.u32(self.max_transact_size);
        writer.u32(self.max_read_size);
        writer.u32(self.max_write_size);
        writer.u64(self.system_time);
        // ServerStartTime "SHOULD be zero" (2.2.4).
        writer.u64(0);
        writer.u16((HEADER_BYTES + 64) as u16);
        writer.u16(self.security_buffer.len() as u16);
        let offset_at = writer.position();
        writer.u32(0);
        writer.bytes(&self.security_buffer);
        if has_contexts {
            context::encode_list(writer, offset_at, &self.contexts);
        }
    }
}
