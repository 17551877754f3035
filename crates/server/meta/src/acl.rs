//! POSIX access control lists: IEEE 1003.1e draft 17 (withdrawn), as Linux's acl(5) has it.
//!
//! ```text
//!   user::rwx   user:7:rw-   group::r--   group:9:r--   mask::rw-   other::---
//!     │            │            │            │             │           │
//!   mode >> 6   users        group        groups        mode >> 3    mode
//! ```
//!
//! Invariants:
//! 1. What the mode says is not said again in the list: `chmod` changes the mask by changing the mode, and setting a list
//!    changes the mode with it (draft 17, 23.1.2 and 23.1.3).
//! 2. An inode has an access list only where that says more than the mode: one of three entries *is* the mode.
//! 3. Only a directory has a default list. It decides about what is made there, and the umask does not (23.1.4).
//! 4. Ids in a list are ascending, each once.

use braid_types::{Failure, Status};

use crate::identity::{Identity, Want};
use crate::record::{Inode, Principal};

/// Entries of one list. Linux's own file systems hold 500 to 5,000.
pub const ACL_ENTRIES_MAX: usize = 1024;

/// The name of the extended attribute that shows the access list.
pub(crate) const ACCESS_NAME: &[u8] = b"system.posix_acl_access";
/// The name of the extended attribute that shows the default list.
pub(crate) const DEFAULT_NAME: &[u8] = b"system.posix_acl_default";

/// What a named user or group may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named {
    /// User or group id.
    pub id: u64,
    /// The bits 4, 2 and 1.
    pub bits: u8,
}

/// The entries of an access list that the mode does not say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccessList {
    /// What the file's group may; the mode's group bits are the mask.
    pub group: u8,
    /// Named users.
    pub users: Vec<Named>,
    /// Named groups.
    pub groups: Vec<Named>,
}

/// A whole list, as a directory's default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct List {
    /// What the owner may.
    pub user: u8,
    /// What the group may.
    pub group: u8,
    /// What everybody else may.
    pub other: u8,
    /// What named users and all groups may at most; there is one where anybody is named.
    pub mask: Option<u8>,
    /// Named users.
    pub users: Vec<Named>,
    /// Named groups.
    pub groups: Vec<Named>,
}

/// The lists of an inode.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acl {
    /// Who may what.
    pub access: Option<AccessList>,
    /// Who may what with what is made in this directory.
    pub default: Option<List>,
}

/// Permission bits of something new, before anybody's default or umask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewMode {
    /// `0..=0o7777`.
    pub bits: u16,
    /// What its maker masks out, where the directory has no default list.
    pub umask: u16,
}

impl From<u16> for NewMode {
    /// The umask is applied already.
    fn from(bits: u16) -> Self {
        Self { bits, umask: 0 }
    }
}

impl Acl {
    /// As an inode keeps it: nothing instead of an empty one.
    pub(crate) fn kept(self) -> Option<std::sync::Arc<Self>> {
        (self.access.is_some() || self.default.is_some()).then(|| std::sync::Arc::new(self))
    }
}

impl AccessList {
    /// What a user may who is not the owner: draft 17, 23.1.5, steps 2 to 4. The first entry that names the user decides;
    /// else any of its groups that grants all; else, where it is in none of them, what everybody may.
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

    /// The whole list, with what the mode says.
    pub(crate) fn whole(&self, mode: u16) -> List {
        List {
            user: (mode >> 6 & 7) as u8,
            group: self.group,
            other: (mode & 7) as u8,
            mask: Some((mode >> 3 & 7) as u8),
            users: self.users.clone(),
            groups: self.groups.clone(),
        }
    }
}

impl List {
    /// Mode bits and the rest, as an inode keeps an access list. A list that the mode says whole leaves no rest.
    pub(crate) fn split(self) -> (u16, Option<AccessList>) {
        let Self { user, group, other, mask, users, groups } = self;
        let mode = u16::from(user) << 6 | u16::from(mask.unwrap_or(group)) << 3 | u16::from(other);
        (mode, mask.map(|_| AccessList { group, users, groups }))
    }

    /// The list of something that is made with these permission bits: draft 17, 23.1.4. Each class gets what both
    /// grant.
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
pub(crate) enum Which {
    Access,
    Default,
}

impl Which {
    /// The list that an extended attribute shows; `None` for the name of another.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        match name {
            ACCESS_NAME => Some(Self::Access),
            DEFAULT_NAME => Some(Self::Default),
            _ => None,
        }
    }
}

/// One of an inode's lists, whole.
pub(crate) fn list_of(inode: &Inode, which: Which) -> Option<List> {
    let acl = inode.acl.as_ref()?;
    match which {
        Which::Access => acl.access.as_ref().map(|access| access.whole(inode.mode)),
        Which::Default => acl.default.clone(),
    }
}

/// Sets or removes a list. The mode follows the access list; without one it stays, its group bits as the mask left them:
/// Linux does so too.
pub(crate) fn set(inode: &mut Inode, which: Which, list: Option<List>) {
    let mut acl = inode.acl.as_deref().cloned().unwrap_or_default();
    match which {
        Which::Default => acl.default = list,
        Which::Access => {
            acl.access = None;
            if let Some(list) = list {
                let (mode, access) = list.split();
                inode.mode = inode.mode & 0o7000 | mode;
                acl.access = access;
            }
        }
    }
    inode.acl = acl.kept();
}

/// Whether a kind of file may have a list.
pub(crate) fn check_kind(inode: &Inode, which: Which, removes: bool) -> Result<(), Failure> {
    match which {
        // Linux: a symbolic link has none, and no default list but a directory's.
        _ if inode.kind == crate::record::FileKind::Symlink => Err(Status::Unsupported.into()),
        Which::Default if !inode.is_directory() && !removes => Err(Status::PermissionDenied.into()),
        _ => Ok(()),
    }
}
