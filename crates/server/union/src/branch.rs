//! A branch: a directory of a local file system.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::fs::{Mode, OFlags, StatVfs};
use serde::{Deserialize, Serialize};

use crate::{Result, node::lock};

/// For how long the free space of a branch is used without reading it again. A file system that
/// fills faster than this gives ENOSPC to a create, which then takes another branch.
const SPACE_VALID: Duration = Duration::from_secs(1);

/// What a branch is used for. The words are those of mergerfs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BranchMode {
    /// Everything.
    #[default]
    Rw,
    /// Reads only.
    Ro,
    /// No new files: existing ones can be changed and removed.
    Nc,
}

/// An open branch.
#[derive(Debug)]
pub(crate) struct Branch {
    /// Its number in the pool.
    pub(crate) number: u8,
    pub(crate) path: PathBuf,
    pub(crate) mode: BranchMode,
    /// New files go elsewhere when less than this is free, bytes.
    pub(crate) min_free: u64,
    root: OwnedFd,
    free: AtomicU64,
    /// When `free` was read.
    read: Mutex<Option<Instant>>,
}

/// A branch as `braid union status` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchStatus {
    /// Its number in the pool.
    pub number: u8,
    /// Its directory.
    pub path: PathBuf,
    /// What it is used for.
    pub mode: BranchMode,
    /// Size of its file system, bytes; 0 if it cannot be read.
    pub bytes: u64,
    /// Free space for users, bytes.
    pub free: u64,
    /// New files go elsewhere when less than this is free, bytes.
    pub min_free: u64,
}

impl Branch {
    /// Opens the directory.
    ///
    /// # Errors
    /// That of open(2).
    pub(crate) fn open(number: u8, path: &Path, mode: BranchMode, min_free: u64) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        let (free, read) = (AtomicU64::new(0), Mutex::default());
        Ok(Self { number, path: path.to_owned(), mode, min_free, root, free, read })
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Free bytes for users, at most [`SPACE_VALID`] old.
    pub(crate) fn free(&self) -> u64 {
        let mut read = lock(&self.read);
        if read.is_none_or(|then| then.elapsed() > SPACE_VALID) {
            let free = self.space().map_or(0, |space| space.f_bavail * space.f_frsize);
            self.free.store(free, Ordering::Relaxed);
            *read = Some(Instant::now());
        }
        self.free.load(Ordering::Relaxed)
    }

    /// A create found less space than expected: reads it again next time.
    pub(crate) fn space_changed(&self) {
        *lock(&self.read) = None;
    }

    /// Whether new files may be placed here.
    pub(crate) fn takes_new_files(&self) -> bool {
        self.mode == BranchMode::Rw && self.free() > self.min_free
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.mode != BranchMode::Ro
    }

    pub(crate) fn space(&self) -> Result<StatVfs> {
        rustix::fs::fstatvfs(&self.root)
    }

    pub(crate) fn status(&self) -> BranchStatus {
        let (bytes, free) = self.space().map_or((0, 0), |space| {
            (space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize)
        });
        BranchStatus {
            number: self.number,
            path: self.path.clone(),
            mode: self.mode,
            bytes,
            free,
            min_free: self.min_free,
        }
    }
}
