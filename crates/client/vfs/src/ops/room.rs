//! Room in the file system.

use braid_client::FileIndex;

use crate::{error::Result, vfs::Vfs};

/// Room; disks that several daemons share are counted once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// All of it, in bytes.
    pub total_bytes: u64,
    /// What may still be written, in bytes.
    pub available_bytes: u64,
    /// What nobody has taken: that, and what disks keep for root.
    pub free_bytes: u64,
    /// Files there are.
    pub files: u64,
    /// Files there may be, where a quota says so.
    pub files_max: Option<u64>,
}

impl Vfs {
    /// Room in the file system; in a directory with a quota, what that leaves.
    ///
    /// # Errors
    /// The file is gone; the cluster is not reached.
    pub fn room(&self, at: FileIndex) -> Result<Room> {
        let reply = self.client().statfs(at)?;
        Ok(Room {
            total_bytes: reply.total.0,
            available_bytes: reply.available.0,
            free_bytes: reply.free.0,
            files: reply.files,
            files_max: reply.files_max,
        })
    }
}
