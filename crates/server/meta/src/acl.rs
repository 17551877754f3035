//! POSIX access control lists: IEEE 1003.1e draft 17 (withdrawn), as in Linux's acl(5).
//!
//! ```text
//!   user::rwx   user:7:rw-   group::r--   group:9:r--   mask::rw-   other::---
//!     │            │            │            │             │           │
//!   mode >> 6   users        group        groups        mode >> 3    mode
//! ```
//!
//! Invariants:
//! 1. The list does not repeat what the mode contains: `chmod` changes the mask by changing the
//!    mode, and setting a list changes the mode with it (draft 17, 23.1.2 and 23.1.3). The types
//!    enforce it.
//! 2. An inode has an access list only if that says more than the mode: a list of three entries
//!    *is* the mode. `split` returns none for such a list.
//! 3. Only a directory has a default list. It replaces the umask for files created there (23.1.4).
//!    `check_kind` refuses it elsewhere.
//! 4. Ids in a list ascend, each once. `non_empty` asserts it before the write; the decoder of the
//!    record checks it after the read.

use braid_types::{Failure, Status};

use crate::identity::{Identity, Want};
use crate::record::{Inode, Principal};

/// Entries of one list. Linux's own file systems hold 500 to 5,000.
pub const ACL_ENTRIES_MAX: usize = 1024;

/// The extended attribute that shows the access list.
pub(crate) const ACCESS_NAME: &[u8] = b"system.posix_acl_access";
/// The extended attribute that shows the default list.
pub(crate) const DEFAULT_NAME: &[u8] = b"system.posix_acl_default";

/// The rights of a named user or group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedEntry {
    /// User or group id.
    pub id: u64,
    /// The bits 4, 2 and 1.
    pub bits: u8,
}

/// The entries of an access list that the mode does not contain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccessList {
    /// Rights of the file's group; the mode's group bits are the mask.
    pub group: u8,
    /// Named users.
    pub users: Vec<NamedEntry>,
    /// Named groups.
    pub groups: Vec<NamedEntry>,
}

/// A complete list, as a directory's default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AclList {
    /// Rights of the owner.
    pub user: u8,
    /// Rights of the group.
    pub group: u8,
    /// Rights of all others.
    pub other: u8,
    /// The upper bound for named users and all groups; present if anybody is named.
    pub mask: Option<u8>,
    /// Named users.
    pub users: Vec<NamedEntry>,
    /// Named groups.
    pub groups: Vec<NamedEntry>,
}

/// The lists of an inode.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acl {
    /// The access list.
    pub access: Option<AccessList>,
    /// The default list, for files and directories created in this directory.
    pub default: Option<AclList>,
}

/// Permission bits of a new file, before a default list or the umask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewMode {
    /// `0..=0o7777`.
    pub bits: u16,
    /// Bits that the caller masks out, if the directory has no default list.
    pub umask: u16,
}

impl From<u16> for NewMode {
    /// The umask is applied already.
    fn from(bits: u16) -> Self {
        Self { bits, umask: 0 }
    }
}

impl Acl {
    /// As an inode stores it: nothing instead of an empty one.
    pub(crate) fn non_empty(self) -> Option<std::sync::Arc<Self>> {
        debug_assert!(self.is_sorted(), "4: ids ascend, each once");
        (self.access.is_some() || self.default.is_some()).then(|| std::sync::Arc::new(self))
    }

    fn is_sorted(&self) -> bool {
        let access = self.access.iter().flat_map(|list| [&list.users, &list.groups]);
        let default = self.default.iter().flat_map(|list| [&list.users, &list.groups]);
        access.chain(default).all(|named| named.windows(2).all(|pair| pair[0].id < pair[1].id))
    }
}

