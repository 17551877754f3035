//! Attributes: read with one statx(2), set by the call that a program would use.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Statx, StatxFlags, StatxTimestamp, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, Uid,
};
use rustix::io::Errno;

use crate::{
    NodeId, Result, Union,
    node::{Copy, Node},
};

/// A point in time: seconds since 1970 and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds after `seconds`.
    pub nanoseconds: u32,
}

impl From<StatxTimestamp> for Time {
    fn from(time: StatxTimestamp) -> Self {
        Self { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
    }
}

/// The attributes of a file, as stat(2) has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the names of stat(2), in words
pub struct Attributes {
    /// `st_ino` in the union.
    pub index: u64,
    /// Kind and permissions.
    pub mode: u32,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Units of 512 bytes.
    pub blocks: u64,
    pub block_size: u32,
    pub device: (u32, u32),
    pub accessed: Time,
    pub modified: Time,
    pub changed: Time,
    pub created: Time,
}

/// What to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct NewAttributes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<NewTime>,
    pub modified: Option<NewTime>,
    /// The set-user-id and set-group-id bits end, as after a change by a user without rights.
    pub kill_suidgid: bool,
}

/// A time to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewTime {
    /// The current time.
    Now,
    /// This time.
    At(Time),
}

pub(crate) const S_IFMT: u32 = 0o170_000;
pub(crate) const S_IFDIR: u32 = 0o040_000;
pub(crate) const S_IFREG: u32 = 0o100_000;
const S_IFLNK: u32 = 0o120_000;

impl Attributes {
    pub(crate) fn new(index: u64, stat: &Statx) -> Self {
        Self {
            index,
            mode: stat.stx_mode.into(),
            links: stat.stx_nlink,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            size: stat.stx_size,
            blocks: stat.stx_blocks,
            block_size: stat.stx_blksize,
            device: (stat.stx_rdev_major, stat.stx_rdev_minor),
            accessed: stat.stx_atime.into(),
            modified: stat.stx_mtime.into(),
            changed: stat.stx_ctime.into(),
            created: stat.stx_btime.into(),
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode & S_IFMT == S_IFDIR
    }

    /// Whether it is a regular file.
    pub fn is_regular(&self) -> bool {
        self.mode & S_IFMT == S_IFREG
    }

    /// Adds another copy of a directory: its times are those of the latest change, whichever branch
    /// had it.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.modified = self.modified.max(other.modified);
        self.changed = self.changed.max(other.changed);
        self.accessed = self.accessed.max(other.accessed);
        // Subdirectories may be on several branches: 1 means "not counted", as on btrfs.
        self.links = 1;
    }
}

