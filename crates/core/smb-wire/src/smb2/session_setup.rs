//! SESSION_SETUP. MS-SMB2 2.2.5, 2.2.6.

use super::bits::bits;
use super::{Body, HEADER_BYTES, buffer};
use crate::cursor::{Reader, Result, Writer};
use bytes::Bytes;

bits! {
    /// 2.2.5, Flags.
    SessionSetupFlags(u8) {
        /// The connection is to be a further channel of the session.
        BINDING = 1,
    }

    /// What a session is. 2.2.6, SessionFlags.
    SessionFlags(u16) {
        /// A guest.
        GUEST = 1,
        /// Without a user.
        ANONYMOUS = 2,
        /// Its messages must be encrypted.
        ENCRYPT_DATA = 4,
    }
}

/// The request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionSetupRequest {
    /// Flags.
    pub flags: SessionSetupFlags,
    /// Signing: the bits of [`SecurityMode`](super::negotiate::SecurityMode).
    pub security_mode: u8,
    /// Only DFS is defined.
    pub capabilities: u32,
    /// The session of a lost connection, which is to end; or 0.
    pub previous_session_id: u64,
    /// A token of the logon.
    pub security_buffer: Bytes,
}

impl Body for SessionSetupRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(25)?;
        let flags = SessionSetupFlags(reader.u8()?);
        let security_mode = reader.u8()?;
        let capabilities = reader.u32()?;
        reader.skip(4)?;
        let security_buffer = buffer::short(reader)?;
        let previous_session_id = reader.u64()?;
        Ok(Self { flags, security_mode, capabilities, previous_session_id, security_buffer })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(25);
        writer.u8(self.flags.0);
        writer.u8(self.security_mode);
        writer.u32(self.capabilities);
        writer.u32(0);
        writer.u16((HEADER_BYTES + 24) as u16);
        writer.u16(self.security_buffer.len() as u16);
        writer.u64(self.previous_session_id);
        buffer::put_one_at_least(writer, &self.security_buffer);
    }
}

/// The response.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionSetupResponse {
    /// What the session is.
    pub flags: SessionFlags,
    /// A token of the logon.
    pub security_buffer: Bytes,
}

impl Body for SessionSetupResponse {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(9)?;
        let flags = SessionFlags(reader.u16()?);
        Ok(Self { flags, security_buffer: buffer::short(reader)? })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(9);
        writer.u16(self.flags.0);
        writer.u16((HEADER_BYTES + 8) as u16);
        writer.u16(self.security_buffer.len() as u16);
        writer.bytes(&self.security_buffer);
    }
}
