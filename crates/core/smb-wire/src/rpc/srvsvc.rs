//! The interface that lists shares (MS-SRVS): requests and results of the calls that clients use,
//! and their execution. Section numbers are those of MS-SRVS.

use bytes::Bytes;

use super::ndr::{NdrReader, NdrWriter};
use super::pdu::Syntax;
use super::pipe::Fault;
use super::{
    ERROR_INVALID_LEVEL, ERROR_SUCCESS, NERR_NET_NAME_NOT_FOUND, PLATFORM_NT, ServerInfo,
    ShareInfo, VERSION,
};
use crate::cursor::{Malformed, Result};

/// 4b324fc8-1670-01d3-1278-5a47bf6ee188, version 3.0 (1.9).
pub const SYNTAX: Syntax = Syntax {
    uuid: *b"\xc8\x4f\x32\x4b\x70\x16\xd3\x01\x12\x78\x5a\x47\xbf\x6e\xe1\x88",
    version: 3,
};
/// `NetrShareEnum` (3.1.4.8).
pub const SHARE_ENUM: u16 = 15;
/// `NetrShareGetInfo` (3.1.4.10).
pub const SHARE_GET_INFO: u16 = 16;
/// `NetrServerGetInfo` (3.1.4.17).
pub const SERVER_GET_INFO: u16 = 21;
/// `NetrShareEnumSticky` (3.1.4.9).
pub const SHARE_ENUM_STICKY: u16 = 36;
/// The most shares that a client takes in one list.
pub const MAX_SHARES: usize = 16384;

/// Workstation, server, NT and NT server: `SV_TYPE_*` (2.2.2.7).
const SERVER_TYPE: u32 = 0x9003;

/// Arguments of [`SHARE_ENUM`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareEnum {
    /// The server as the client calls it.
    pub server: Option<String>,
    /// What to return of each share: 0 the name, 1 kind and remark too, 2 the path too.
    pub level: u32,
    /// The bytes that results may have, about; `u32::MAX`: any number.
    pub preferred_length: u32,
    /// The number of shares that were returned before.
    pub resume: Option<u32>,
}

impl ShareEnum {
    /// Decodes arguments.
    ///
    /// # Errors
    /// They do not follow their format, or a list of shares is in them.
    pub fn decode(stub: Bytes) -> Result<Self> {
        let mut reader = NdrReader::new(stub);
        let server = reader.optional_string()?;
        let level = reader.u32()?;
        if reader.u32()? != level {
            return Err(Malformed("shares: level"));
        }
        // The containers of all levels have one form: a count, and a pointer to a list (2.2.4.32).
        if reader.pointer()? {
            let count = reader.u32()?;
            let list_length = if reader.pointer()? { reader.u32()? } else { 0 };
            if count != 0 || list_length != 0 {
                return Err(Malformed("shares: a list in a request"));
            }
        }
        let preferred_length = reader.u32()?;
        Ok(Self { server, level, preferred_length, resume: reader.optional_u32()? })
    }

    /// Encodes arguments.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = NdrWriter::new();
        writer.optional_string(self.server.as_deref());
        writer.u32(self.level);
        writer.u32(self.level);
        writer.pointer(true);
        writer.u32(0);
        writer.pointer(false);
        writer.u32(self.preferred_length);
        writer.optional_u32(self.resume);
        writer.finish()
    }
}

/// Results of [`SHARE_ENUM`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareList {
    /// The level of the request.
    pub level: u32,
    /// The shares; what the level does not have is empty. `None` if the call failed.
    pub shares: Option<Vec<ShareInfo>>,
    /// The number of shares from the first that is returned to the end of the list.
    pub total: u32,
    /// For the next call, if the request has such a number.
    pub resume: Option<u32>,
    /// [`ERROR_SUCCESS`], or why the call failed.
    pub status: u32,
}

impl ShareList {
    /// Encodes results.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = NdrWriter::new();
        writer.u32(self.level);
        writer.u32(self.level);
        writer.pointer(self.shares.is_some());
        if let Some(shares) = &self.shares {
            let count = u32::try_from(shares.len()).unwrap_or(u32::MAX);
            writer.u32(count);
            writer.pointer(true);
            writer.u32(count);
            shares.iter().for_each(|share| write_share(&mut writer, self.level, share));
            shares.iter().for_each(|share| write_strings(&mut writer, self.level, share));
        }
        writer.u32(self.total);
        writer.optional_u32(self.resume);
        writer.u32(self.status);
        writer.finish()
    }

    /// Decodes results.
    ///
    /// # Errors
    /// They do not follow their format, have another level than 0, 1 and 2, or more than
    /// [`MAX_SHARES`] shares.
    pub fn decode(stub: Bytes) -> Result<Self> {
        let mut reader = NdrReader::new(stub);
        let level = reader.u32()?;
        if reader.u32()? != level {
            return Err(Malformed("shares: level"));
        }
        let shares = if reader.pointer()? { Some(read_shares(&mut reader, level)?) } else { None };
        let total = reader.u32()?;
        let resume = reader.optional_u32()?;
        Ok(Self { level, shares, total, resume, status: reader.u32()? })
    }
}

