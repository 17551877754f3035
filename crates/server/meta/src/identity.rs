//! The identity of a caller, and what the permission bits allow it.

use braid_types::{Failure, Status, Timestamp};

use crate::nfs4_permissions;
use crate::record::{Inode, Principal};

/// A user with its groups.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// User id; 0 overrides permissions.
    pub uid: u64,
    /// Primary group: the group of files that the user creates.
    pub gid: u64,
    /// Supplementary groups.
    pub groups: Vec<u64>,
    /// The kernel of a mount has checked the permissions already. Everything that root may do is
    /// allowed; new files still belong to this user.
    pub permissions_checked: bool,
}

impl Identity {
    /// The superuser.
    pub fn root() -> Self {
        Self::default()
    }

    /// Whether it is the superuser.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether permissions are not checked for it.
    pub fn bypasses_permissions(&self) -> bool {
        self.is_root() || self.permissions_checked
    }

    /// Whether it is in a group.
    pub fn in_group(&self, group: Principal) -> bool {
        group == Principal::posix(self.gid)
            || self.groups.iter().any(|id| group == Principal::posix(*id))
    }

    /// Whether it owns a file.
    pub fn owns(&self, inode: &Inode) -> bool {
        inode.owner == Principal::posix(self.uid)
    }
}

/// Identifies an operation so that a retry of it is recognised (I7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Replay {
    /// The client's session.
    pub session: braid_types::SessionId,
    /// One of the session's slots: one operation at a time in each.
    pub slot: u32,
    /// Rises by one with each operation in the slot, from 1.
    pub sequence: u64,
    /// A digest of the request and its caller, which a caller cannot choose: only an identical
    /// request is a retry.
    pub request: u64,
}

/// The context of every operation that changes something.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The caller.
    pub who: &'a Identity,
    /// The metadata server's clock.
    pub now: Timestamp,
    /// How a retry is recognised; `None` for the server's own work, which is not retried.
    pub replay: Option<Replay>,
}

/// What an operation needs to do with an inode; a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want(pub u8);

impl Want {
    /// Nothing: the inode only has to exist.
    pub const NOTHING: Self = Self(0);
    /// Execute a file, search a directory.
    pub const EXECUTE: Self = Self(1);
    /// Write a file, change the entries of a directory.
    pub const WRITE: Self = Self(2);
    /// Read a file, list a directory.
    pub const READ: Self = Self(4);
    /// Change the entries of a directory.
    pub const CHANGE_ENTRIES: Self = Self(3);

    /// The union.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Checks the permission bits and the access list: the first class that matches decides, as in
/// POSIX. The entries of an NFSv4 list are evaluated in their order instead.
pub fn permit(who: &Identity, inode: &Inode, want: Want) -> Result<(), Failure> {
    if let Some(list) = inode.nfs4_acl()
        && !who.bypasses_permissions()
    {
        return nfs4_permissions::permit(who, inode, list, want);
    }
    if let Some(access) = inode.posix_acl().and_then(|acl| acl.access.as_ref())
        && !who.bypasses_permissions()
        && !who.owns(inode)
    {
        return if access.permits(who, inode, want) {
            Ok(())
        } else {
            Err(Status::PermissionDenied.into())
        };
    }
    let class = if who.owns(inode) {
        inode.mode >> 6
    } else if who.in_group(inode.group) {
        inode.mode >> 3
    } else {
        inode.mode
    };
    let granted = if who.bypasses_permissions() { root_bits(inode) } else { (class & 7) as u8 };
    if want.0 & !granted == 0 { Ok(()) } else { Err(Status::PermissionDenied.into()) }
}

/// Root reads and writes everything, searches every directory, and executes what anybody may
/// execute.
fn root_bits(inode: &Inode) -> u8 {
    if inode.is_directory() || inode.mode & 0o111 != 0 { 7 } else { 6 }
}

/// In a sticky directory only root, the directory's owner and the file's owner may remove or rename
/// an entry.
pub(crate) fn permit_sticky(
    who: &Identity,
    directory: &Inode,
    target: &Inode,
) -> Result<(), Failure> {
    let free = directory.mode & 0o1000 == 0
        || who.bypasses_permissions()
        || who.owns(directory)
        || who.owns(target);
    // POSIX unlink(): EPERM or EACCES; Linux returns EPERM.
    if free { Ok(()) } else { Err(Status::NotPermitted.into()) }
}
