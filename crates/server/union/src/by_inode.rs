//! Files that are found without their names: for clients of a network, whose handles outlive this
//! process and the renames of a file.

use std::{
    fmt,
    os::fd::{AsFd, OwnedFd},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Arc, OnceLock},
};

use rustix::fs::{OFlags, Statx};
use rustix::io::Errno;

use crate::{
    Attributes, Found, KernelHandle, NodeId, Result, Time, Union,
    attributes::{copy_of, path_of, stat_fd},
    lookup::is_directory,
    node::{Copy, Node},
};

/// An inode on a branch, as it is known after a restart.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BranchInode {
    /// The branch's number in the pool.
    pub branch: u8,
    /// The inode there.
    pub inode: u64,
    /// When it was created.
    pub created: Time,
    /// `None`: the branch's file system has no handles.
    pub handle: Option<KernelHandle>,
}

/// A file that was found by its inode.
#[derive(Debug)]
pub struct FoundByInode {
    /// The file. It counts as one lookup.
    pub found: Found,
    /// The directories above it. Each counts as one lookup, and is needed as long as the file is.
    pub above: Vec<NodeId>,
}

/// Called when a file was moved to another branch: with the number of the old branch, the inode
/// there, and the new inode. No name can be looked up meanwhile.
type OnMove = Box<dyn Fn(u8, u64, BranchInode) + Send + Sync>;

/// The callback that learns where files are moved to.
#[derive(Default)]
pub(crate) struct MoveListener(OnceLock<OnMove>);

impl fmt::Debug for MoveListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MoveListener").finish_non_exhaustive()
    }
}

impl Union {
    /// Calls `on_move` after each move of a file to another branch: with the number of the old
    /// branch, the inode there, and the new inode. It must not call the union. Only the first call
    /// counts.
    pub fn set_on_move(&self, on_move: impl Fn(u8, u64, BranchInode) + Send + Sync + 'static) {
        let _ = self.move_listener.0.set(Box::new(on_move));
    }

    /// A file was moved. `root` and `name` lead to it on the new branch.
    pub(crate) fn tell_move(&self, old: Copy, new: Copy, root: &OwnedFd, name: &[u8]) {
        let Some(on_move) = self.move_listener.0.get() else { return };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(root, name, flags, rustix::fs::Mode::empty());
        // Without it, handles of clients are stale.
        let Ok(handle) = handle.and_then(KernelHandle::of) else { return };
        let branch = self.branches[new.branch].number;
        let new = BranchInode { branch, inode: new.inode, created: new.created, handle };
        on_move(self.branches[old.branch].number, old.inode, new);
    }

    /// The inodes of a node, in the order of the branches: one, unless it is a directory.
    ///
    /// # Errors
    /// `ESTALE`: the file is gone.
    pub fn inodes(&self, id: NodeId) -> Result<Vec<BranchInode>> {
        let node = self.nodes.get(id)?;
        let inode = |copy: &Copy| {
            let reference = self.reference(&node, copy.branch)?;
            Ok(BranchInode {
                branch: self.branches[copy.branch].number,
                inode: copy.inode,
                created: copy.created,
                handle: KernelHandle::of(&*reference)?,
            })
        };
        node.copies().iter().map(inode).collect()
    }

    /// Whether an inode still is a file: it has a name. Only for one with a handle.
    ///
    /// # Errors
    /// `ESTALE`: it is not. `EPERM` without `CAP_DAC_READ_SEARCH`.
    pub fn check_inode(&self, inode: &BranchInode) -> Result<()> {
        self.open_inode(inode).map(drop)
    }

    /// Finds a file by its inode, wherever it was renamed to on its branch.
    ///
    /// # Errors
    /// `ESTALE`: it was removed, or has no handle; `EPERM` without `CAP_DAC_READ_SEARCH`.
    pub fn find(&self, inode: &BranchInode) -> Result<FoundByInode> {
        let (branch, fd, stat) = self.open_inode(inode)?;
        let copy = copy_of(branch, &stat);
        if is_directory(&stat) {
            return self.find_directory(copy, &fd);
        }
        let _shared = self.shared();
        let known = self.nodes.of_inode(copy).map(|node| node.index);
        let index = known.unwrap_or_else(|| self.index_of(branch, copy.inode));
        let node = self.nodes.enter(false, vec![copy], &[], None, index);
        node.state().handle = inode.handle.clone().map(Arc::new);
        let attributes = Attributes::new(node.index, &stat);
        Ok(FoundByInode { found: Found { node: node.id, attributes }, above: Vec::new() })
    }

