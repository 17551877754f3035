//! Targets of symbolic links.

use braid_client::FileIndex;

use crate::{error::Result, vfs::Vfs};

impl Vfs {
    /// The target of a symbolic link.
    ///
    /// # Errors
    /// It is not a symbolic link, or is gone; the cluster is not reached.
    pub fn read_link(&self, link: FileIndex) -> Result<Vec<u8>> {
        Ok(self.client().read_link(link)?)
    }
}