/// A container of shares (2.2.4.32).
fn read_shares(reader: &mut NdrReader, level: u32) -> Result<Vec<ShareInfo>> {
    let count = reader.u32()?;
    if !reader.pointer()? {
        return Ok(Vec::new());
    }
    let length = reader.u32()? as usize;
    // Each share has a pointer to its name at least.
    if length != count as usize || length > MAX_SHARES || length > reader.remaining() / 4 {
        return Err(Malformed("shares: count"));
    }
    let forms = (0..length).map(|_| read_share(reader, level)).collect::<Result<Vec<_>>>()?;
    forms.into_iter().map(|form| form.read_strings(reader)).collect()
}

/// The fixed part of a share (2.2.4.22 to 2.2.4.24), before the strings that its pointers name.
fn write_share(writer: &mut NdrWriter, level: u32, share: &ShareInfo) {
    if level == 1005 {
        // 2.2.4.29: no flags; not in DFS, and clients may cache files.
        return writer.u32(0);
    }
    writer.pointer(true);
    if level >= 1 {
        writer.u32(share.kind);
        writer.pointer(true);
    }
    if level >= 2 {
        // Permissions are of no use since NT; any number of users, none of whom is counted.
        for field in [0, u32::MAX, 0] {
            writer.u32(field);
        }
        writer.pointer(true);
        writer.pointer(false);
    }
}

/// The strings that pointers of [`write_share`] name.
fn write_strings(writer: &mut NdrWriter, level: u32, share: &ShareInfo) {
    let count = if level == 1005 { 0 } else { level as usize + 1 };
    for text in [&share.name, &share.remark, &share.path].into_iter().take(count) {
        writer.string(text);
    }
}

/// A share whose strings follow.
struct ShareForm {
    kind: u32,
    /// Whether there are a name, a remark, a path and a password.
    strings: [bool; 4],
}

fn read_share(reader: &mut NdrReader, level: u32) -> Result<ShareForm> {
    let mut form = ShareForm { kind: 0, strings: [false; 4] };
    match level {
        0..=2 => form.strings[0] = reader.pointer()?,
        1005 => drop(reader.u32()?),
        _ => return Err(Malformed("share: level")),
    }
    if matches!(level, 1 | 2) {
        form.kind = reader.u32()?;
        form.strings[1] = reader.pointer()?;
    }
    if level == 2 {
        for _ in 0..3 {
            reader.u32()?;
        }
        form.strings[2] = reader.pointer()?;
        form.strings[3] = reader.pointer()?;
    }
    Ok(form)
}

impl ShareForm {
    fn read_strings(self, reader: &mut NdrReader) -> Result<ShareInfo> {
        let mut texts: [String; 4] = Default::default();
        for (text, present) in texts.iter_mut().zip(self.strings) {
            if present {
                *text = reader.string()?;
            }
        }
        let [name, remark, path, _password] = texts;
        Ok(ShareInfo { name, kind: self.kind, remark, path })
    }
}

/// Arguments of [`SHARE_GET_INFO`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareGetInfo {
    /// The server as the client calls it.
    pub server: Option<String>,
    /// The share.
    pub name: String,
    /// As in [`ShareEnum`]; 1005: flags only.
    pub level: u32,
}

impl ShareGetInfo {
    /// Decodes arguments.
    ///
    /// # Errors
    /// They do not follow their format.
    pub fn decode(stub: Bytes) -> Result<Self> {
        let mut reader = NdrReader::new(stub);
        let server = reader.optional_string()?;
        Ok(Self { server, name: reader.string()?, level: reader.u32()? })
    }

    /// Encodes arguments.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = NdrWriter::new();
        writer.optional_string(self.server.as_deref());
        writer.string(&self.name);
        writer.u32(self.level);
        writer.finish()
    }
}

/// Results of [`SHARE_GET_INFO`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareResult {
    /// The level of the request.
    pub level: u32,
    /// The share; what the level does not have is empty. `None` if the call failed.
    pub share: Option<ShareInfo>,
    /// [`ERROR_SUCCESS`], or why the call failed.
    pub status: u32,
}

impl ShareResult {
    /// Encodes results.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = NdrWriter::new();
        writer.u32(self.level);
        writer.pointer(self.share.is_some());
        if let Some(share) = &self.share {
            write_share(&mut writer, self.level, share);
            write_strings(&mut writer, self.level, share);
        }
        writer.u32(self.status);
        writer.finish()
    }

    /// Decodes results.
    ///
    /// # Errors
    /// They do not follow their format, or have a level other than 0, 1, 2 and 1005.
    pub fn decode(stub: Bytes) -> Result<Self> {
        let mut reader = NdrReader::new(stub);
        let level = reader.u32()?;
        let share = if reader.pointer()? {
            Some(read_share(&mut reader, level)?.read_strings(&mut reader)?)
        } else {
            None
        };
        Ok(Self { level, share, status: reader.u32()? })
    }
}

