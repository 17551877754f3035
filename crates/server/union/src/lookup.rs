//! Names: from a name in a directory to a node.

use rustix::fs::Statx;
use rustix::io::Errno;

use crate::{
    Attributes, NodeId, Result, Union,
    attributes::{S_IFDIR, S_IFMT, copy_of, stat_at},
    node::{Copy, Name, Node},
    remove::RESERVED_PREFIX,
};

/// Linux's limit for a name.
const NAME_MAX: usize = 255;

/// A file that was found or created. It counts as one lookup: see [`Union::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The node.
    pub node: NodeId,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A name on the branches, in their order. A directory: all branches that have it. Otherwise: the
/// branches that have anything with this name; the first is shown.
#[derive(Debug)]
pub(crate) struct OnBranches {
    pub(crate) stats: Vec<(usize, Statx)>,
}

impl OnBranches {
    pub(crate) fn is_directory(&self) -> bool {
        self.stats.first().is_some_and(|(_, stat)| is_directory(stat))
    }

    pub(crate) fn on(&self, branch: usize) -> Option<&Statx> {
        self.stats.iter().find(|(at, _)| *at == branch).map(|(_, stat)| stat)
    }

    pub(crate) fn copies(&self) -> Vec<Copy> {
        self.stats.iter().map(|(branch, stat)| copy_of(*branch, stat)).collect()
    }
}

pub(crate) fn is_directory(stat: &Statx) -> bool {
    u32::from(stat.stx_mode) & S_IFMT == S_IFDIR
}

impl Union {
    /// Looks up a name.
    ///
    /// # Errors
    /// `ENOENT`: no branch has it. Those of statx(2) of a branch, if no other one has the name: a
    /// name on a disk that fails is not absent.
    pub fn look_up(&self, directory: NodeId, name: &[u8]) -> Result<Found> {
        let _shared = self.shared();
        let parent = self.nodes.get(directory)?;
        self.check_name(directory, name)?;
        let found = self.first_on_branches(&parent, name)?;
        Ok(self.enter(directory, name, &found))
    }

    /// A name that a program may use here.
    pub(crate) fn check_name(&self, directory: NodeId, name: &[u8]) -> Result<()> {
        if name.len() > NAME_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
            return Err(Errno::INVAL);
        }
        if directory == NodeId::ROOT && name.starts_with(RESERVED_PREFIX) {
            return Err(Errno::NOENT);
        }
        Ok(())
    }

    /// As [`Union::on_branches`], but of a file that is not a directory only the first: no program
    /// sees the others.
    fn first_on_branches(&self, parent: &Node, name: &[u8]) -> Result<OnBranches> {
        self.search(parent, name, true)
    }

    /// All that the branches have under a name.
    pub(crate) fn on_branches(&self, parent: &Node, name: &[u8]) -> Result<OnBranches> {
        self.search(parent, name, false)
    }

    fn search(&self, parent: &Node, name: &[u8], first_only: bool) -> Result<OnBranches> {
        if !parent.is_directory {
            return Err(Errno::NOTDIR);
        }
        let mut found = OnBranches { stats: Vec::new() };
        let mut failed = Errno::NOENT;
        for copy in parent.copies() {
            let stat = self.directory_fd(parent, copy.branch).and_then(|fd| stat_at(&*fd, name));
            match stat {
                Ok(stat) if found.stats.is_empty() => {
                    found.stats.push((copy.branch, stat));
                    if first_only && !is_directory(&stat) {
                        break;
                    }
                }
                // Below a directory only directories are merged; beside a file all are hidden.
                Ok(stat) if is_directory(&stat) || !found.is_directory() => {
                    found.stats.push((copy.branch, stat));
                }
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE) => {}
                Err(error) => failed = error,
            }
        }
        if found.stats.is_empty() { Err(failed) } else { Ok(found) }
    }

    /// Enters what was found in the table of nodes.
    pub(crate) fn enter(&self, directory: NodeId, name: &[u8], found: &OnBranches) -> Found {
        let is_directory = found.is_directory();
        let mut copies = found.copies();
        if !is_directory {
            copies.truncate(1);
        }
        let (branch, stat) = found.stats[0];
        let entered = Name { directory, name: name.into() };
        // Before the table is locked: the xattr of a directory is read through its parent's node.
        let index = match copies.iter().find_map(|copy| self.nodes.of_inode(*copy)) {
            Some(known) => known.index,
            None => self.index(branch, &stat, directory, name),
        };
        let node = self.nodes.enter(is_directory, copies, Some(entered), index);
        if is_directory {
            // A directory that was replaced directly on a branch has another inode.
            self.drop_stale_fds(&node);
        }
        let mut attributes = Attributes::new(node.index, &stat);
        for (_, other) in found.stats.iter().skip(1).filter(|_| is_directory) {
            attributes.merge(&Attributes::new(node.index, other));
        }
        self.add_object_blocks(&node, copy_of(branch, &stat), &mut attributes);
        Found { node: node.id, attributes }
    }

    fn drop_stale_fds(&self, node: &Node) {
        let copies = node.copies();
        (0..self.branches.len())
            .filter(|branch| copies.iter().all(|copy| copy.branch != *branch))
            .for_each(|branch| self.fds.remove(node.id, branch));
    }

    /// `st_ino`: see [`Union::index_of`]. A directory that was created on a second branch keeps
    /// that of the first, in an xattr.
    fn index(&self, branch: usize, stat: &Statx, directory: NodeId, name: &[u8]) -> u64 {
        let stored =
            is_directory(stat).then(|| self.stored_index(branch, stat, directory, name)).flatten();
        stored.unwrap_or_else(|| self.index_of(branch, stat.stx_ino))
    }
}
