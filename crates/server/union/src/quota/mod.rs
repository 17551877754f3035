//! Quotas: limits for the files of users and groups, over all branches (docs/adr/0051).
//!
//! 1. A file counts with its length, holes included, and as one inode, for its owner and its group.
//!    Directories do not count.
//! 2. Each file of a limited owner has an entry with what was counted for it. So a file is counted
//!    by saying what it is now, and a count of all files and the calls of programs may say it at
//!    the same time, in any order.
//! 3. Files of limited owners that are opened to write are not passed through: the kernel would
//!    write past the limit.
//! 4. Without limits nothing is counted, and no call does more than before.

mod count;
mod limits;
mod usage;

pub use limits::{QuotaLimits, QuotaOwner};
pub use usage::{QuotaRow, QuotaUsage};

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use rustix::fs::Statx;
use rustix::io::Errno;

use crate::{
    NewAttributes, PoolError, Result, Union, User,
    attributes::{copy_of, stat_fd},
    lookup::is_directory,
    node::{Copy, Node, lock},
    open_files::OpenFile,
};
use limits::LimitFile;
use usage::{Counted, Usage};

/// What a union knows of quotas.
#[derive(Debug)]
pub(crate) struct Quotas {
    /// Whether somebody has a limit.
    active: AtomicBool,
    path: PathBuf,
    usage: Mutex<Usage>,
    /// When all files were counted last.
    counted: Mutex<Option<Instant>>,
    /// Held by a count: two would disturb each other.
    counting: Mutex<()>,
}

impl Quotas {
    /// Reads the limits of a pool.
    ///
    /// # Errors
    /// The file is damaged.
    pub(crate) fn open(meta: &Path) -> std::result::Result<Self, PoolError> {
        let path = meta.join(limits::FILE);
        let limits = LimitFile::read(&path)?.limits;
        Ok(Self {
            active: AtomicBool::new(!limits.is_empty()),
            path,
            usage: Mutex::new(Usage::new(limits)),
            counted: Mutex::default(),
            counting: Mutex::default(),
        })
    }

    pub(crate) fn are_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }
}

fn counted(stat: &Statx) -> Counted {
    Counted { uid: stat.stx_uid, gid: stat.stx_gid, size: stat.stx_size }
}

impl Union {
    /// A user is about to create a file in a directory.
    ///
    /// # Errors
    /// `EDQUOT`: the user or the group has as many files as allowed.
    pub(crate) fn check_quota_of_new(&self, parent: &Node, user: User) -> Result<()> {
        if !self.quotas.are_active() {
            return Ok(());
        }
        // A set-group-id directory gives its group to new files (inode(7)).
        let copy = *self.usable_copies(parent)?.first().ok_or(Errno::STALE)?;
        let stat = stat_fd(&*self.directory_fd(parent, copy.branch)?)?;
        let gid = if stat.stx_mode & 0o2000 == 0 { user.gid } else { stat.stx_gid };
        lock(&self.quotas.usage).check_new(user.uid, gid)
    }

    /// A file is as `stat` says.
    pub(crate) fn count_file(&self, branch: usize, stat: &Statx) {
        if self.quotas.are_active() && !is_directory(stat) {
            lock(&self.quotas.usage).note(copy_of(branch, stat), counted(stat));
        }
    }

    /// A name of a file was removed, which was as `stat` says. Files that are open still count.
    pub(crate) fn count_removed(&self, branch: usize, stat: &Statx) {
        if !self.quotas.are_active() || is_directory(stat) || stat.stx_nlink > 1 {
            return;
        }
        let copy = copy_of(branch, stat);
        if !self.is_open(copy) {
            lock(&self.quotas.usage).forget(copy);
        }
    }

    /// A file has moved to another branch.
    pub(crate) fn count_moved(&self, old: Copy, new: Copy) {
        if self.quotas.are_active() {
            lock(&self.quotas.usage).moved(old, new);
        }
    }

    /// An open file is closed: what the kernel wrote is known now, and a file without a name is
    /// gone after its last close.
    pub(crate) fn count_closed(&self, file: &OpenFile) {
        if !self.quotas.are_active() {
            return;
        }
        let Some((branch, stat)) = self.stat_open(file) else { return };
        let copy = copy_of(branch, &stat);
        if stat.stx_nlink > 0 {
            self.count_file(branch, &stat);
        } else if !self.is_open(copy) {
            lock(&self.quotas.usage).forget(copy);
        }
    }

    fn stat_open(&self, file: &OpenFile) -> Option<(usize, Statx)> {
        let node = self.nodes.get(file.node).ok()?;
        let branch = node.state().copies.first()?.branch;
        Some((branch, stat_fd(&*file.fd()).ok()?))
    }

    /// Whether an owner of the file has a limit.
    pub(crate) fn has_quota(&self, file: &OpenFile) -> bool {
        self.quotas.are_active()
            && self.stat_open(file).is_some_and(|(_, stat)| {
                lock(&self.quotas.usage).is_limited(stat.stx_uid, stat.stx_gid)
            })
    }

    /// A call is about to make an open file at least `end` bytes long, if `grow` says that it can.
    /// What it was not is taken back afterwards.
    ///
    /// # Errors
    /// `EDQUOT`: an owner would have more bytes than allowed.
    pub(crate) fn growing<T>(
        &self,
        file: &OpenFile,
        end: u64,
        grow: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if !self.quotas.are_active() {
            return grow();
        }
        let (branch, stat) = self.stat_open(file).ok_or(Errno::STALE)?;
        let wanted = Counted { size: end.max(stat.stx_size), ..counted(&stat) };
        lock(&self.quotas.usage).grow(copy_of(branch, &stat), wanted)?;
        let done = grow();
        if let Some((branch, stat)) = self.stat_open(file) {
            self.count_file(branch, &stat);
        }
        done
    }

    /// A call is about to give a file another length.
    ///
    /// # Errors
    /// `EDQUOT`: an owner would have more bytes than allowed.
    pub(crate) fn check_quota_of_truncate(&self, node: &Node, new: &NewAttributes) -> Result<()> {
        let Some(size) = new.size.filter(|_| self.quotas.are_active()) else { return Ok(()) };
        let (copy, stat) = self.stat_file(node)?;
        if size <= stat.stx_size {
            return Ok(());
        }
        lock(&self.quotas.usage).grow(copy, Counted { size, ..counted(&stat) })
    }

    /// The length or the owner of a file may have changed.
    pub(crate) fn count_again(&self, node: &Node) {
        if self.quotas.are_active()
            && !node.is_directory
            && let Ok((copy, stat)) = self.stat_file(node)
        {
            self.count_file(copy.branch, &stat);
        }
    }
}
