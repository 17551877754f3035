//! Referrals of DFS: which servers have a path. MS-DFSC 2.2.
//!
//! ```text
//!   request:   level | path, 0
//!   request_EX: level | flags | length | length, path | length, site
//!   response:  PathConsumed, count, flags | entry, entry, ... | strings
//!                                              └ offsets from the entry ┘
//! ```
//!
//! Lists of domain controllers (2.2.5.3.2, NameListReferral) are refused: no server here has one.

use bytes::Bytes;

use crate::bits::bits;
use crate::cursor::{Malformed, Reader, Result, Writer, to_utf16, utf16};
use crate::fscc::Information;

/// Most UTF-16 units of a path or name, without the 0 behind it.
pub const TEXT_UNITS_MAX: usize = 4096;
/// Most entries of a response.
pub const ENTRIES_MAX: usize = 1024;
/// The newest form of entries.
pub const VERSION_MAX: u16 = 4;
/// Bytes of the response before its entries.
const HEADER_BYTES: usize = 8;
/// Bytes of an entry of version 1 before its name (2.2.5.1).
const ENTRY_1_BYTES: usize = 8;
/// Bytes of an entry of version 2 (2.2.5.2).
const ENTRY_2_BYTES: usize = 22;
/// Bytes of an entry of versions 3 and 4 (2.2.5.3.1, 2.2.5.4).
const ENTRY_3_BYTES: usize = 34;
/// RequestFlags: there is a name of a site. 2.2.3.
const SITE_NAME: u16 = 1;
/// ReferralEntryFlags: the entry lists domain controllers. 2.2.5.3.
const NAME_LIST: u16 = 2;

/// The input of `DFS_GET_REFERRALS`. 2.2.2.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReferralRequest {
    /// The newest form of entries that the client knows.
    pub max_level: u16,
    /// `\server\share`, with more behind it or not.
    pub path: String,
}

/// The input of `DFS_GET_REFERRALS_EX`. 2.2.3.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReferralRequestEx {
    /// The newest form of entries that the client knows.
    pub max_level: u16,
    /// `\server\share`, with more behind it or not.
    pub path: String,
    /// The client's site.
    pub site: Option<String>,
}

impl Information for ReferralRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        Ok(Self { max_level: reader.u16()?, path: terminated(&reader.rest())? })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(self.max_level);
        writer.bytes(&to_utf16(&self.path));
        writer.u16(0);
    }
}

impl Information for ReferralRequestEx {
    fn decode(reader: &mut Reader) -> Result<Self> {
        let (max_level, flags) = (reader.u16()?, reader.u16()?);
        let length = reader.u32()? as usize;
        let mut data = Reader::new(reader.take(length)?);
        let path = counted(&mut data)?;
        let site = if flags & SITE_NAME == 0 { None } else { Some(counted(&mut data)?) };
        Ok(Self { max_level, path, site })
    }

    /// Texts over [`TEXT_UNITS_MAX`] are cut.
    fn encode(&self, writer: &mut Writer) {
        let mut data = Writer::new();
        for text in [Some(&self.path), self.site.as_ref()].into_iter().flatten() {
            let mut text = to_utf16(text);
            text.truncate(2 * TEXT_UNITS_MAX);
            data.u16(text.len() as u16 + 2);
            data.bytes(&text);
            data.u16(0);
        }
        let data = data.finish();
        writer.u16(self.max_level);
        writer.u16(if self.site.is_some() { SITE_NAME } else { 0 });
        writer.u32(data.len() as u32);
        writer.bytes(&data);
    }
}

/// The text before the first 0, which must be there.
fn terminated(bytes: &[u8]) -> Result<String> {
    let mut units = bytes.chunks_exact(2).take(TEXT_UNITS_MAX + 1);
    let end = units.position(|unit| unit == [0, 0]);
    utf16(&bytes[..2 * end.ok_or(Malformed("referral: a text without an end"))?])
}

