//! Rights of users whom no mount has checked: those of a network.
//!
//! The kernel decides, with the thread acting as the user for one call. So modes and POSIX ACLs
//! mean what they mean to programs.

use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;

pub use rustix::fs::Access;

use crate::{NodeId, Result, Union, attributes::path_of, credentials::as_caller};

/// A user with all groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// The other groups.
    pub groups: Vec<u32>,
}

impl Union {
    /// Whether a user has all of these rights. What decides is a directory's first copy, as on the
    /// mount.
    ///
    /// # Errors
    /// `ESTALE`: the file is gone; `EPERM`: this process cannot act as another user.
    pub fn permits(&self, id: NodeId, caller: &Caller, wanted: Access) -> Result<bool> {
        let _shared = self.shared();
        let node = self.nodes.get(id)?;
        let branch = node.state().copies.first().ok_or(Errno::STALE)?.branch;
        let reference = self.reference(&node, branch)?;
        let path = path_of(&*reference);
        let asked =
            as_caller(caller, || Ok(rustix::fs::accessat(CWD, &path, wanted, AtFlags::EACCESS)))?;
        match asked {
            Ok(()) => Ok(true),
            // EROFS and ETXTBSY are no questions of rights: the call itself fails with them.
            Err(Errno::ROFS | Errno::TXTBSY) => Ok(true),
            Err(Errno::ACCESS) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
