//! What the entries of an NFSv4 list permit beyond the bits of POSIX: RFC 8881 6.2.1.3.
//!
//! A mount's kernel checks permissions itself, with the mode and the POSIX list that show an NFSv4
//! list. They allow no more than it does (`braid_types::nfs4_acl`, invariant 4), and writing a
//! directory means all of adding files, adding directories and removing entries. So a caller whose
//! permissions a kernel has checked passes here, as root does.
//!
//! The owner may always change the list, the mode and the times, as in POSIX: otherwise a wrong
//! list could be repaired by root only.

use braid_types::nfs4_acl::{Nfs4Acl, Who, ace_mask, mask_of_bits};
use braid_types::{Failure, Status};

use crate::identity::{Identity, Want, permit as permit_bits, permit_sticky};
use crate::record::{Inode, Principal};

/// Checks the bits 4, 2 and 1.
pub(crate) fn permit(
    who: &Identity,
    inode: &Inode,
    list: &Nfs4Acl,
    want: Want,
) -> Result<(), Failure> {
    if list.allows(mask_of_bits(want.0, inode.is_directory()), names(who, inode)) {
        Ok(())
    } else {
        Err(Status::PermissionDenied.into())
    }
}

/// Whether an entry names the caller.
fn names(who: &Identity, inode: &Inode) -> impl Fn(Who) -> bool {
    move |named| match named {
        Who::Owner => who.owns(inode),
        Who::OwningGroup => who.in_group(inode.group),
        Who::Everyone => true,
        Who::User(id) => who.uid == id,
        Who::Group(id) => who.in_group(Principal::posix(id)),
    }
}

/// Whether the NFSv4 list of an inode allows the caller all bits of a mask; without a list it
/// allows none.
pub(crate) fn is_allowed(who: &Identity, inode: &Inode, mask: u32) -> bool {
    inode.nfs4_acl().is_some_and(|list| list.allows(mask, names(who, inode)))
}

/// Whether the caller may add an entry to a directory. RFC 8881 6.2.1.3.1: ADD_FILE and
/// ADD_SUBDIRECTORY.
pub(crate) fn permit_add(
    who: &Identity,
    directory: &Inode,
    adds_directory: bool,
) -> Result<(), Failure> {
    if directory.nfs4_acl().is_none() || who.bypasses_permissions() {
        return permit_bits(who, directory, Want::CHANGE_ENTRIES);
    }
    let adds = if adds_directory { ace_mask::APPEND_DATA } else { ace_mask::WRITE_DATA };
    if is_allowed(who, directory, ace_mask::EXECUTE | adds) {
        Ok(())
    } else {
        Err(Status::PermissionDenied.into())
    }
}

/// Whether the caller may remove an entry of a directory. RFC 8881 6.2.1.3.2: DELETE on the file,
/// or DELETE_CHILD on the directory, is enough. The sticky bit limits the latter. The caller of
/// this function has checked that the directory may be searched.
pub(crate) fn permit_remove(
    who: &Identity,
    directory: &Inode,
    target: &Inode,
) -> Result<(), Failure> {
    if !who.bypasses_permissions() {
        if is_allowed(who, target, ace_mask::DELETE) {
            return Ok(());
        }
        if directory.nfs4_acl().is_some() {
            if !is_allowed(who, directory, ace_mask::DELETE_CHILD) {
                return Err(Status::PermissionDenied.into());
            }
            return permit_sticky(who, directory, target);
        }
    }
    permit_bits(who, directory, Want::CHANGE_ENTRIES)?;
    permit_sticky(who, directory, target)
}

/// Whether the caller may do what only the owner, root, and callers to whom the list allows `mask`
/// may do.
pub(crate) fn permit_owner_or(who: &Identity, inode: &Inode, mask: u32) -> Result<(), Failure> {
    if who.bypasses_permissions() || who.owns(inode) || is_allowed(who, inode, mask) {
        Ok(())
    } else {
        Err(Status::NotPermitted.into())
    }
}
