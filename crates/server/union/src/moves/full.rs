//! A file that a program writes moves to another branch when its own is full.
//!
//! It is open, so the open files get descriptors of the copy. Reads and writes of the file wait
//! meanwhile, and other files do not. A file that the kernel writes by itself is not seen here:
//! see [`Union::may_pass_through`].

use std::{
    os::fd::OwnedFd,
    sync::{Arc, PoisonError},
};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{NotMoved, links::Links, switch::Source};
use crate::{
    OpenFile, Result, Union,
    attributes::{copy_of, path_of, stat_fd},
    node::{Node, lock},
};

impl Union {
    /// Whether the kernel may read and write an open file by itself. A file that may become too
    /// long for its disk is written through this process, which can move it: one that is opened to
    /// write on a branch with less free space than its `min_free`, while another branch has more.
    /// Neither is one of an owner with a quota: the kernel would write past it.
    pub fn may_pass_through(&self, file: &OpenFile) -> bool {
        let Ok(node) = self.nodes.get(file.node) else { return false };
        let Some(branch) = node.state().copies.first().map(|copy| copy.branch) else {
            return false;
        };
        // Not the free space of a second ago: a program may have filled the disk since.
        let is_short = || self.branches[branch].free_now() <= self.branches[branch].min_free;
        !file.writes() || !self.has_quota(file) && (!is_short() || !self.other_takes_files(branch))
    }

    fn other_takes_files(&self, branch: usize) -> bool {
        let mut branches = self.branches.iter().enumerate();
        branches.any(|(at, other)| at != branch && other.takes_new_files())
    }

    /// A write of `needed` more bytes found the disk full: moves the file. The caller tries again.
    ///
    /// # Errors
    /// `ENOSPC`: no other branch has space, or the file cannot be moved.
    pub(crate) fn make_room(&self, file: &OpenFile, needed: u64) -> Result<()> {
        let node = self.nodes.get(file.node)?;
        // The same file is written by another thread, which may have moved it already.
        let before = Arc::as_ptr(&file.fd());
        let _alone = file.io.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::as_ptr(&file.fd()) != before {
            return Ok(());
        }
        self.move_open(&node, file, needed).map_err(|why| {
            let path = self.relative_path(&node).unwrap_or_default();
            let path = String::from_utf8_lossy(&path);
            tracing::warn!(%path, %why, "a disk is full, and the file cannot move");
            Errno::NOSPC
        })
    }

    fn move_open(
        &self,
        node: &Node,
        file: &OpenFile,
        needed: u64,
    ) -> std::result::Result<(), NotMoved> {
        let branch = node.state().copies.first().ok_or(Errno::STALE)?.branch;
        let stat = stat_fd(&*file.fd())?;
        if stat.stx_nlink == 0 || copy_of(branch, &stat) != node.copies()[0] {
            return Err(NotMoved::Links);
        }
        let name = node.state().names.first().cloned().ok_or(NotMoved::Links)?;
        let directory = self.nodes.get(name.directory)?;
        let path = super::links::join(&self.relative_path(&directory)?[1..], &name.name);
        let names = self.all_names(branch, path.clone(), &stat, &Links::default())?;
        let mut why = NotMoved::NoSpace;
        for target in self.targets(Some(branch), &path, &stat, needed) {
            let source = Source { branch, stat, names: names.clone(), with_open: true };
            match self.prepare(source, target) {
                Ok(prepared) => {
                    let (_, done) = self.switch(vec![prepared]).pop().ok_or(NotMoved::NoSpace)?;
                    return done;
                }
                Err(error) => why = error,
            }
        }
        Err(why)
    }
}

/// A descriptor of the copy for each open file, in the same way as its own.
pub(super) fn open_copies(open: &[Arc<OpenFile>], copy: &OwnedFd) -> Result<Vec<OwnedFd>> {
    let path = path_of(copy);
    let flags = |file: &OpenFile| file.flags - OFlags::NOFOLLOW - OFlags::CREATE - OFlags::EXCL;
    open.iter().map(|file| rustix::fs::open(&*path, flags(file), Mode::empty())).collect()
}

/// The open files use the copy from now on.
pub(super) fn exchange(open: &[Arc<OpenFile>], new: Vec<OwnedFd>) {
    for (file, fd) in open.iter().zip(new) {
        *lock(&file.fd) = Arc::new(fd);
    }
}
