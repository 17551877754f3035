//! Where a symbolic link points.

use braid_client::FileIndex;

use crate::{error::Result, vfs::Vfs};

impl Vfs {
    /// The target of a symbolic link, as it was made.
    ///
    /// # Errors
    /// It is no symbolic link, or gone; the cluster is not reached.
    pub fn read_link(&self, link: FileIndex) -> Result<Vec<u8>> {
        Ok(self.client().read_link(link)?)
    }
}
