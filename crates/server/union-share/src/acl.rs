//! Access control lists. Local file systems have POSIX lists, which clients see as NFSv4 lists that
//! mean the same. They are set on the mount.
//!
//! The bytes of `system.posix_acl_access` (linux/posix_acl_xattr.h):
//!
//! ```text
//!   version u32 = 2, then for each entry: tag u16, bits u16, id u32, all little-endian
//! ```

use braid_share::{
    Attributes, FileKind, Status, acl_of_mode,
    nfs4_acl::{Nfs4Acl, PosixView},
    tables::Outcome,
};
use rustix::io::Errno;

use crate::{service::Service, status::status_of};

const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
const VERSION: u32 = 2;
const ENTRY_BYTES: usize = 8;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

impl Service {
    pub(crate) fn nfs4_acl(&self, known: &Attributes) -> Outcome<Nfs4Acl> {
        if known.kind == FileKind::Symlink {
            return Err(Status::Unsupported);
        }
        let node = self.files.node(known.file)?;
        let value = match self.union.xattr(node.node, ACCESS_LIST) {
            Ok(value) => value,
            Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(acl_of_mode(known)),
            Err(error) => return Err(status_of(error)),
        };
        let view = decode(&value).ok_or(Status::Corrupted)?;
        let is_directory = known.kind == FileKind::Directory;
        let entries = Nfs4Acl::from_posix(&view, is_directory, 0);
        Nfs4Acl::new(entries, is_directory).map_err(|_| Status::LimitExceeded)
    }
}

fn decode(bytes: &[u8]) -> Option<PosixView> {
    let (version, entries) = bytes.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != VERSION || entries.len() % ENTRY_BYTES != 0 {
        return None;
    }
    let (mut view, mut mask) = (PosixView::default(), None);
    for entry in entries.chunks_exact(ENTRY_BYTES) {
        let half = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        let (tag, bits) = (half(0), (half(2) & 7) as u8);
        let id = u64::from(u32::from_le_bytes(entry[4..].try_into().ok()?));
        match tag {
            USER_OBJ => view.owner = bits,
            USER => view.users.push((id, bits)),
            GROUP_OBJ => view.group = bits,
            GROUP => view.groups.push((id, bits)),
            MASK => mask = Some(bits),
            OTHER => view.other = bits,
            _ => return None,
        }
    }
    view.mask = mask.unwrap_or(view.group);
    Some(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_the_kernel_is_read() {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        let entries = [
            (USER_OBJ, 6_u16, u32::MAX),
            (USER, 4, 1000),
            (GROUP_OBJ, 7, u32::MAX),
            (MASK, 5, u32::MAX),
            (OTHER, 0, u32::MAX),
        ];
        for (tag, bits, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(bits.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        let view = decode(&bytes).unwrap();
        assert_eq!((view.owner, view.group, view.other, view.mask), (6, 7, 0, 5));
        assert_eq!(view.users, [(1000, 4)]);
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode(&[1, 0, 0, 0]), None);
    }
}
