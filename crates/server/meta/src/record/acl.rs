//! Access control lists in an inode's record: tag 1, POSIX.

use crate::acl::{ACL_ENTRIES_MAX, AccessList, Acl, AclList, NamedEntry};
use crate::codec::{Decoder, Encoder};

use super::RecordError;

/// The tag of an inode without lists.
pub(super) const TAG_NONE: u8 = 0;
/// The tag of POSIX lists (IEEE 1003.1e draft 17).
pub(super) const TAG_POSIX: u8 = 1;

const HAS_ACCESS: u8 = 1;
const HAS_DEFAULT: u8 = 2;
/// Stands for the mask of a list that has none.
const NO_MASK: u8 = 8;

pub(super) fn encode(out: &mut Encoder, acl: &Acl) {
    let mark = |is: bool, mark: u8| if is { mark } else { 0 };
    out.u8(mark(acl.access.is_some(), HAS_ACCESS) | mark(acl.default.is_some(), HAS_DEFAULT));
    if let Some(AccessList { group, users, groups }) = &acl.access {
        out.u8(*group);
        named(out, users);
        named(out, groups);
    }
    if let Some(AclList { user, group, other, mask, users, groups }) = &acl.default {
        out.u8(*user).u8(*group).u8(*other).u8(mask.unwrap_or(NO_MASK));
        named(out, users);
        named(out, groups);
    }
}

fn named(out: &mut Encoder, all: &[NamedEntry]) {
    out.u16(all.len() as u16);
    all.iter().for_each(|named| {
        out.u64(named.id).u8(named.bits);
    });
}

pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Acl, RecordError> {
    let marks = from.u8()?;
    if marks == 0 || marks & !(HAS_ACCESS | HAS_DEFAULT) != 0 {
        return Err(from.broken());
    }
    let mut acl = Acl::default();
    if marks & HAS_ACCESS != 0 {
        acl.access = Some(AccessList {
            group: bits(from)?,
            users: read_named(from)?,
            groups: read_named(from)?,
        });
    }
    if marks & HAS_DEFAULT != 0 {
        let (user, group, other) = (bits(from)?, bits(from)?, bits(from)?);
        let mask = match from.u8()? {
            NO_MASK => None,
            mask if mask <= 7 => Some(mask),
            _ => return Err(from.broken()),
        };
        let (users, groups) = (read_named(from)?, read_named(from)?);
        acl.default = Some(AclList { user, group, other, mask, users, groups });
    }
    Ok(acl)
}

fn bits(from: &mut Decoder<'_>) -> Result<u8, RecordError> {
    match from.u8()? {
        bits if bits <= 7 => Ok(bits),
        _ => Err(from.broken()),
    }
}

fn read_named(from: &mut Decoder<'_>) -> Result<Vec<NamedEntry>, RecordError> {
    let count = usize::from(from.u16()?);
    if count > ACL_ENTRIES_MAX {
        return Err(from.broken());
    }
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(NamedEntry { id: from.u64()?, bits: bits(from)? });
    }
    if all.windows(2).all(|pair| pair[0].id < pair[1].id) { Ok(all) } else { Err(from.broken()) }
}
