//! The user for whom a file is created.
//!
//! A new file must belong to its creator from the first moment, also to somebody who looks at the
//! branch directly: a `chown` afterwards would leave a gap, and costs a transaction of the file
//! system. So the calling thread takes the effective ids of the user, and only for the call. The
//! kernel has checked the rights at the mount, with all groups of the user, so the thread keeps the
//! capabilities that override the checks of the branch.

use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::{Caller, Result};

/// The creator of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// Owner of the file.
    pub uid: u32,
    /// Its group, unless the directory gives its own.
    pub gid: u32,
}

/// Runs `call` on this thread with the ids of `user`. Needs root where they differ from the ids of
/// the process.
///
/// # Errors
/// Those of `call`; `EPERM` without the right to change ids.
pub(crate) fn as_user<T>(user: User, call: impl FnOnce() -> Result<T>) -> Result<T> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if (uid.as_raw(), gid.as_raw()) == (user.uid, user.gid) {
        return call();
    }
    let restore = Restore { uid, gid, groups: None, before: capabilities(None)? };
    set_thread_res_gid(None, Gid::from_raw(user.gid), None)?;
    set_thread_res_uid(None, Uid::from_raw(user.uid), None)?;
    // A change of the effective user from root clears the effective capabilities (capabilities(7)).
    let kept = CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::MKNOD;
    let effective = restore.before.permitted & kept;
    set_capabilities(None, CapabilitySets { effective, ..restore.before })?;
    let done = call();
    drop(restore);
    done
}

/// Runs `call` on this thread as a user with all groups and without any capability. Root keeps its
/// own: it has all rights.
///
/// # Errors
/// Those of `call`; `EPERM` without the right to change ids.
pub(crate) fn as_caller<T>(caller: &Caller, call: impl FnOnce() -> Result<T>) -> Result<T> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if caller.uid == uid.as_raw() {
        return call();
    }
    let groups = rustix::process::getgroups()?;
    let restore = Restore { uid, gid, groups: Some(groups), before: capabilities(None)? };
    let groups: Vec<Gid> = caller.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(None, Gid::from_raw(caller.gid), None)?;
    set_thread_res_uid(None, Uid::from_raw(caller.uid), None)?;
    let effective = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective, ..restore.before })?;
    let done = call();
    drop(restore);
    done
}

struct Restore {
    uid: Uid,
    gid: Gid,
    /// The process's groups, if the thread had others.
    groups: Option<Vec<Gid>>,
    before: CapabilitySets,
}

impl Drop for Restore {
    fn drop(&mut self) {
        // A thread that kept a user's ids would serve later requests with them.
        let restored = set_thread_res_uid(None, self.uid, None)
            .and_then(|()| set_thread_res_gid(None, self.gid, None))
            .and_then(|()| set_capabilities(None, self.before))
            .and_then(|()| match &self.groups {
                Some(groups) => set_thread_groups(groups),
                None => Ok(()),
            });
        if let Err(error) = restored {
            tracing::error!(%error, "taking back the ids of a thread failed: the process ends");
            std::process::abort();
        }
    }
}
