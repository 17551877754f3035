//! Copies of a directory have the owner, the mode and the xattrs of the first.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
    sync::PoisonError,
};

use rustix::fs::{Gid, Uid, XattrFlags};
use rustix::io::Errno;

use super::findings::Finding;
use crate::{
    Result, Union,
    attributes::{path_of, set_mode, stat_fd},
    xattrs,
};

/// Mode bits that chmod(2) changes.
const MODE_BITS: u32 = 0o7777;

/// What copies of a directory have in common.
#[derive(PartialEq, Eq, Debug)]
struct Kept {
    owner: (u32, u32),
    mode: u32,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Kept {
    fn of(directory: &OwnedFd) -> Result<Self> {
        let (stat, path) = (stat_fd(directory)?, path_of(directory));
        let mut values = BTreeMap::new();
        for name in xattrs::names(&path)? {
            match xattrs::value(&path, &name) {
                Ok(value) => _ = values.insert(name, value),
                // It was removed meanwhile.
                Err(Errno::NODATA) => {}
                Err(error) => return Err(error),
            }
        }
        let mode = u32::from(stat.stx_mode) & MODE_BITS;
        Ok(Self { owner: (stat.stx_uid, stat.stx_gid), mode, xattrs: values })
    }

    /// The names of what differs.
    fn differences(&self, other: &Self) -> Vec<String> {
        let mut what = Vec::new();
        if self.owner != other.owner {
            what.push(format!("owner ({}:{})", other.owner.0, other.owner.1));
        }
        if self.mode != other.mode {
            what.push(format!("mode ({:04o})", other.mode));
        }
        let names: std::collections::BTreeSet<_> =
            self.xattrs.keys().chain(other.xattrs.keys()).collect();
        let differ =
            names.into_iter().filter(|name| self.xattrs.get(*name) != other.xattrs.get(*name));
        what.extend(differ.map(|name| String::from_utf8_lossy(name).into_owned()));
        what
    }

    /// Gives a directory all of it.
    fn set(&self, directory: &OwnedFd, now: &Self) -> Result<()> {
        let path = path_of(directory);
        if self.owner != now.owner {
            let (uid, gid) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
            rustix::fs::fchown(directory, Some(uid), Some(gid))?;
        }
        for name in now.xattrs.keys().filter(|name| !self.xattrs.contains_key(*name)) {
            rustix::fs::removexattr(&*path, &**name)?;
        }
        for (name, value) in &self.xattrs {
            if now.xattrs.get(name) != Some(value) {
                rustix::fs::setxattr(&*path, &**name, value, XattrFlags::empty())?;
            }
        }
        // Last: an ACL changes the bits of the group.
        if Self::of(directory)?.mode != self.mode {
            set_mode(directory.as_fd(), self.mode)?;
        }
        Ok(())
    }
}

impl Union {
    /// Compares a copy of a directory with the first one.
    pub(super) fn compare_directories(
        &self,
        path: &[u8],
        (first, model): &(usize, OwnedFd),
        (branch, copy): &(usize, OwnedFd),
        repair: bool,
    ) -> Option<Finding> {
        let unread = |branch: usize, error: Errno| {
            Some(Finding::Unread { path: self.path_on(branch, path), why: error.to_string() })
        };
        // Nobody changes a directory on one branch and not yet on the others.
        let _alone = self.renames.write().unwrap_or_else(PoisonError::into_inner);
        let wanted = match Kept::of(model) {
            Ok(wanted) => wanted,
            Err(error) => return unread(*first, error),
        };
        let found = match Kept::of(copy) {
            Ok(found) => found,
            Err(error) => return unread(*branch, error),
        };
        let what = wanted.differences(&found);
        if what.is_empty() {
            return None;
        }
        let (first, differs) = (self.path_on(*first, path), self.path_on(*branch, path));
        let mut repaired = false;
        if repair && self.check_writable(*branch).is_ok() {
            match wanted.set(copy, &found) {
                Ok(()) => repaired = true,
                Err(error) => {
                    tracing::warn!(path = %differs.display(), %error, "a repair failed");
                }
            }
        }
        Some(Finding::Directory { first, differs, what, repaired })
    }

    /// A path of the union as that of a branch.
    pub(super) fn path_on(&self, branch: usize, path: &[u8]) -> PathBuf {
        self.branches[branch].path.join(OsStr::from_bytes(path))
    }
}