impl AccessList {
    /// The rights of a user that is not the owner: draft 17, 23.1.5, steps 2 to 4. The first entry
    /// that names the user decides. Otherwise any of its groups that grants everything decides; and
    /// if it is in none of them, the rights of all others.
    pub(crate) fn permits(&self, who: &Identity, inode: &Inode, want: Want) -> bool {
        let mask = (inode.mode >> 3 & 7) as u8;
        let grants = |bits: u8| want.0 & !bits == 0;
        if let Ok(at) = self.users.binary_search_by_key(&who.uid, |named| named.id) {
            return grants(self.users[at].bits & mask);
        }
        let own = who.in_group(inode.group).then_some(self.group);
        let named = self
            .groups
            .iter()
            .filter(|named| who.in_group(Principal::posix(named.id)))
            .map(|named| named.bits);
        let mut groups = own.into_iter().chain(named).peekable();
        if groups.peek().is_some() {
            return groups.any(|bits| grants(bits & mask));
        }
        grants((inode.mode & 7) as u8)
    }

    /// The complete list, with the entries from the mode.
    pub(crate) fn whole(&self, mode: u16) -> AclList {
        AclList {
            user: (mode >> 6 & 7) as u8,
            group: self.group,
            other: (mode & 7) as u8,
            mask: Some((mode >> 3 & 7) as u8),
            users: self.users.clone(),
            groups: self.groups.clone(),
        }
    }
}

impl AclList {
    /// Mode bits, and the rest as an inode stores it. A list that equals the mode leaves no rest.
    pub(crate) fn split(self) -> (u16, Option<AccessList>) {
        let Self { user, group, other, mask, users, groups } = self;
        let mode = u16::from(user) << 6 | u16::from(mask.unwrap_or(group)) << 3 | u16::from(other);
        (mode, mask.map(|_| AccessList { group, users, groups }))
    }

    /// The list of a file created with these permission bits: draft 17, 23.1.4. Each class gets
    /// what both grant.
    pub(crate) fn inherited(&self, mode: u16) -> Self {
        let (user, group, other) = ((mode >> 6) as u8, (mode >> 3) as u8, mode as u8);
        let mut new = self.clone();
        new.user &= user;
        new.other &= other;
        match &mut new.mask {
            Some(mask) => *mask &= group,
            None => new.group &= group,
        }
        new
    }
}

/// The two lists of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AclKind {
    Access,
    Default,
}

impl AclKind {
    /// The list that an extended attribute shows; `None` for another attribute.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        match name {
            ACCESS_NAME => Some(Self::Access),
            DEFAULT_NAME => Some(Self::Default),
            _ => None,
        }
    }
}

/// One of an inode's lists, complete.
pub(crate) fn list_of(inode: &Inode, which: AclKind) -> Option<AclList> {
    let acl = inode.acl.as_ref()?;
    match which {
        AclKind::Access => acl.access.as_ref().map(|access| access.whole(inode.mode)),
        AclKind::Default => acl.default.clone(),
    }
}

/// Sets or removes a list. The mode follows the access list. If the list is removed, the mode keeps
/// its group bits as the mask left them, as on Linux.
pub(crate) fn set(inode: &mut Inode, which: AclKind, list: Option<AclList>) {
    let mut acl = inode.acl.as_deref().cloned().unwrap_or_default();
    match which {
        AclKind::Default => acl.default = list,
        AclKind::Access => {
            acl.access = None;
            if let Some(list) = list {
                let (mode, access) = list.split();
                inode.mode = inode.mode & 0o7000 | mode;
                acl.access = access;
            }
        }
    }
    inode.acl = acl.non_empty();
}

/// Whether a kind of file may have a list.
pub(crate) fn check_kind(inode: &Inode, which: AclKind, removes: bool) -> Result<(), Failure> {
    match which {
        // Linux: a symbolic link has no list, and only a directory has a default list.
        _ if inode.kind == crate::record::FileKind::Symlink => Err(Status::Unsupported.into()),
        AclKind::Default if !inode.is_directory() && !removes => {
            Err(Status::PermissionDenied.into())
        }
        _ => Ok(()),
    }
}