/// A text behind its length in bytes. A 0 ends it, if there is one.
fn counted(reader: &mut Reader) -> Result<String> {
    let length = usize::from(reader.u16()?);
    let bytes = reader.take(length)?;
    let end = bytes.chunks_exact(2).position(|unit| unit == [0, 0]).map(|units| 2 * units);
    let text = &bytes[..end.unwrap_or(length)];
    if text.len() > 2 * TEXT_UNITS_MAX {
        return Err(Malformed("referral: a text is too long"));
    }
    utf16(text)
}

bits! {
    /// What is true of all targets. 2.2.4, ReferralHeaderFlags.
    pub struct ReferralFlags(u32) {
        /// Each target answers requests for referrals.
        REFERRAL_SERVERS = 1,
        /// Each target has the files: no further referral is needed.
        STORAGE_SERVERS = 2,
        /// A client goes back to a target that it prefers, when that one is back (version 4).
        TARGET_FAILBACK = 4,
    }
}

/// One target. 2.2.5.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Referral {
    /// Whether it is a root of a namespace, else a link.
    pub is_root: bool,
    /// Whether a set of targets that are equally good begins here. Version 4; else `false`.
    pub begins_set: bool,
    /// How long the client may use it, in seconds. Version 2 to 4; else 0.
    pub time_to_live: u32,
    /// The path that was asked for. Version 2 to 4; else empty.
    pub path: String,
    /// `\server\share` of the target.
    pub target: String,
}

/// ReferralEntryFlags: a set of targets begins. 2.2.5.4.
const TARGET_SET_BOUNDARY: u16 = 4;

/// The output of both requests. 2.2.4.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReferralResponse {
    /// Bytes of the path that was asked for (UTF-16), in place of which a target is put.
    pub path_consumed: u16,
    /// What is true of all targets.
    pub flags: ReferralFlags,
    /// The form of the entries, 1 to 4.
    pub version: u16,
    /// The targets, the best one first.
    pub entries: Vec<Referral>,
}

impl ReferralResponse {
    /// Its bytes. Texts that are equal are written once.
    ///
    /// # Errors
    /// The version is not known, or the strings are too far from their entries: over 64 KiB.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let count = u16::try_from(self.entries.len()).map_err(|_| TOO_LONG)?;
        let mut writer = Writer::new();
        writer.u16(self.path_consumed);
        writer.u16(count);
        writer.u32(self.flags.0);
        if self.version == 1 {
            self.entries.iter().try_for_each(|entry| entry.encode_1(&mut writer))?;
            return Ok(writer.finish());
        }
        let entry_bytes = entry_bytes(self.version)?;
        let mut strings = Strings {
            begin: HEADER_BYTES + entry_bytes * self.entries.len(),
            ..Strings::default()
        };
        for entry in &self.entries {
            entry.encode(self.version, &mut writer, &mut strings)?;
        }
        writer.bytes(&strings.bytes);
        Ok(writer.finish())
    }

    /// Reads a response.
    ///
    /// # Errors
    /// The bytes do not follow the format; entries of several versions, or lists of names.
    pub fn from_bytes(bytes: Bytes) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let (path_consumed, count) = (reader.u16()?, usize::from(reader.u16()?));
        let flags = ReferralFlags(reader.u32()?);
        if count > ENTRIES_MAX {
            return Err(Malformed("referral: NumberOfReferrals"));
        }
        let mut read = Self { path_consumed, flags, version: VERSION_MAX, entries: Vec::new() };
        for index in 0..count {
            let begin = reader.position();
            let (version, size) = (reader.u16()?, usize::from(reader.u16()?));
            if index > 0 && version != read.version {
                return Err(Malformed("referral: several versions"));
            }
            if size < entry_bytes(version)? {
                return Err(Malformed("referral: Size"));
            }
            read.version = version;
            // Offsets count from the entry, and lead behind all entries.
            let message = reader.message();
            let all = Reader::new(message.slice(begin..));
            let mut fields = Reader::new(reader.take(size - 4)?);
            read.entries.push(Referral::decode(version, &mut fields, &all)?);
        }
        Ok(read)
    }
}

