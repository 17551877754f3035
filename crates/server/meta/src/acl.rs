//! Access control lists. An inode has POSIX lists (IEEE 1003.1e draft 17, withdrawn, as in Linux's
//! acl(5)) or one NFSv4 list ([`braid_types::nfs4_acl`]), never both.
//!
//! POSIX lists:
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
//! 5. The nine permission bits of an inode with an NFSv4 list are those of the list's POSIX view,
//!    for the inode's owner and group. A change of the list, the owner or the group sets them:
//!    `put_nfs4`.

use std::sync::Arc;

use braid_types::nfs4_acl::{AclError, AclFormatError, Nfs4Acl, PosixView, ace_flag};
use braid_types::{Failure, Status};

use crate::identity::{Identity, Want};
use crate::record::{Inode, Principal};

/// Entries of one list. Linux's own file systems hold 500 to 5,000.
pub const ACL_ENTRIES_MAX: usize = 1024;

/// The extended attribute that shows the access list.
pub(crate) const ACCESS_NAME: &[u8] = b"system.posix_acl_access";
/// The extended attribute that shows the default list.
pub(crate) const DEFAULT_NAME: &[u8] = b"system.posix_acl_default";

/// The extended attribute that shows the NFSv4 list, as Linux's NFS client has it.
pub(crate) const NFS4_NAME: &[u8] = b"system.nfs4_acl";

/// The lists of an inode: one kind of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InodeAcl {
    /// POSIX lists.
    Posix(Acl),
    /// An NFSv4 list.
    Nfs4(Nfs4Acl),
}

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