/// statx of a name in a directory, never of the target of a symbolic link.
///
/// # Errors
/// Those of statx(2).
pub fn stat_at(directory: impl AsFd, name: &[u8]) -> Result<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(directory, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

/// statx of an open file, also of one opened with `O_PATH`.
///
/// # Errors
/// Those of statx(2).
pub fn stat_fd(fd: impl AsFd) -> Result<Statx> {
    stat_at_empty(fd.as_fd())
}

fn stat_at_empty(fd: BorrowedFd<'_>) -> Result<Statx> {
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

pub(crate) fn copy_of(branch: usize, stat: &Statx) -> Copy {
    Copy { branch, inode: stat.stx_ino, created: stat.stx_btime.into() }
}

/// A path that leads to the file of a descriptor, also of one opened with `O_PATH`.
pub fn path_of(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

impl Union {
    /// The attributes of a node.
    ///
    /// # Errors
    /// `ESTALE`: the file is gone; others of statx(2).
    pub fn attributes(&self, id: NodeId) -> Result<Attributes> {
        let _shared = self.shared();
        let node = self.nodes.get(id)?;
        if !node.is_directory {
            let (copy, stat) = self.stat_file(&node)?;
            let mut attributes = Attributes::new(node.index, &stat);
            self.add_object_blocks(&node, copy, &mut attributes);
            return Ok(attributes);
        }
        let mut merged: Option<Attributes> = None;
        for (_, fd) in self.present_copies(&node)? {
            let stat = stat_fd(&fd)?;
            let found = Attributes::new(node.index, &stat);
            match &mut merged {
                None => merged = Some(found),
                Some(merged) => merged.merge(&found),
            }
        }
        merged.ok_or(Errno::IO)
    }

    pub(crate) fn stat_file(&self, node: &Node) -> Result<(Copy, Statx)> {
        let (copy, names, open) = {
            let state = node.state();
            (state.copies.first().copied(), state.names.clone(), state.open.first().cloned())
        };
        let copy = copy.ok_or(Errno::STALE)?;
        self.branches[copy.branch].check_usable()?;
        for name in names {
            let Ok(directory) = self.nodes.get(name.directory) else { continue };
            let Ok(fd) = self.directory_fd(&directory, copy.branch) else { continue };
            if let Ok(stat) = stat_at(&*fd, &name.name)
                && copy_of(copy.branch, &stat) == copy
            {
                return Ok((copy, stat));
            }
        }
        match self.by_handle(node, copy) {
            Ok(fd) => Ok((copy, stat_fd(fd)?)),
            Err(_) => Ok((copy, stat_fd(&*open.ok_or(Errno::STALE)?.fd())?)),
        }
    }

    /// Changes attributes, on every copy of a directory, and returns the new ones.
    ///
    /// # Errors
    /// `EDQUOT`: the owner may not have a file of this length; those of chmod(2), chown(2),
    /// utimensat(2) and truncate(2).
    pub fn set_attributes(&self, id: NodeId, new: &NewAttributes) -> Result<Attributes> {
        let node = self.nodes.get(id)?;
        let _changes = node.changes();
        let shared = self.shared();
        self.check_quota_of_truncate(&node, new)?;
        let set = self.set_all(&node, *new);
        // Also after a failure: a length was reserved.
        self.count_again(&node);
        set?;
        drop(shared);
        self.attributes(id)
    }

    fn set_all(&self, node: &Node, mut new: NewAttributes) -> Result<()> {
        if let Some(size) = new.size
            && self.truncate_striped(node, size)?
        {
            new.size = None;
        }
        let references = self.writable_references(node)?;
        references.iter().try_for_each(|fd| self.set_one(fd.as_fd(), &new))
    }

    /// An ACL that somebody without `CAP_FSETID` and outside the group has set ends the
    /// set-group-id bit.
    ///
    /// # Errors
    /// Those of chmod(2).
    pub fn drop_setgid(&self, id: NodeId) -> Result<()> {
        let mode = self.attributes(id)?.mode;
        if mode & 0o2000 != 0 {
            let mode = Some(mode & 0o5777);
            self.set_attributes(id, &NewAttributes { mode, ..NewAttributes::default() })?;
        }
        Ok(())
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL`: it is none.
    pub fn read_link(&self, id: NodeId) -> Result<Vec<u8>> {
        let _shared = self.shared();
        let node = self.nodes.get(id)?;
        let branch = node.state().copies.first().ok_or(Errno::STALE)?.branch;
        let fd = self.reference(&node, branch)?;
        Ok(rustix::fs::readlinkat(&*fd, c"", Vec::new())?.into_bytes())
    }

    fn set_one(&self, fd: BorrowedFd<'_>, new: &NewAttributes) -> Result<()> {
        if let Some(size) = new.size {
            truncate(fd, size)?;
        }
        let (uid, gid) = (new.uid.map(Uid::from_raw), new.gid.map(Gid::from_raw));
        if uid.is_some() || gid.is_some() {
            rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        let mode = match new.mode {
            None if new.kill_suidgid => without_suidgid(stat_fd(fd)?.stx_mode.into()),
            mode => mode,
        };
        if let Some(mode) = mode {
            set_mode(fd, mode)?;
        }
        if new.accessed.is_some() || new.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(new.accessed),
                last_modification: timespec(new.modified),
            };
            rustix::fs::utimensat(fd, c"", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }
}

/// Changes the permissions. A symbolic link has none.
pub(crate) fn set_mode(fd: BorrowedFd<'_>, mode: u32) -> Result<()> {
    if u32::from(stat_fd(fd)?.stx_mode) & S_IFMT == S_IFLNK {
        return Err(Errno::OPNOTSUPP);
    }
    rustix::fs::chmodat(CWD, path_of(fd), Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())
}

/// The mode after a change by somebody without `CAP_FSETID`, if it differs. The set-group-id bit
/// without execution by the group was a mark for mandatory locks, and stays.
pub(crate) fn without_suidgid(mode: u32) -> Option<u32> {
    let group = if mode & 0o010 == 0 { 0 } else { 0o2000 };
    let left = mode & !(0o4000 | group);
    (left != mode).then_some(left)
}

fn truncate(fd: BorrowedFd<'_>, size: u64) -> Result<()> {
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::open(path_of(fd), flags, Mode::empty())?;
    rustix::fs::ftruncate(file, size)
}

fn timespec(time: Option<NewTime>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(NewTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(NewTime::At(time)) => {
            Timespec { tv_sec: time.seconds, tv_nsec: i64::from(time.nanoseconds) }
        }
    }
}