const TOO_LONG: Malformed = Malformed("referral: over 64 KiB");

/// Bytes of an entry, of version 1 without its name.
fn entry_bytes(version: u16) -> Result<usize> {
    match version {
        1 => Ok(ENTRY_1_BYTES),
        2 => Ok(ENTRY_2_BYTES),
        3 | 4 => Ok(ENTRY_3_BYTES),
        _ => Err(Malformed("referral: VersionNumber")),
    }
}

/// The strings behind the entries.
#[derive(Default)]
struct Strings<'a> {
    /// Where they begin in the response.
    begin: usize,
    bytes: Vec<u8>,
    /// Each one, with its place in `bytes`.
    known: Vec<(&'a str, usize)>,
}

impl<'a> Strings<'a> {
    /// Adds a text that is not there, and returns its offset from an entry.
    fn offset(&mut self, text: &'a str, entry: usize) -> Result<u16> {
        let known = self.known.iter().rev().find(|(known, _)| *known == text);
        let at = match known {
            Some((_, at)) => *at,
            None => {
                let at = self.bytes.len();
                self.bytes.extend(to_utf16(text));
                self.bytes.extend([0, 0]);
                self.known.push((text, at));
                at
            }
        };
        u16::try_from(self.begin + at - entry).map_err(|_| TOO_LONG)
    }
}

impl Referral {
    /// 2.2.5.1: the name of the share is in the entry.
    fn encode_1(&self, writer: &mut Writer) -> Result<()> {
        let name = to_utf16(&self.target);
        writer.u16(1);
        writer.u16(u16::try_from(ENTRY_1_BYTES + name.len() + 2).map_err(|_| TOO_LONG)?);
        writer.u16(u16::from(self.is_root));
        writer.u16(0);
        writer.bytes(&name);
        writer.u16(0);
        Ok(())
    }

    /// 2.2.5.2, 2.2.5.3.1, 2.2.5.4.
    fn encode<'a>(
        &'a self,
        version: u16,
        writer: &mut Writer,
        strings: &mut Strings<'a>,
    ) -> Result<()> {
        let begin = writer.position();
        let boundary = if self.begins_set { TARGET_SET_BOUNDARY } else { 0 };
        writer.u16(version);
        writer.u16(entry_bytes(version)? as u16);
        writer.u16(u16::from(self.is_root));
        writer.u16(if version == 4 { boundary } else { 0 });
        if version == 2 {
            // Proximity.
            writer.u32(0);
        }
        writer.u32(self.time_to_live);
        let path = strings.offset(&self.path, begin)?;
        writer.u16(path);
        // Once more, as a path of 8.3 names. Ours has none.
        writer.u16(path);
        writer.u16(strings.offset(&self.target, begin)?);
        if version > 2 {
            // ServiceSiteGuid, which is 0.
            writer.zeros(16);
        }
        Ok(())
    }

    fn decode(version: u16, fields: &mut Reader, all: &Reader) -> Result<Self> {
        let is_root = fields.u16()? == 1;
        let flags = fields.u16()?;
        if version == 1 {
            let target = terminated(&fields.rest())?;
            return Ok(Self { is_root, target, ..Self::default() });
        }
        if version > 2 && flags & NAME_LIST != 0 {
            return Err(Malformed("referral: a list of names"));
        }
        if version == 2 {
            fields.skip(4)?;
        }
        let time_to_live = fields.u32()?;
        let path = fields.u16()?;
        fields.skip(2)?;
        let target = fields.u16()?;
        let text = |offset: u16| {
            let all = all.message();
            terminated(all.get(usize::from(offset)..).ok_or(Malformed("referral: offset"))?)
        };
        Ok(Self {
            is_root,
            begins_set: version == 4 && flags & TARGET_SET_BOUNDARY != 0,
            time_to_live,
            path: text(path)?,
            target: text(target)?,
        })
    }
}

#[cfg(test)]
#[path = "dfs_tests.rs"]
mod tests;