/// The POSIX lists of an inode.
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
    pub(crate) fn non_empty(self) -> Option<Arc<InodeAcl>> {
        debug_assert!(self.is_sorted(), "4: ids ascend, each once");
        let has_any = self.access.is_some() || self.default.is_some();
        has_any.then(|| Arc::new(InodeAcl::Posix(self)))
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

/// One of an inode's POSIX lists, complete. An NFSv4 list is shown as the POSIX access list that
/// allows no more than it does.
pub(crate) fn list_of(inode: &Inode, which: AclKind) -> Option<AclList> {
    match (inode.acl.as_deref()?, which) {
        (InodeAcl::Posix(acl), AclKind::Access) => {
            acl.access.as_ref().map(|access| access.whole(inode.mode))
        }
        (InodeAcl::Posix(acl), AclKind::Default) => acl.default.clone(),
        (InodeAcl::Nfs4(list), AclKind::Access) => {
            let view = view_of(inode, list);
            view.names_anybody().then(|| list_of_view(view))
        }
        (InodeAcl::Nfs4(_), AclKind::Default) => None,
    }
}

/// Sets or removes a POSIX list. The mode follows the access list. If the list is removed, the mode
/// keeps its group bits as the mask left them, as on Linux. An NFSv4 list is replaced by the POSIX
/// access list that shows it; to remove a default list changes nothing then.
pub(crate) fn set(inode: &mut Inode, which: AclKind, list: Option<AclList>) {
    let mut acl = match inode.acl.as_deref() {
        Some(InodeAcl::Nfs4(_)) if which == AclKind::Default && list.is_none() => return,
        Some(InodeAcl::Nfs4(list)) => {
            let view = view_of(inode, list);
            if which == AclKind::Access {
                remove_nfs4(inode, &view);
                Acl::default()
            } else {
                let access = list_of_view(view.clone()).split().1;
                Acl { access: access.filter(|_| view.names_anybody()), default: None }
            }
        }
        Some(InodeAcl::Posix(acl)) => acl.clone(),
        None => Acl::default(),
    };
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

impl Inode {
    /// Its POSIX lists, if it has any.
    pub fn posix_acl(&self) -> Option<&Acl> {
        match self.acl.as_deref() {
            Some(InodeAcl::Posix(acl)) => Some(acl),
            _ => None,
        }
    }

    /// Its NFSv4 list, if it has one.
    pub fn nfs4_acl(&self) -> Option<&Nfs4Acl> {
        match self.acl.as_deref() {
            Some(InodeAcl::Nfs4(list)) => Some(list),
            _ => None,
        }
    }
}

fn view_of(inode: &Inode, list: &Nfs4Acl) -> PosixView {
    list.posix_view(inode.owner.id, inode.group.id, inode.is_directory())
}

fn list_of_view(view: PosixView) -> AclList {
    let named = |all: Vec<(u64, u8)>| {
        all.into_iter().map(|(id, bits)| NamedEntry { id, bits }).collect::<Vec<_>>()
    };
    AclList {
        user: view.owner,
        group: view.group,
        other: view.other,
        mask: Some(view.mask),
        users: named(view.users),
        groups: named(view.groups),
    }
}

/// Gives an inode an NFSv4 list, with the mode that it means. A list that equals the mode leaves no
/// list. Its owner, group and kind must be set.
pub(crate) fn put_nfs4(inode: &mut Inode, list: Nfs4Acl) {
    let mode = view_of(inode, &list).mode();
    inode.mode = inode.mode & 0o7000 | mode;
    let plain = Nfs4Acl::from_posix(&PosixView::of_mode(mode), inode.is_directory(), 0);
    inode.acl = (list.aces() != plain).then(|| Arc::new(InodeAcl::Nfs4(list)));
}

/// Sets the mode after a change of the owner or group.
pub(crate) fn follow_owner(inode: &mut Inode) {
    if let Some(list) = inode.nfs4_acl().cloned() {
        let mode = view_of(inode, &list).mode();
        inode.mode = inode.mode & 0o7000 | mode;
    }
}

/// Changes an NFSv4 list with the mode of its inode; nothing without one.
pub(crate) fn follow_mode(inode: &mut Inode) -> Result<(), Failure> {
    if let Some(list) = inode.nfs4_acl() {
        let changed = list.with_mode(inode.mode & 0o777, inode.is_directory());
        put_nfs4(inode, changed.map_err(refused)?);
    }
    Ok(())
}

/// Removes an NFSv4 list. The file's group keeps its own bits, not those of the mask.
fn remove_nfs4(inode: &mut Inode, view: &PosixView) {
    inode.mode = inode.mode & !0o070 | u16::from(view.group) << 3;
    inode.acl = None;
}

/// As `remove_nfs4`.
///
/// # Errors
/// [`Status::NoAttribute`] without a list.
pub(crate) fn take_nfs4(inode: &mut Inode) -> Result<(), Failure> {
    let view = view_of(inode, inode.nfs4_acl().ok_or(Status::NoAttribute)?);
    remove_nfs4(inode, &view);
    Ok(())
}

/// The NFSv4 list of an inode: its own, or what its POSIX lists or its mode mean. A default list is
/// shown as entries that apply to new files only.
pub(crate) fn nfs4_of(inode: &Inode) -> Result<Nfs4Acl, Failure> {
    if let Some(list) = inode.nfs4_acl() {
        return Ok(list.clone());
    }
    let is_directory = inode.is_directory();
    let access = list_of(inode, AclKind::Access);
    let access = access.map_or(PosixView::of_mode(inode.mode), view_of_list);
    let mut aces = Nfs4Acl::from_posix(&access, is_directory, 0);
    if let Some(default) = list_of(inode, AclKind::Default) {
        let flags = ace_flag::INHERITS | ace_flag::INHERIT_ONLY;
        aces.extend(Nfs4Acl::from_posix(&view_of_list(default), is_directory, flags));
    }
    Nfs4Acl::new(aces, is_directory).map_err(refused)
}

fn view_of_list(list: AclList) -> PosixView {
    let named = |all: Vec<NamedEntry>| all.into_iter().map(|it| (it.id, it.bits)).collect();
    PosixView {
        owner: list.user,
        group: list.group,
        other: list.other,
        mask: list.mask.unwrap_or(list.group),
        users: named(list.users),
        groups: named(list.groups),
    }
}

/// The list in the value of the extended attribute.
pub(crate) fn parse_nfs4(value: &[u8], is_directory: bool) -> Result<Nfs4Acl, Failure> {
    Nfs4Acl::from_xdr(value, is_directory).map_err(|error| match error {
        AclFormatError::Acl(error) => refused(error),
        AclFormatError::UnsupportedKind => {
            Failure::new(Status::Unsupported, "entries that audit are not supported")
        }
        AclFormatError::UnknownWho => {
            Failure::new(Status::Invalid, "an entry names an unknown user or group; try: its id")
        }
        _ => Failure::new(Status::Invalid, "not an access control list"),
    })
}

/// The failure for a list that cannot be stored.
pub(crate) fn refused(error: AclError) -> Failure {
    match error {
        AclError::TooLong => Failure::new(
            Status::NoSpace,
            format!("an access control list has at most {ACL_ENTRIES_MAX} entries"),
        ),
        _ => Failure::new(Status::Invalid, "a flag or permission of an entry is unknown"),
    }
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
