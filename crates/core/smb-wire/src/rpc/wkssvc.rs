//! The interface that describes a computer (MS-WKST): the one call of it that clients use.

use bytes::Bytes;

use super::ndr::{NdrReader, NdrWriter};
use super::pdu::Syntax;
use super::pipe::Fault;
use super::srvsvc::GetInfo;
use super::{ERROR_INVALID_LEVEL, ERROR_SUCCESS, PLATFORM_NT, ServerInfo, VERSION};
use crate::cursor::{Malformed, Result};

/// 6bffd098-a112-3610-9833-46c3f87e345a, version 1.0 (MS-WKST 1.9).
pub const SYNTAX: Syntax = Syntax {
    uuid: *b"\x98\xd0\xff\x6b\x12\xa1\x10\x36\x98\x33\x46\xc3\xf8\x7e\x34\x5a",
    version: 1,
};
/// `NetrWkstaGetInfo` (MS-WKST 3.2.4.1), with the arguments [`GetInfo`].
pub const WORKSTATION_GET_INFO: u16 = 0;

/// Results of [`WORKSTATION_GET_INFO`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkstationResult {
    /// The level of the request: 100 is the only one.
    pub level: u32,
    /// Name and workgroup; `None` if the call failed.
    pub workstation: Option<(String, String)>,
    /// [`ERROR_SUCCESS`], or why the call failed.
    pub status: u32,
}

impl WorkstationResult {
    /// Encodes results (MS-WKST 2.2.5.1).
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = NdrWriter::new();
        writer.u32(self.level);
        writer.pointer(self.workstation.is_some());
        if let Some((name, workgroup)) = &self.workstation {
            writer.u32(PLATFORM_NT);
            writer.pointer(true);
            writer.pointer(true);
            writer.u32(VERSION.0);
            writer.u32(VERSION.1);
            writer.string(name);
            writer.string(workgroup);
        }
        writer.u32(self.status);
        writer.finish()
    }

    /// Decodes results.
    ///
    /// # Errors
    /// They do not follow their format, or have a level other than 100.
    pub fn decode(stub: Bytes) -> Result<Self> {
        let mut reader = NdrReader::new(stub);
        let level = reader.u32()?;
        let present = reader.pointer()?;
        let workstation = if present { Some(read(&mut reader, level)?) } else { None };
        Ok(Self { level, workstation, status: reader.u32()? })
    }
}

fn read(reader: &mut NdrReader, level: u32) -> Result<(String, String)> {
    if level != 100 {
        return Err(Malformed("workstation: level"));
    }
    reader.u32()?;
    let (has_name, has_workgroup) = (reader.pointer()?, reader.pointer()?);
    reader.u32()?;
    reader.u32()?;
    let name = if has_name { reader.string()? } else { String::new() };
    let workgroup = if has_workgroup { reader.string()? } else { String::new() };
    Ok((name, workgroup))
}

/// Executes a call: its results, or why it has none.
pub(super) fn call(
    info: &ServerInfo,
    operation: u16,
    stub: Bytes,
) -> std::result::Result<Vec<u8>, Fault> {
    if operation != WORKSTATION_GET_INFO {
        return Err(Fault::UNKNOWN_OPERATION);
    }
    let level = GetInfo::decode(stub)?.level;
    let (workstation, status) = match level {
        100 => (Some((info.name.clone(), info.workgroup.clone())), ERROR_SUCCESS),
        _ => (None, ERROR_INVALID_LEVEL),
    };
    Ok(WorkstationResult { level, workstation, status }.encode())
}
