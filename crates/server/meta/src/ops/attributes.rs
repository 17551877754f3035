//! Change attributes. The size is not among them: a truncate is an intent (`intent.rs`).

use std::sync::Arc;

use braid_types::dos_attributes;
use braid_types::nfs4_acl::ace_mask;
use braid_types::{Failure, FileIndex, Status, Timestamp};

use crate::acl;
use crate::identity::{Call, Identity, Want, permit};
use crate::key;
use crate::namespace::Namespace;
use crate::nfs4_permissions::{is_allowed, permit_owner_or};
use crate::record::{FileKind, Inode, Outcome, Principal};
use crate::tx::{Op, Tx};

/// A time to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// The server's clock; the right to write the file is enough.
    Now,
    /// This time; only the owner may set it.
    To(Timestamp),
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AttributeChanges {
    /// Permission bits, `0..=0o7777`.
    pub mode: Option<u16>,
    /// Owner.
    pub owner: Option<Principal>,
    /// Group.
    pub group: Option<Principal>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last write.
    pub mtime: Option<SetTime>,
    /// Creation.
    pub btime: Option<Timestamp>,
    /// The NFSv4 access control list, as the extended attribute `system.nfs4_acl` has it. It is set
    /// after the mode, and decides the mode's permission bits (RFC 8881 6.4.1.3).
    pub nfs4_acl: Option<Vec<u8>>,
    /// Attribute flags: those of [`dos_attributes`].
    pub flags: Option<u32>,
    /// Clears setuid, setgid if the group may execute, and file capabilities: a caller that may not
    /// keep them is about to write.
    pub drop_set_ids: bool,
    /// Clears file capabilities: a caller is about to write.
    pub drop_capabilities: bool,
}

impl AttributeChanges {
    /// Whether it only clears privileges.
    fn only_drops(&self) -> bool {
        let Self { drop_set_ids, drop_capabilities, .. } = *self;
        *self == Self { drop_set_ids, drop_capabilities, ..Self::default() }
    }
}

/// The attribute in which Linux stores the capabilities of a program, capabilities(7). A write, a
/// truncate and a change of the owner remove it, for every caller.
pub const CAPABILITY_XATTR: &[u8] = b"security.capability";

impl Namespace {
    /// Changes attributes, all or none.
    pub fn setattr(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        changes: &AttributeChanges,
    ) -> Result<Arc<Inode>, Failure> {
        let outcome = self.change(call, Op::SetAttributes, file, |tx| {
            let old = tx.inode(file)?;
            let mut new = (*old).clone();
            apply(call, &old, &mut new, changes)?;
            let drops = changes.drop_set_ids || changes.drop_capabilities;
            let gives_away = changes.owner.is_some() || changes.group.is_some();
            let dropped = (drops || gives_away) && self.drop_capabilities(tx, &mut new)?;
            if drops && new.mode == old.mode && !dropped && changes.only_drops() {
                // There was nothing to clear.
                return Ok(Outcome::File(old));
            }
            new.touch(tx.now);
            Ok(Outcome::File(tx.put_inode(new)))
        })?;
        outcome.inode().ok_or_else(|| Status::Internal.into())
    }

    /// Whether a write may clear setuid, setgid or file capabilities. If they cannot be read, they
    /// count as present.
    pub fn has_privileges(&self, inode: &Inode) -> bool {
        inode.has_set_ids()
            || inode.has_xattrs
                && self
                    .store
                    .get(&key::xattr(inode.file, CAPABILITY_XATTR))
                    .map_or(true, |it| it.is_some())
    }

    /// Removes the capabilities of a file. Returns whether there were any.
    pub(super) fn drop_capabilities(
        &self,
        tx: &mut Tx<'_>,
        inode: &mut Inode,
    ) -> Result<bool, Failure> {
        let key = key::xattr(inode.file, CAPABILITY_XATTR);
        if !inode.has_xattrs || tx.get(&key)?.is_none() {
            return Ok(false);
        }
        tx.batch.remove(key);
        inode.has_xattrs = self.xattr_names(inode.file)?.len() > 1;
        Ok(true)
    }
}

/// Applies all changes, with the permission check of each.
pub(super) fn apply(
    call: &Call<'_>,
    old: &Inode,
    new: &mut Inode,
    changes: &AttributeChanges,
) -> Result<(), Failure> {
    apply_owner(call.who, old, new, changes)?;
    apply_mode(call.who, old, new, changes)?;
    if let Some(list) = &changes.nfs4_acl {
        apply_nfs4_acl(call.who, old, new, Some(list))?;
    }
    apply_times(call, old, new, changes)?;
    let may_have = new.has_set_ids() || new.has_xattrs;
    if (changes.drop_set_ids || changes.drop_capabilities) && may_have && !call.who.owns(old) {
        permit(call.who, old, Want::WRITE)?;
    }
    if changes.drop_set_ids && new.has_set_ids() {
        clear_set_ids(new);
    }
    if let Some(flags) = changes.flags {
        apply_flags(call.who, old, new, flags)?;
    }
    Ok(())
}

/// The lower half of the stored flags are those that clients set. A user that may write the file
/// may set them, as with Samba's `store dos attributes`.
fn apply_flags(who: &Identity, old: &Inode, new: &mut Inode, flags: u32) -> Result<(), Failure> {
    if !dos_attributes::are_valid(flags) {
        // A flag of a newer version (I10).
        return Err(Failure::new(Status::Unsupported, "an attribute flag that is not known"));
    }
    if permit_owner_or(who, old, ace_mask::WRITE_ATTRIBUTES).is_err() {
        permit(who, old, Want::WRITE)?;
    }
    new.flags = old.flags & !u64::from(u32::MAX) | u64::from(flags);
    Ok(())
}

