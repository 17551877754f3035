//! Forcing to disk, and telling of losses.

use crate::{error::Result, handles::FileHandle, vfs::Vfs};

impl Vfs {
    /// Forces everything written to the file to disk: data on every daemon, size and name (I6). Also what other handles
    /// wrote, as `fsync` means it. There is nothing that `fdatasync` could leave out: the size is data, and times come
    /// with it.
    ///
    /// # Errors
    /// Once for each open file, that writes were lost; with the server that failed.
    pub fn sync(&self, handle: FileHandle) -> Result<()> {
        self.file(handle)?.file.sync()?;
        Ok(())
    }

    /// One of several descriptors of an open file is closed: says whether writes are known to be lost.
    ///
    /// # Errors
    /// Once for each open file, that writes were lost.
    pub fn flush(&self, handle: FileHandle) -> Result<()> {
        Ok(self.file(handle)?.file.check_loss()?)
    }
}
