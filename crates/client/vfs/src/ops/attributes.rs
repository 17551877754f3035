//! Attributes of a file.

use braid_client::FileIndex;

use crate::{error::Result, handles::FileHandle, known::Known, vfs::Vfs};

impl Vfs {
    /// The attributes of a file; through a handle also of one whose last name is gone.
    ///
    /// # Errors
    /// The file is gone; the cluster is not reached.
    pub fn attributes(&self, file: FileIndex, handle: Option<FileHandle>) -> Result<Known> {
        let attributes = match handle {
            Some(handle) => self.file(handle)?.file.attributes()?,
            None => self.client().lstat(file)?,
        };
        Ok(self.seen(attributes))
    }
}
