//! What joined, and what did not.

use std::path::PathBuf;

use std::os::unix::ffi::OsStrExt;

use crate::Disk;

/// The outcome of a join.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JoinReport {
    /// Names of regular files that joined in this run.
    pub names: u64,
    /// Regular files, each once.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links, pipes, sockets and devices.
    pub others: u64,
    /// What stays on its disk.
    pub left: Vec<Left>,
    /// The union has ended: its disks belong to the cluster.
    pub finished: bool,
}

/// A name that stays on its disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// Its path, with the disk's.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

impl Left {
    pub(crate) fn new(disk: &Disk, path: &[u8], why: impl ToString) -> Self {
        let path = disk.path.join(std::ffi::OsStr::from_bytes(path));
        Self { path, why: why.to_string() }
    }
}

impl JoinReport {
    pub(crate) fn leave(&mut self, disk: &Disk, path: impl AsRef<[u8]>, why: impl ToString) {
        self.left.push(Left::new(disk, path.as_ref(), why));
    }
}