    /// The directory above a directory; the root's is the root. It counts as one lookup.
    ///
    /// # Errors
    /// `ENOTDIR`; `ESTALE`.
    pub fn parent(&self, id: NodeId) -> Result<Found> {
        let node = self.nodes.get(id)?;
        if !node.is_directory {
            return Err(Errno::NOTDIR);
        }
        let above = match node.state().names.first() {
            _ if id == NodeId::ROOT => NodeId::ROOT,
            Some(name) => name.directory,
            None => return Err(Errno::STALE),
        };
        self.nodes.look_up_again(above)?;
        let attributes = self.attributes(above).inspect_err(|_| self.forget(above, 1))?;
        Ok(Found { node: above, attributes })
    }

    fn open_inode(&self, inode: &BranchInode) -> Result<(usize, OwnedFd, Statx)> {
        let branch = self.branches.with_number(inode.branch).ok_or(Errno::STALE)?;
        let handle = inode.handle.as_ref().ok_or(Errno::STALE)?;
        let fd = handle.open(&*self.branches[branch].root()?, OFlags::PATH | OFlags::NOFOLLOW)?;
        let stat = stat_fd(&fd)?;
        // A removed file that a program still has open has no link.
        if stat.stx_ino != inode.inode || stat.stx_nlink == 0 {
            return Err(Errno::STALE);
        }
        Ok((branch, fd, stat))
    }

    /// The kernel knows the path of each open directory. The walk along it enters the directory's
    /// copies on other branches, too.
    fn find_directory(&self, copy: Copy, fd: &OwnedFd) -> Result<FoundByInode> {
        let path = |fd: &dyn Fn() -> String| {
            rustix::fs::readlink(fd(), Vec::new()).map(std::ffi::CString::into_bytes)
        };
        let root = self.branches[copy.branch].root()?;
        let whole = path(&|| path_of(fd))?;
        let root = path(&|| path_of(&*root))?;
        let (whole, root) = (Path::new(std::ffi::OsStr::from_bytes(&whole)), root);
        // Moved out of the branch.
        let below = whole.strip_prefix(std::ffi::OsStr::from_bytes(&root));
        let below = below.map_err(|_| Errno::STALE)?;
        let mut walk = Walk { union: self, above: Vec::new() };
        let mut last = None;
        for name in below.components() {
            let parent = walk.above.last().copied().unwrap_or(NodeId::ROOT);
            let found = self.look_up(parent, name.as_os_str().as_bytes());
            let found = found.map_err(|error| match error {
                // Renamed meanwhile, or hidden by a file of an earlier branch.
                Errno::NOENT | Errno::NOTDIR => Errno::STALE,
                error => error,
            })?;
            walk.above.push(found.node);
            last = Some(found);
        }
        let found = last.ok_or(Errno::STALE)?;
        if self.nodes.get(found.node)?.copy_on(copy.branch) != Some(copy) {
            return Err(Errno::STALE);
        }
        let mut above = walk.take();
        above.pop();
        Ok(FoundByInode { found, above })
    }

    /// A descriptor of `O_PATH` of a node's inode that was found by its handle.
    pub(crate) fn by_handle(&self, node: &Node, copy: Copy) -> Result<OwnedFd> {
        let handle = node.state().handle.clone().ok_or(Errno::STALE)?;
        let root = self.branches[copy.branch].root()?;
        let fd = handle.open(&*root, OFlags::PATH | OFlags::NOFOLLOW)?;
        if copy_of(copy.branch, &stat_fd(fd.as_fd())?) == copy { Ok(fd) } else { Err(Errno::STALE) }
    }
}

/// Lookups that are dropped if the walk fails.
struct Walk<'u> {
    union: &'u Union,
    above: Vec<NodeId>,
}

impl Walk<'_> {
    fn take(mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.above)
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.above.iter().for_each(|node| self.union.forget(*node, 1));
    }
}