/// Arguments of [`SERVER_GET_INFO`], and of the call of the other interface that is like it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GetInfo {
    /// The server as the client calls it.
    pub server: Option<String>,
    /// What to return.
    pub level: u32,
}

impl GetInfo {
    /// Decodes arguments.
    ///
    /// # Errors
    /// They do not follow their format.
    pub fn decode(stub: Bytes) -> Result<Self> {
        let mut reader = NdrReader::new(stub);
        Ok(Self { server: reader.optional_string()?, level: reader.u32()? })
    }

    /// Encodes arguments.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = NdrWriter::new();
        writer.optional_string(self.server.as_deref());
        writer.u32(self.level);
        writer.finish()
    }
}

/// Results of [`SERVER_GET_INFO`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerResult {
    /// The level of the request: 100 has the name, 101 the comment too.
    pub level: u32,
    /// Name and comment; `None` if the call failed.
    pub server: Option<(String, String)>,
    /// [`ERROR_SUCCESS`], or why the call failed.
    pub status: u32,
}

impl ServerResult {
    /// Encodes results (2.2.4.40, 2.2.4.41).
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = NdrWriter::new();
        writer.u32(self.level);
        writer.pointer(self.server.is_some());
        if let Some((name, comment)) = &self.server {
            writer.u32(PLATFORM_NT);
            writer.pointer(true);
            if self.level == 101 {
                for field in [VERSION.0, VERSION.1, SERVER_TYPE] {
                    writer.u32(field);
                }
                writer.pointer(true);
            }
            writer.string(name);
            if self.level == 101 {
                writer.string(comment);
            }
        }
        writer.u32(self.status);
        writer.finish()
    }

    /// Decodes results.
    ///
    /// # Errors
    /// They do not follow their format, or have a level other than 100 and 101.
    pub fn decode(stub: Bytes) -> Result<Self> {
        let mut reader = NdrReader::new(stub);
        let level = reader.u32()?;
        let server = if reader.pointer()? { Some(read_server(&mut reader, level)?) } else { None };
        Ok(Self { level, server, status: reader.u32()? })
    }
}

fn read_server(reader: &mut NdrReader, level: u32) -> Result<(String, String)> {
    if !matches!(level, 100 | 101) {
        return Err(Malformed("server: level"));
    }
    reader.u32()?;
    let has_name = reader.pointer()?;
    let mut has_comment = false;
    if level == 101 {
        for _ in 0..3 {
            reader.u32()?;
        }
        has_comment = reader.pointer()?;
    }
    let name = if has_name { reader.string()? } else { String::new() };
    let comment = if has_comment { reader.string()? } else { String::new() };
    Ok((name, comment))
}

/// Executes a call: its results, or why it has none.
pub(super) fn call(
    info: &ServerInfo,
    operation: u16,
    stub: Bytes,
) -> std::result::Result<Vec<u8>, Fault> {
    match operation {
        SHARE_ENUM | SHARE_ENUM_STICKY => Ok(list(info, &ShareEnum::decode(stub)?).encode()),
        SHARE_GET_INFO => Ok(find(info, ShareGetInfo::decode(stub)?).encode()),
        SERVER_GET_INFO => Ok(describe(info, &GetInfo::decode(stub)?).encode()),
        _ => Err(Fault::UNKNOWN_OPERATION),
    }
}

/// 3.1.4.8. Results are never cut to the preferred length: servers may exceed it, and ours have
/// few shares.
fn list(info: &ServerInfo, request: &ShareEnum) -> ShareList {
    let level = request.level;
    let resume = request.resume.map(|_| 0);
    if level > 2 {
        return ShareList { level, shares: None, total: 0, resume, status: ERROR_INVALID_LEVEL };
    }
    let passed = request.resume.map_or(0, |count| count as usize);
    let shares: Vec<_> = info.shares.iter().skip(passed).take(MAX_SHARES).cloned().collect();
    let total = u32::try_from(shares.len()).unwrap_or(u32::MAX);
    ShareList { level, shares: Some(shares), total, resume, status: ERROR_SUCCESS }
}

/// 3.1.4.10. Names have no case.
fn find(info: &ServerInfo, request: ShareGetInfo) -> ShareResult {
    let level = request.level;
    if !matches!(level, 0..=2 | 1005) {
        return ShareResult { level, share: None, status: ERROR_INVALID_LEVEL };
    }
    let name = request.name.to_lowercase();
    let share = info.shares.iter().find(|share| share.name.to_lowercase() == name).cloned();
    let status = if share.is_some() { ERROR_SUCCESS } else { NERR_NET_NAME_NOT_FOUND };
    ShareResult { level, share, status }
}

/// 3.1.4.17.
fn describe(info: &ServerInfo, request: &GetInfo) -> ServerResult {
    let level = request.level;
    if !matches!(level, 100 | 101) {
        return ServerResult { level, server: None, status: ERROR_INVALID_LEVEL };
    }
    let server = Some((info.name.clone(), info.comment.clone()));
    ServerResult { level, server, status: ERROR_SUCCESS }
}
