//! Permission bits: the first class that matches decides, as in POSIX, unless the file has an NFSv4
//! access control list.

use braid_types::{
    Status,
    nfs4_acl::{Who, mask_of_bits},
};

use super::inode::Inode;
use crate::Identity;

/// Execute a file, search a directory.
pub(super) const EXECUTE: u8 = 1;
/// Write a file.
pub(super) const WRITE: u8 = 2;
/// Read a file, list a directory.
pub(super) const READ: u8 = 4;
/// Change the entries of a directory.
pub(super) const CHANGE_ENTRIES: u8 = WRITE | EXECUTE;

/// Whether permissions are not checked for a user.
pub(super) fn is_privileged(who: &Identity) -> bool {
    who.uid == 0 || who.checked
}

/// Whether a user is in a group.
pub(super) fn in_group(who: &Identity, gid: u64) -> bool {
    who.gid == gid || who.groups.contains(&gid)
}

/// The bits that a user has.
pub(super) fn granted(who: &Identity, inode: &Inode) -> u8 {
    let shift = match () {
        // Root executes what anybody may execute, and searches every directory.
        () if is_privileged(who) => {
            let executes = inode.is_directory() || inode.mode & 0o111 != 0;
            return READ | WRITE | u8::from(executes);
        }
        () if inode.nfs4_acl.is_some() => return granted_by_list(who, inode),
        () if who.uid == inode.uid => 6,
        () if in_group(who, inode.gid) => 3,
        () => 0,
    };
    (inode.mode >> shift & 7) as u8
}

/// The bits that an NFSv4 list gives to a user.
fn granted_by_list(who: &Identity, inode: &Inode) -> u8 {
    let names = |named: Who| match named {
        Who::Owner => who.uid == inode.uid,
        Who::OwningGroup => in_group(who, inode.gid),
        Who::Everyone => true,
        Who::User(id) => who.uid == id,
        Who::Group(id) => in_group(who, id),
    };
    let allows = |bit: &u8| {
        let mask = mask_of_bits(*bit, inode.is_directory());
        inode.nfs4_acl.as_ref().is_some_and(|list| list.allows(mask, names))
    };
    [READ, WRITE, EXECUTE].into_iter().filter(allows).sum()
}

/// Fails with `PermissionDenied` unless a user has all wanted bits.
pub(super) fn permit(who: &Identity, inode: &Inode, want: u8) -> Result<(), Status> {
    if want & !granted(who, inode) == 0 { Ok(()) } else { Err(Status::PermissionDenied) }
}

/// In a sticky directory only root, the directory's owner and the file's owner may remove or rename
/// an entry. POSIX allows EPERM or EACCES; Linux returns EPERM.
pub(super) fn permit_sticky(
    who: &Identity,
    directory: &Inode,
    target: &Inode,
) -> Result<(), Status> {
    let free = directory.mode & 0o1000 == 0
        || is_privileged(who)
        || who.uid == directory.uid
        || who.uid == target.uid;
    if free { Ok(()) } else { Err(Status::NotPermitted) }
}

/// Fails with `NotPermitted` for everyone but root and the owner.
pub(super) fn owner_only(who: &Identity, inode: &Inode) -> Result<(), Status> {
    if is_privileged(who) || who.uid == inode.uid { Ok(()) } else { Err(Status::NotPermitted) }
}
