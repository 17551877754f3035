//! Free space of the file system.

use braid_client::FileIndex;

use crate::{error::Result, vfs::Vfs};

/// The space of the file system. A disk that several daemons share is counted once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeSpace {
    /// The size of all disks, in bytes.
    pub total_bytes: u64,
    /// Bytes that may still be written.
    pub available_bytes: u64,
    /// Free bytes: those, and what the disks reserve for root.
    pub free_bytes: u64,
    /// The number of files.
    pub files: u64,
    /// The quota's limit of files, if there is one.
    pub files_max: Option<u64>,
}

impl Vfs {
    /// The free space of the file system; below a directory with a quota, what the quota leaves.
    ///
    /// # Errors
    /// The file is gone; the cluster is not reached.
    pub fn free_space(&self, at: FileIndex) -> Result<FreeSpace> {
        let reply = self.client().statfs(at)?;
        Ok(FreeSpace {
            total_bytes: reply.total.0,
            available_bytes: reply.available.0,
            free_bytes: reply.free.0,
            files: reply.files,
            files_max: reply.files_max,
        })
    }
}
