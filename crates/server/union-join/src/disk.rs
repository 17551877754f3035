//! A disk of the pool, with the object directory of its I/O daemon.

use std::{os::fd::OwnedFd, path::PathBuf};

use braid_store::{AdoptingDirectory, StoreError};
use braid_types::{ClusterUuid, IodId};
use braid_union::{
    BranchConfig, BranchMode,
    on_branch::{open_directory, stat_fd, unlink_path},
};
use rustix::fs::{AtFlags, Mode, OFlags, Statx};
use rustix::io::Errno;

use crate::JoinError;

/// The object directory in the root of a disk. The union does not show it.
pub const OBJECTS_DIRECTORY: &str = ".braid-objects";

/// An open disk.
#[derive(Debug)]
pub struct Disk {
    /// Its directory.
    pub path: PathBuf,
    /// The daemon that has its objects.
    pub iod: IodId,
    pub(crate) root: OwnedFd,
    pub(crate) objects: AdoptingDirectory,
}

impl Disk {
    /// Opens the disk of a branch.
    ///
    /// # Errors
    /// It has no object directory of this cluster, or its daemon never registered.
    pub fn open(branch: &BranchConfig, cluster: ClusterUuid) -> Result<Self, JoinError> {
        let path = branch.path.clone();
        if branch.mode == BranchMode::Ro {
            return Err(JoinError::ReadOnly { path });
        }
        let objects_path = path.join(OBJECTS_DIRECTORY);
        let objects = AdoptingDirectory::open(&objects_path, cluster);
        let objects = objects.map_err(|error: StoreError| JoinError::NoObjects {
            path: objects_path.clone(),
            why: error.to_string(),
        })?;
        let Some(iod) = objects.identity().iod else {
            return Err(JoinError::NotRegistered { path: objects_path });
        };
        let opening = || JoinError::io(format!("opening {}", path.display()));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&path, flags, Mode::empty()).map_err(opening())?;
        let disk = Self { iod, root, objects, path };
        let stat = stat_fd(&disk.root)
            .map_err(JoinError::io(format!("opening {}", disk.path.display())))?;
        match disk.is_here(&stat) {
            true => Ok(disk),
            false => Err(JoinError::OtherFileSystem { path: objects_path }),
        }
    }

    /// Whether a file is on the file system of the objects.
    pub(crate) fn is_here(&self, stat: &Statx) -> bool {
        rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor) == self.objects.device()
    }

    /// Opens a directory by its path, which follows no symbolic link.
    pub(crate) fn directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        open_directory(&self.root, path)
    }

    /// Removes a directory if it is empty.
    pub(crate) fn remove_directory(&self, path: &[u8]) -> Result<(), Errno> {
        unlink_path(&self.root, path, AtFlags::REMOVEDIR)
    }

    /// Makes everything on the disk durable.
    pub(crate) fn sync(&self) -> Result<(), JoinError> {
        let what = || format!("syncing {}", self.path.display());
        rustix::fs::syncfs(&self.root).map_err(JoinError::io(what()))
    }
}