pub(super) fn owner_only(who: &Identity, inode: &Inode) -> Result<(), Failure> {
    if who.bypasses_permissions() || who.owns(inode) {
        Ok(())
    } else {
        Err(Status::NotPermitted.into())
    }
}

/// POSIX chown(): only root may change the owner; the owner may change the group to one of its own
/// groups. A caller to whom an NFSv4 list allows WRITE_OWNER may do the same, and may become the
/// owner.
fn apply_owner(
    who: &Identity,
    old: &Inode,
    new: &mut Inode,
    changes: &AttributeChanges,
) -> Result<(), Failure> {
    if changes.owner.is_none() && changes.group.is_none() {
        return Ok(());
    }
    let takes =
        |owner| owner == Principal::posix(who.uid) && is_allowed(who, old, ace_mask::WRITE_OWNER);
    if changes.owner.is_some_and(|owner| owner != old.owner && !takes(owner))
        && !who.bypasses_permissions()
    {
        return Err(Status::NotPermitted.into());
    }
    permit_owner_or(who, old, ace_mask::WRITE_OWNER)?;
    if let Some(group) = changes.group
        && group != old.group
        && !who.bypasses_permissions()
        && !who.in_group(group)
    {
        return Err(Status::NotPermitted.into());
    }
    new.owner = changes.owner.unwrap_or(old.owner);
    new.group = changes.group.unwrap_or(old.group);
    acl::follow_owner(new);
    if !old.is_directory() {
        clear_set_ids(new);
    }
    Ok(())
}

/// Clears suid, and sgid if the group may execute (otherwise it means mandatory locking).
pub(super) fn clear_set_ids(inode: &mut Inode) {
    inode.mode &= !0o4000;
    if inode.mode & 0o010 != 0 {
        inode.mode &= !0o2000;
    }
}

impl Inode {
    /// Whether a write by an unprivileged caller clears bits of the mode.
    pub fn has_set_ids(&self) -> bool {
        let runs_as_group = self.mode & 0o2010 == 0o2010;
        !self.is_directory() && (self.mode & 0o4000 != 0 || runs_as_group)
    }
}

fn apply_mode(
    who: &Identity,
    old: &Inode,
    new: &mut Inode,
    changes: &AttributeChanges,
) -> Result<(), Failure> {
    let Some(mode) = changes.mode else { return Ok(()) };
    if mode > 0o7777 {
        return Err(Status::Invalid.into());
    }
    permit_owner_or(who, old, ace_mask::WRITE_ACL)?;
    new.mode = mode;
    if !who.bypasses_permissions() && !who.owns(old) {
        // WRITE_ACL is about permissions: another user does not make a program run as its owner.
        new.mode &= 0o777 | old.mode;
    }
    // POSIX chmod(): a caller outside the file's group may not set sgid.
    if !who.bypasses_permissions() && !who.in_group(new.group) {
        new.mode &= !0o2000;
    }
    acl::follow_mode(new)
}

/// Sets or removes the NFSv4 list. It replaces POSIX lists. The owner may, root, and every caller
/// that the present list allows WRITE_ACL.
pub(super) fn apply_nfs4_acl(
    who: &Identity,
    old: &Inode,
    new: &mut Inode,
    value: Option<&[u8]>,
) -> Result<(), Failure> {
    if old.kind == FileKind::Symlink {
        return Err(Status::Unsupported.into());
    }
    if who.permissions_checked {
        // The kernel of a mount does not check who sets a `system.` attribute that it does not
        // know. A mount sends the user, and root as a caller that is not checked; one that sends
        // all attributes as root does not know this attribute.
        if who.is_root() || !who.owns(old) {
            return Err(Status::NotPermitted.into());
        }
    } else {
        permit_owner_or(who, old, ace_mask::WRITE_ACL)?;
    }
    match value {
        Some(value) => acl::put_nfs4(new, acl::parse_nfs4(value, new.is_directory())?),
        None => acl::take_nfs4(new)?,
    }
    if !who.is_root() && !who.in_group(new.group) {
        new.mode &= !0o2000;
    }
    Ok(())
}

/// POSIX utimensat(): setting both times to now requires ownership or write permission. Anything
/// else, also now for only one, requires ownership. WRITE_ATTRIBUTES of an NFSv4 list is enough,
/// too.
fn apply_times(
    call: &Call<'_>,
    old: &Inode,
    new: &mut Inode,
    changes: &AttributeChanges,
) -> Result<(), Failure> {
    let (atime, mtime, btime) = (changes.atime, changes.mtime, changes.btime);
    if atime.is_none() && mtime.is_none() && btime.is_none() {
        return Ok(());
    }
    let now = Some(SetTime::Now);
    let both_now = (atime, mtime, btime) == (now, now, None);
    match permit_owner_or(call.who, old, ace_mask::WRITE_ATTRIBUTES) {
        Err(_) if both_now => permit(call.who, old, Want::WRITE)?,
        refused => refused?,
    }
    let value = |time: SetTime| match time {
        SetTime::Now => Ok(call.now),
        SetTime::To(time) if time.nanos < 1_000_000_000 => Ok(time),
        SetTime::To(_) => Err(Failure::from(Status::Invalid)),
    };
    new.atime = atime.map_or(Ok(old.atime), value)?;
    new.mtime = mtime.map_or(Ok(old.mtime), value)?;
    new.btime = btime.map_or(Ok(old.btime), |time| value(SetTime::To(time)))?;
    new.mtime_set |= mtime.is_some() && old.size_in_objects;
    Ok(())
}
