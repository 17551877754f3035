//! A further name of a file.

use braid_client::FileIndex;

use super::name;
use crate::{error::Result, known::Known, vfs::Vfs};

impl Vfs {
    /// Gives a file another name; also one that was made without any.
    ///
    /// # Errors
    /// The name is taken; the file is a directory; the cluster refuses or is not reached.
    pub fn link(&self, file: FileIndex, directory: FileIndex, wanted: &[u8]) -> Result<Known> {
        let at = (directory, name(wanted)?);
        let before = self.before_making(at);
        self.holder.attributes_change(file);
        let _ = self.holder.settle_file(file);
        let linked = self.client().hard_link(file, at);
        self.changed(file);
        self.made(at, linked, before, None)
    }
}
