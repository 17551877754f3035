//! A list as the bytes of Linux's `system.posix_acl_access` and `system.posix_acl_default`
//! (linux/posix_acl_xattr.h):
//!
//! ```text
//!   version u32 = 2, then for each entry: tag u16, bits u16, id u32, all little-endian
//! ```

use braid_types::{Failure, Status};

use crate::acl::{ACL_ENTRIES_MAX, AclList, NamedEntry};

const VERSION: u32 = 2;
const ENTRY_BYTES: usize = 8;
const NO_ID: u32 = u32::MAX;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// The bytes of a list. An id that Linux cannot represent is left out: no user there has it.
pub(crate) fn encode(list: &AclList) -> Vec<u8> {
    let mut out = VERSION.to_le_bytes().to_vec();
    let mut entry = |tag: u16, bits: u8, id: u32| {
        out.extend(tag.to_le_bytes());
        out.extend(u16::from(bits).to_le_bytes());
        out.extend(id.to_le_bytes());
    };
    let known = |named: &NamedEntry| {
        u32::try_from(named.id).ok().filter(|id| *id != NO_ID).map(|id| (named.bits, id))
    };
    entry(USER_OBJ, list.user, NO_ID);
    list.users.iter().filter_map(known).for_each(|(bits, id)| entry(USER, bits, id));
    entry(GROUP_OBJ, list.group, NO_ID);
    list.groups.iter().filter_map(known).for_each(|(bits, id)| entry(GROUP, bits, id));
    list.mask.into_iter().for_each(|bits| entry(MASK, bits, NO_ID));
    entry(OTHER, list.other, NO_ID);
    out
}

/// The list in some bytes. `None` for a list without entries, which removes the existing one.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<AclList>, Failure> {
    let invalid = || Failure::new(Status::Invalid, "not an access control list");
    let (version, entries) = bytes.split_first_chunk::<4>().ok_or_else(invalid)?;
    if u32::from_le_bytes(*version) != VERSION {
        // Linux: EOPNOTSUPP for an unknown version.
        return Err(Status::Unsupported.into());
    }
    if entries.is_empty() {
        return Ok(None);
    }
    if entries.len() % ENTRY_BYTES != 0 {
        return Err(invalid());
    }
    if entries.len() / ENTRY_BYTES > ACL_ENTRIES_MAX {
        return Err(Failure::new(
            Status::NoSpace,
            format!("an access control list has at most {ACL_ENTRIES_MAX} entries"),
        ));
    }
    read(entries).map(Some).ok_or_else(invalid)
}

/// Draft 17, 23.1.2: the three entries of the mode exactly once, each named entry once, and a mask
/// if there is a named entry. They come in the order of their tags, as Linux requires.
fn read(entries: &[u8]) -> Option<AclList> {
    let (mut user, mut group, mut other) = (None, None, None);
    let mut list = AclList::default();
    let mut last = 0;
    for entry in entries.chunks_exact(ENTRY_BYTES) {
        let half = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        let (tag, bits) = (half(0), u8::try_from(half(2)).ok().filter(|bits| *bits <= 7)?);
        let id = u32::from_le_bytes(entry[4..].try_into().ok()?);
        let named = || (id != NO_ID).then_some(NamedEntry { id: u64::from(id), bits });
        if tag < last {
            return None;
        }
        last = tag;
        match tag {
            USER => list.users.push(named()?),
            GROUP => list.groups.push(named()?),
            USER_OBJ => once(&mut user, bits)?,
            GROUP_OBJ => once(&mut group, bits)?,
            MASK => once(&mut list.mask, bits)?,
            OTHER => once(&mut other, bits)?,
            _ => return None,
        }
    }
    sort(&mut list.users)?;
    sort(&mut list.groups)?;
    let unmasked = list.mask.is_none() && !(list.users.is_empty() && list.groups.is_empty());
    if unmasked {
        None
    } else {
        Some(AclList { user: user?, group: group?, other: other?, ..list })
    }
}

fn once(slot: &mut Option<u8>, bits: u8) -> Option<()> {
    slot.replace(bits).is_none().then_some(())
}

fn sort(named: &mut [NamedEntry]) -> Option<()> {
    named.sort_unstable_by_key(|named| named.id);
    named.windows(2).all(|pair| pair[0].id != pair[1].id).then_some(())
}
