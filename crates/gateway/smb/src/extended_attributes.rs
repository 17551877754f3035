//! Extended attributes of SMB: those of the file system whose names begin with `user.`.
//!
//! Their names have no case for clients (MS-FSCC 2.4.16): a name that is there in other letters is
//! the same one, and keeps its letters.

use braid_share::{Attributes, FileIndex, Identity, ShareClient, XattrMode};
use braid_smb_wire::NtStatus;
use braid_smb_wire::fscc::{ExtendedAttribute, ea_list_bytes};
use bytes::Bytes;

use crate::status::failed;

/// What names in the file system begin with.
const PREFIX: &[u8] = b"user.";
/// Names behind the prefix that Samba uses for itself, which may have served the same directory.
const RESERVED: [&[u8]; 2] = [b"DOSATTRIB", b"DosStream."];
/// Bytes of a name behind the prefix: those that a file system has, without the prefix.
const NAME_BYTES_MAX: usize = 250;
/// Bytes of a value that a list can have.
const VALUE_BYTES_MAX: usize = u16::MAX as usize;

/// All extended attributes of a file.
///
/// # Errors
/// Those of the share.
pub async fn list<C: ShareClient>(
    client: &C,
    who: &Identity,
    known: &Attributes,
) -> Result<Vec<ExtendedAttribute>, NtStatus> {
    if !known.has_xattrs {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for name in names(client, who, known.file).await? {
        let value = client.xattr(who, known.file, &with_prefix(&name)).await;
        match value.map_err(failed) {
            Ok(value) if value.len() <= VALUE_BYTES_MAX => {
                all.push(ExtendedAttribute { flags: 0, name: name.into(), value: value.into() });
            }
            // Removed meanwhile, or too long for a list.
            Ok(_) | Err(NtStatus::NONEXISTENT_EA_ENTRY) => {}
            Err(status) => return Err(status),
        }
    }
    Ok(all)
}

/// Of `all`, those with these names, in their order; one that is not there has an empty value
/// (MS-FSA 2.1.5.12.10).
pub fn with_names(all: &[ExtendedAttribute], names: &[Bytes]) -> Vec<ExtendedAttribute> {
    let find = |name: &Bytes| all.iter().find(|one| one.name.eq_ignore_ascii_case(name));
    let one = |name: &Bytes| {
        let missing = || ExtendedAttribute { name: name.clone(), ..ExtendedAttribute::default() };
        find(name).cloned().unwrap_or_else(missing)
    };
    names.iter().map(one).collect()
}

/// Bytes of all, as FileEaInformation counts them.
pub fn bytes_of(all: &[ExtendedAttribute]) -> u32 {
    ea_list_bytes(all.iter().map(|one| (one.name.len(), one.value.len())))
}

/// Sets extended attributes, one after the other. An empty value removes one.
///
/// # Errors
/// `OBJECT_NAME_INVALID` for a name that cannot be one, before anything is set; and those of the
/// share.
pub async fn set<C: ShareClient>(
    client: &C,
    who: &Identity,
    file: FileIndex,
    changes: &[ExtendedAttribute],
) -> Result<(), NtStatus> {
    if !changes.iter().all(|change| is_name(&change.name)) {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    let known = names(client, who, file).await?;
    for change in changes {
        let found = known.iter().find(|name| name.eq_ignore_ascii_case(&change.name));
        let name = with_prefix(found.map_or(&change.name[..], |name| name));
        if !change.value.is_empty() {
            let set = client.set_xattr(who, file, &name, &change.value, XattrMode::Either).await;
            set.map_err(failed)?;
        } else if found.is_some() {
            match client.remove_xattr(who, file, &name).await.map_err(failed) {
                Ok(()) | Err(NtStatus::NONEXISTENT_EA_ENTRY) => {}
                Err(status) => return Err(status),
            }
        }
    }
    Ok(())
}

/// Names without their prefix.
async fn names<C: ShareClient>(
    client: &C,
    who: &Identity,
    file: FileIndex,
) -> Result<Vec<Vec<u8>>, NtStatus> {
    let all = client.xattrs(who, file).await.map_err(failed)?;
    let names = all.iter().filter_map(|name| name.strip_prefix(PREFIX));
    Ok(names.filter(|name| is_name(name)).map(<[u8]>::to_vec).collect())
}

fn with_prefix(name: &[u8]) -> Vec<u8> {
    [PREFIX, name].concat()
}

/// Whether clients can see and set an attribute with this name. MS-FSCC 2.4.16, EaName.
fn is_name(name: &[u8]) -> bool {
    let is_bad = |byte: &u8| *byte < b' ' || *byte > b'~' || b"\"*+,/:;<=>?[\\]|".contains(byte);
    let reserved = |start: &&[u8]| {
        name.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
    };
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.iter().any(is_bad)
        && !RESERVED.iter().any(reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_samba_uses_for_itself_are_hidden() {
        for name in [&b"comment"[..], b"a.b", b"Dos"] {
            assert!(is_name(name));
        }
        for name in [&b""[..], b"DOSATTRIB", b"dosstream.x:$DATA", b"a:b", b"\xff", &[b'a'; 251]] {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn a_name_that_is_not_there_has_an_empty_value() {
        let one = |name: &'static str, value: &'static str| ExtendedAttribute {
            flags: 0,
            name: Bytes::from_static(name.as_bytes()),
            value: Bytes::from_static(value.as_bytes()),
        };
        let names = [Bytes::from_static(b"B"), Bytes::from_static(b"A")];
        let found = with_names(&[one("a", "1")], &names);
        assert_eq!(found, [one("B", ""), one("a", "1")]);
        assert_eq!(bytes_of(&[one("a", "1")]), 4 + 7);
    }
}
