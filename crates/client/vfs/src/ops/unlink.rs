//! Removing names. A file that is open stays usable through its handles.

use braid_client::FileIndex;

use super::name;
use crate::{error::Result, vfs::Vfs};

impl Vfs {
    /// Removes a name of something that is not a directory.
    ///
    /// # Errors
    /// It is a directory, or not there; the cluster refuses or is not reached.
    pub fn unlink(&self, directory: FileIndex, wanted: &[u8]) -> Result<()> {
        let _removing = self.holder.cache.removing([directory; 2]);
        let _removing = self.holder.late.removing(&[directory]);
        let done = self.client().unlink((directory, name(wanted)?));
        self.removed(directory, wanted, done)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// It is not empty, no directory, or not there; the cluster refuses or is not reached.
    pub fn remove_directory(&self, directory: FileIndex, wanted: &[u8]) -> Result<()> {
        let _removing = self.holder.cache.removing([directory; 2]);
        let done = self.client().rmdir((directory, name(wanted)?));
        self.removed(directory, wanted, done)
    }

    fn removed(&self, directory: FileIndex, wanted: &[u8], done: braid_client::Result<()>) -> Result<()> {
        match &done {
            Ok(()) => self.holder.cache.remove_name(directory, wanted),
            // Whether it was removed may not be known.
            Err(_) => self.holder.cache.change_name(directory, wanted),
        }
        Ok(done?)
    }
}
