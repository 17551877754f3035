//! Room in the file system.

use crate::{error::Result, vfs::Vfs};

/// Room; disks that several daemons share are counted once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// All of it, in bytes.
    pub total_bytes: u64,
    /// What may still be written, in bytes.
    pub available_bytes: u64,
    /// Files there are.
    pub files: u64,
}

impl Vfs {
    /// Room in the file system.
    ///
    /// # Errors
    /// The cluster is not reached.
    pub fn room(&self) -> Result<Room> {
        let reply = self.client().statfs()?;
        Ok(Room { total_bytes: reply.total.0, available_bytes: reply.available.0, files: reply.files })
    }
}
