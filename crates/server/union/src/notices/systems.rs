//! The file systems of the branches, and how their handles name inodes.

use rustix::{
    fd::AsFd,
    fs::{OFlags, fstatfs, fstatvfs},
    io::Errno,
};

use super::fanotify::{FileSystemId, Group};
use crate::{KernelHandle, Result, attributes::stat_fd, branch::Branch};

/// `f_type` of local file systems: each of their changes is made through this kernel.
const LOCAL: [u32; 9] = [
    0xef53,      // ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0xf2f5_2010, // F2FS
    0xca45_1a4e, // bcachefs
    0x2fc1_2fc1, // ZFS
    0x4d44,      // FAT
    0x2011_bab0, // exFAT
];

/// Where the number of the inode is in a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Number {
    Bits32,
    Bits64,
    /// The file system is asked.
    Unknown,
}

/// A file system that reports changes.
#[derive(Debug)]
pub(super) struct System {
    pub(super) id: FileSystemId,
    /// Positions of the branches that are on it.
    pub(super) branches: Vec<usize>,
    /// The kind of its handles.
    kind: i32,
    number: Number,
}

impl System {
    /// Begins to watch the file system of a branch.
    ///
    /// # Errors
    /// Why it cannot be watched.
    pub(super) fn watch(
        group: &Group,
        at: usize,
        branch: &Branch,
    ) -> std::result::Result<Self, String> {
        let why = |error: Errno| match error {
            Errno::OPNOTSUPP | Errno::NODEV => "its file system has no file handles".to_owned(),
            Errno::XDEV => "it is a subvolume of btrfs".to_owned(),
            error => error.to_string(),
        };
        let root = branch.root().map_err(why)?;
        let system = fstatfs(&*root).map_err(why)?;
        if !u32::try_from(system.f_type).is_ok_and(|kind| LOCAL.contains(&kind)) {
            return Err("its file system may be changed elsewhere".to_owned());
        }
        group.watch(&*root).map_err(why)?;
        let handle = KernelHandle::of(&*root).map_err(why)?;
        let handle = handle.ok_or_else(|| why(Errno::OPNOTSUPP))?;
        let stat = stat_fd(&*root).map_err(why)?;
        let says = |number: &Number| number.of(&handle) == Some(stat.stx_ino);
        let number = [Number::Bits64, Number::Bits32].into_iter().find(says);
        let number = number.unwrap_or(Number::Unknown);
        let id = fstatvfs(&*root).map_err(why)?.f_fsid;
        branch.set_noticed((stat.stx_dev_major, stat.stx_dev_minor));
        Ok(Self { id: FileSystemId::of(id), branches: vec![at], kind: handle.kind, number })
    }

    /// The inode of a handle; `root`: of one of the branches.
    pub(super) fn inode(&self, handle: &KernelHandle, root: impl AsFd) -> Result<u64> {
        let known = if handle.kind == self.kind { self.number.of(handle) } else { None };
        match known {
            Some(number) => Ok(number),
            None => {
                let file = handle.open(root, OFlags::PATH | OFlags::NOFOLLOW)?;
                Ok(stat_fd(file)?.stx_ino)
            }
        }
    }
}

impl Number {
    fn of(self, handle: &KernelHandle) -> Option<u64> {
        let bytes = &handle.bytes;
        match self {
            Self::Bits32 => Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?).into()),
            Self::Bits64 => Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?)),
            Self::Unknown => None,
        }
    }
}
