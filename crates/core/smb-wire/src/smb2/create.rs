//! CREATE. MS-SMB2 2.2.13, 2.2.14.

pub mod context;
mod durable;
mod lease;
mod options;
mod small;

pub use context::CreateContext;
pub use durable::*;
pub use lease::*;
pub use options::*;
pub use small::*;

use super::{Body, FileId, HEADER_BYTES, buffer};
use crate::cursor::{Reader, Result, Writer, to_utf16, utf16};

/// The request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CreateRequest {
    /// The oplock that is asked for.
    pub oplock_level: OplockLevel,
    /// How far the server may act as the client.
    pub impersonation: ImpersonationLevel,
    /// What the open is to be allowed: an access mask (2.2.13.1).
    pub desired_access: u32,
    /// Attributes of a new file (MS-FSCC 2.6).
    pub file_attributes: u32,
    /// What other opens may do.
    pub share_access: ShareAccess,
    /// What is done if the file is there, and if it is not.
    pub disposition: CreateDisposition,
    /// Options.
    pub options: CreateOptions,
    /// The path below the share, with `\` between names; empty is the share's root.
    pub name: String,
    /// Contexts.
    pub contexts: Vec<CreateContext>,
}

impl Body for CreateRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(57)?;
        reader.skip(1)?;
        let oplock_level = OplockLevel(reader.u8()?);
        let impersonation = ImpersonationLevel(reader.u32()?);
        reader.skip(16)?;
        Ok(Self {
            oplock_level,
            impersonation,
            desired_access: reader.u32()?,
            file_attributes: reader.u32()?,
            share_access: ShareAccess(reader.u32()?),
            disposition: CreateDisposition(reader.u32()?),
            options: CreateOptions(reader.u32()?),
            name: utf16(&buffer::short(reader)?)?,
            contexts: context::decode_list(buffer::wide(reader)?)?,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        let name = to_utf16(&self.name);
        writer.u16(57);
        writer.u8(0);
        writer.u8(self.oplock_level.0);
        writer.u32(self.impersonation.0);
        writer.zeros(16);
        writer.u32(self.desired_access);
        writer.u32(self.file_attributes);
        writer.u32(self.share_access.0);
        writer.u32(self.disposition.0);
        writer.u32(self.options.0);
        writer.u16((HEADER_BYTES + 56) as u16);
        writer.u16(name.len() as u16);
        let contexts_at = writer.position();
        writer.u64(0);
        match self.contexts.is_empty() {
            true => buffer::put_one_at_least(writer, &name),
            false => writer.bytes(&name),
        }
        context::encode_list(writer, contexts_at, &self.contexts);
    }
}

/// The response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateResponse {
    /// The oplock that is granted.
    pub oplock_level: OplockLevel,
    /// 2.2.14, Flags: 1 if a part of the path is a reparse point (3.x).
    pub flags: u8,
    /// What was done.
    pub action: CreateAction,
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
    /// The open.
    pub file_id: FileId,
    /// Contexts.
    pub contexts: Vec<CreateContext>,
}

impl Body for CreateResponse {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(89)?;
        let oplock_level = OplockLevel(reader.u8()?);
        let flags = reader.u8()?;
        let action = CreateAction(reader.u32()?);
        let creation_time = reader.u64()?;
        let last_access_time = reader.u64()?;
        let last_write_time = reader.u64()?;
        let change_time = reader.u64()?;
        let allocation_size = reader.u64()?;
        let end_of_file = reader.u64()?;
        let file_attributes = reader.u32()?;
        reader.skip(4)?;
        Ok(Self {
            oplock_level,
            flags,
            action,
            creation_time,
            last_access_time,
            last_write_time,
            change_time,
            allocation_size,
            end_of_file,
            file_attributes,
            file_id: FileId::decode(reader)?,
            contexts: context::decode_list(buffer::wide(reader)?)?,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(89);
        writer.u8(self.oplock_level.0);
        writer.u8(self.flags);
        writer.u32(self.action.0);
        writer.u64(self.creation_time);
        writer.u64(self.last_access_time);
        writer.u64(self.last_write_time);
        writer.u64(self.change_time);
        writer.u64(self.allocation_size);
        writer.u64(self.end_of_file);
        writer.u32(self.file_attributes);
        writer.u32(0);
        self.file_id.encode(writer);
        let contexts_at = writer.position();
        writer.u64(0);
        context::encode_list(writer, contexts_at, &self.contexts);
    }
}
