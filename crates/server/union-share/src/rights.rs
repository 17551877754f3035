//! What a user may do. The kernel decides about reading, writing and searching, with POSIX ACLs
//! (`Union::permits`). The rules that depend on the owner are compared here, as Linux has them.

use braid_share::{Identity, Status, tables::Outcome};
use braid_union::{Access, Attributes, Caller, NodeId, User};

use crate::{service::Service, status::OrStatus};

/// Search a directory.
pub(crate) const SEARCH: Access = Access::EXEC_OK;
/// Change the names of a directory.
pub(crate) const CHANGE_NAMES: Access = Access::WRITE_OK.union(Access::EXEC_OK);

const STICKY: u32 = 0o1000;
const SET_GROUP_ID: u32 = 0o2000;

/// Whether permissions are not checked for a user.
pub(crate) fn is_privileged(who: &Identity) -> bool {
    who.uid == 0 || who.checked
}

pub(crate) fn in_group(who: &Identity, gid: u32) -> bool {
    who.gid == u64::from(gid) || who.groups.contains(&u64::from(gid))
}

/// Fails for everyone but root and the owner.
pub(crate) fn owner_only(who: &Identity, attributes: &Attributes) -> Outcome<()> {
    match is_privileged(who) || who.uid == u64::from(attributes.uid) {
        true => Ok(()),
        false => Err(Status::NotPermitted),
    }
}

/// In a sticky directory only root, its owner and the file's owner remove a name.
pub(crate) fn check_sticky(
    who: &Identity,
    directory: &Attributes,
    file: &Attributes,
) -> Outcome<()> {
    let free = directory.mode & STICKY == 0 || who.uid == u64::from(directory.uid);
    if free { Ok(()) } else { owner_only(who, file) }
}

/// The mode of a new file or directory: a user outside the group makes nothing that runs as it.
pub(crate) fn mode_of_new(who: &Identity, directory: &Attributes, mode: u32) -> u32 {
    let runs_as_group = mode & (SET_GROUP_ID | 0o010) == SET_GROUP_ID | 0o010;
    let inherits = directory.mode & SET_GROUP_ID != 0;
    match runs_as_group && inherits && !is_privileged(who) && !in_group(who, directory.gid) {
        true => mode & !SET_GROUP_ID,
        false => mode,
    }
}

/// The owner of what a user creates.
pub(crate) fn user_of(who: &Identity) -> Outcome<User> {
    Ok(User { uid: id(who.uid)?, gid: id(who.gid)? })
}

/// Local file systems have 32-bit ids; the highest one means "no id".
pub(crate) fn id(id: u64) -> Outcome<u32> {
    u32::try_from(id).ok().filter(|id| *id != u32::MAX).ok_or(Status::Invalid)
}

fn caller_of(who: &Identity) -> Outcome<Caller> {
    if is_privileged(who) {
        let uid = rustix::process::geteuid().as_raw();
        return Ok(Caller { uid, gid: 0, groups: Vec::new() });
    }
    let groups = who.groups.iter().map(|group| id(*group)).collect::<Outcome<_>>()?;
    Ok(Caller { uid: id(who.uid)?, gid: id(who.gid)?, groups })
}

impl Service {
    /// Whether a user has all of these rights.
    pub(crate) fn may(&self, who: &Identity, node: NodeId, wanted: Access) -> Outcome<bool> {
        self.union.permits(node, &caller_of(who)?, wanted).or_status()
    }

    /// # Errors
    /// `PermissionDenied`: the user lacks one of these rights.
    pub(crate) fn permit(&self, who: &Identity, node: NodeId, wanted: Access) -> Outcome<()> {
        if self.may(who, node, wanted)? { Ok(()) } else { Err(Status::PermissionDenied) }
    }

    /// Which of the wanted bits (read 4, write 2, execute or search 1) a user has.
    pub(crate) fn granted(&self, who: &Identity, node: NodeId, wanted: u8) -> Outcome<u8> {
        let bits = [(4, Access::READ_OK), (2, Access::WRITE_OK), (1, Access::EXEC_OK)];
        let mut asked = bits.iter().filter(|(bit, _)| wanted & bit != 0);
        let all = asked.clone().fold(Access::empty(), |all, (_, access)| all | *access);
        // Mostly one call, which allows everything.
        if all.is_empty() || self.may(who, node, all)? {
            return Ok(wanted & 7);
        }
        asked.try_fold(0, |granted, (bit, access)| {
            Ok(if self.may(who, node, *access)? { granted | bit } else { granted })
        })
    }
}
