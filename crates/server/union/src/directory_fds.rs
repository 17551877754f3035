//! Open directories of branches: calls on a file start at the descriptor of its directory, so the
//! kernel walks one name, not a path. The number of open descriptors is bounded.

use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
};

use rustix::process::{Resource, getrlimit};

use crate::node::{NodeId, lock};

/// Descriptors at most: one of this many that the process may have, since the files that programs
/// have open need most of them. The limit of a process is 524,288 by systemd's default, and 4,096
/// by that of Linux.
const SHARE: u64 = 4;
const FDS_MIN: usize = 1024;
/// Each takes about 2 KiB in the kernel.
const FDS_MAX: usize = 16 * 1024;

/// Descriptors by directory and branch.
#[derive(Debug)]
pub(crate) struct DirectoryFds {
    max: usize,
    open: Mutex<HashMap<(NodeId, usize), Arc<OwnedFd>>>,
}

impl DirectoryFds {
    /// For the limit of open files that this process has now.
    pub(crate) fn new() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let max = usize::try_from(limit / SHARE).unwrap_or(FDS_MAX);
        Self::with_max(max.clamp(FDS_MIN, FDS_MAX))
    }

    fn with_max(max: usize) -> Self {
        Self { max, open: Mutex::default() }
    }

    pub(crate) fn get(&self, directory: NodeId, branch: usize) -> Option<Arc<OwnedFd>> {
        lock(&self.open).get(&(directory, branch)).cloned()
    }

    /// Keeps a descriptor. When there are too many, half of them are closed, whichever they are:
    /// those in use are opened again.
    pub(crate) fn insert(&self, directory: NodeId, branch: usize, fd: &Arc<OwnedFd>) {
        let mut open = lock(&self.open);
        if open.len() >= self.max {
            let mut keep = false;
            open.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
        open.insert((directory, branch), Arc::clone(fd));
    }

    /// The directory is gone from the branch, or is another one.
    pub(crate) fn remove(&self, directory: NodeId, branch: usize) {
        lock(&self.open).remove(&(directory, branch));
    }

    /// The branch left the pool.
    pub(crate) fn remove_branch(&self, branch: usize) {
        lock(&self.open).retain(|(_, at), _| *at != branch);
    }

    /// The kernel has forgotten the directory.
    pub(crate) fn remove_all(&self, directory: NodeId, branches: usize) {
        let mut open = lock(&self.open);
        (0..branches).for_each(|branch| _ = open.remove(&(directory, branch)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_open_directories_is_bounded() {
        let fds = DirectoryFds::with_max(FDS_MIN);
        let any = Arc::new(OwnedFd::from(std::fs::File::open("/").unwrap()));
        (0..3 * FDS_MIN as u64).for_each(|node| fds.insert(NodeId(node), 0, &any));
        assert!(lock(&fds.open).len() <= FDS_MIN);
        let last = NodeId(3 * FDS_MIN as u64 - 1);
        assert!(fds.get(last, 0).is_some());
        fds.remove_all(last, 2);
        assert!(fds.get(last, 0).is_none());
    }
}
