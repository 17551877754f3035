//! Access control lists in an inode's record: tag 1, POSIX; tag 2, NFSv4.

use braid_types::nfs4_acl::{ACES_MAX, Ace, AceKind, Nfs4Acl, Who};

use crate::acl::{ACL_ENTRIES_MAX, AccessList, Acl, AclList, InodeAcl, NamedEntry};
use crate::codec::{Decoder, Encoder};

use super::RecordError;

/// The tag of an inode without lists.
pub(super) const TAG_NONE: u8 = 0;
/// The tag of POSIX lists (IEEE 1003.1e draft 17).
pub(super) const TAG_POSIX: u8 = 1;
/// The tag of an NFSv4 list (RFC 8881 6).
pub(super) const TAG_NFS4: u8 = 2;

const HAS_ACCESS: u8 = 1;
const HAS_DEFAULT: u8 = 2;
/// Stands for the mask of a list that has none.
const NO_MASK: u8 = 8;

/// The tag of some lists.
pub(super) fn tag(acl: Option<&InodeAcl>) -> u8 {
    match acl {
        None => TAG_NONE,
        Some(InodeAcl::Posix(_)) => TAG_POSIX,
        Some(InodeAcl::Nfs4(_)) => TAG_NFS4,
    }
}

pub(super) fn encode(out: &mut Encoder, acl: &InodeAcl) {
    match acl {
        InodeAcl::Posix(acl) => encode_posix(out, acl),
        InodeAcl::Nfs4(list) => encode_nfs4(out, list),
    }
}

/// The lists that a tag, which is known, announces.
pub(super) fn decode(
    from: &mut Decoder<'_>,
    tag: u8,
    is_directory: bool,
) -> Result<Option<InodeAcl>, RecordError> {
    match tag {
        TAG_NONE => Ok(None),
        TAG_POSIX => decode_posix(from).map(|acl| Some(InodeAcl::Posix(acl))),
        TAG_NFS4 => decode_nfs4(from, is_directory).map(|list| Some(InodeAcl::Nfs4(list))),
        _ => Err(from.broken()),
    }
}

/// A byte for flags of the list (`aclflag4`, RFC 8881 6.4.2), none of which is defined yet; then
/// the entries.
fn encode_nfs4(out: &mut Encoder, list: &Nfs4Acl) {
    out.u8(0).u16(list.aces().len() as u16);
    for ace in list.aces() {
        let (who, id) = match ace.who {
            Who::Owner => (0, None),
            Who::OwningGroup => (1, None),
            Who::Everyone => (2, None),
            Who::User(id) => (3, Some(id)),
            Who::Group(id) => (4, Some(id)),
        };
        out.u8(u8::from(ace.kind == AceKind::Deny)).u8(ace.flags).u32(ace.mask).u8(who);
        if let Some(id) = id {
            out.u64(id);
        }
    }
}

fn decode_nfs4(from: &mut Decoder<'_>, is_directory: bool) -> Result<Nfs4Acl, RecordError> {
    let (flags, count) = (from.u8()?, usize::from(from.u16()?));
    if flags != 0 || count > ACES_MAX {
        return Err(from.broken());
    }
    let mut aces = Vec::with_capacity(count);
    for _ in 0..count {
        let kind = match from.u8()? {
            0 => AceKind::Allow,
            1 => AceKind::Deny,
            _ => return Err(from.broken()),
        };
        let (flags, mask) = (from.u8()?, from.u32()?);
        let who = match from.u8()? {
            0 => Who::Owner,
            1 => Who::OwningGroup,
            2 => Who::Everyone,
            3 => Who::User(from.u64()?),
            4 => Who::Group(from.u64()?),
            _ => return Err(from.broken()),
        };
        aces.push(Ace { kind, flags, mask, who });
    }
    match Nfs4Acl::new(aces.clone(), is_directory) {
        Ok(list) if list.aces() == aces => Ok(list),
        _ => Err(from.broken()),
    }
}

fn encode_posix(out: &mut Encoder, acl: &Acl) {
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

fn decode_posix(from: &mut Decoder<'_>) -> Result<Acl, RecordError> {
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
