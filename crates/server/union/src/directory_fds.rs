//! Open directories of branches: calls on a file start at the descriptor of its directory, so the
//! kernel walks one name, not a path. The number of open descriptors is bounded.
//!
//! Somebody may replace a directory directly on a branch. So a descriptor is used only for the
//! copy that it was opened for, and the node says which copy is the present one.

use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::{
    Result, Union,
    attributes::{copy_of, stat_fd},
    node::{Copy, Node, NodeId, lock},
};

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
    open: Mutex<HashMap<(NodeId, usize), OpenCopy>>,
}

/// Which directory the descriptor was opened for.
type OpenCopy = (Copy, Arc<OwnedFd>);

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

    fn get(&self, directory: NodeId, copy: Copy) -> Option<Arc<OwnedFd>> {
        let open = lock(&self.open);
        let (opened, fd) = open.get(&(directory, copy.branch))?;
        (*opened == copy).then(|| Arc::clone(fd))
    }

    /// Keeps a descriptor. When there are too many, half of them are closed, whichever they are:
    /// those in use are opened again.
    fn insert(&self, directory: NodeId, copy: Copy, fd: &Arc<OwnedFd>) {
        let mut open = lock(&self.open);
        if open.len() >= self.max {
            let mut keep = false;
            open.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
        open.insert((directory, copy.branch), (copy, Arc::clone(fd)));
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

impl Union {
    /// A descriptor of a directory on a branch, of `O_PATH`.
    ///
    /// # Errors
    /// `ENOENT`: the directory is not there. `EIO`: the disk has failed.
    pub(crate) fn directory_fd(&self, node: &Node, branch: usize) -> Result<Arc<OwnedFd>> {
        self.branches[branch].check_usable()?;
        let copy = node.copy_on(branch).ok_or(Errno::NOENT)?;
        if let Some(fd) = self.fds.get(node.id, copy) {
            return Ok(fd);
        }
        if node.id == NodeId::ROOT {
            return self.open_copy(&*self.branches[branch].root()?, b".", node.id, copy);
        }
        // Up to a directory that is open, then down again. A path may be too deep for recursion.
        let mut below = vec![(node.id, copy, node.first_name()?)];
        let mut fd = loop {
            let parent = self.nodes.get(below[below.len() - 1].2.directory)?;
            let copy = parent.copy_on(branch).ok_or(Errno::NOENT)?;
            if let Some(fd) = self.fds.get(parent.id, copy) {
                break fd;
            }
            if parent.id == NodeId::ROOT {
                break self.open_copy(&*self.branches[branch].root()?, b".", parent.id, copy)?;
            }
            self.check_depth(below.len())?;
            below.push((parent.id, copy, parent.first_name()?));
        };
        while let Some((id, copy, name)) = below.pop() {
            fd = self.open_copy(&fd, &name.name, id, copy)?;
        }
        Ok(fd)
    }

    fn open_copy(
        &self,
        parent: &OwnedFd,
        name: &[u8],
        id: NodeId,
        copy: Copy,
    ) -> Result<Arc<OwnedFd>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        if id != NodeId::ROOT && copy_of(copy.branch, &stat_fd(&fd)?) != copy {
            return Err(Errno::NOENT);
        }
        let fd = Arc::new(fd);
        self.fds.insert(id, copy, &fd);
        Ok(fd)
    }

    /// Two directories that change places directly on a branch can each be known as the parent of
    /// the other for a moment.
    ///
    /// # Errors
    /// `ESTALE`: a walk to the root does not end.
    pub(crate) fn check_depth(&self, depth: usize) -> Result<()> {
        if depth > self.nodes.len() { Err(Errno::STALE) } else { Ok(()) }
    }

    /// The copies of a directory that are there, with their descriptors. One that somebody removed
    /// directly is left out, and one on a disk that has failed.
    ///
    /// # Errors
    /// `ESTALE`: there is none; others of open(2).
    pub(crate) fn present_copies(&self, node: &Node) -> Result<Vec<OpenCopy>> {
        let mut present = Vec::new();
        for copy in self.usable_copies(node)? {
            match self.directory_fd(node, copy.branch) {
                Ok(fd) => present.push((copy, fd)),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE) => {}
                Err(error) if self.branches[copy.branch].note_error(error) => {}
                Err(error) => return Err(error),
            }
        }
        if present.is_empty() { Err(Errno::STALE) } else { Ok(present) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: Copy =
        Copy { branch: 0, inode: 7, created: crate::Time { seconds: 1, nanoseconds: 0 } };

    #[test]
    fn the_number_of_open_directories_is_bounded() {
        let fds = DirectoryFds::with_max(FDS_MIN);
        let any = Arc::new(OwnedFd::from(std::fs::File::open("/").unwrap()));
        (0..3 * FDS_MIN as u64).for_each(|node| fds.insert(NodeId(node), COPY, &any));
        assert!(lock(&fds.open).len() <= FDS_MIN);
        let last = NodeId(3 * FDS_MIN as u64 - 1);
        assert!(fds.get(last, COPY).is_some());
        assert!(fds.get(last, Copy { inode: 8, ..COPY }).is_none(), "another directory");
        fds.remove_all(last, 2);
        assert!(fds.get(last, COPY).is_none());
    }
}
