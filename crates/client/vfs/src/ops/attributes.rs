//! Attributes of a file.

use braid_client::{FileIndex, FileKind};

use super::open::is_gone;
use crate::{
    error::Result, names::cached_attributes::CachedAttributes, open::handles::FileHandle, vfs::Vfs,
};

impl Vfs {
    /// The attributes of a file. With a handle, also of a file whose last name was removed.
    ///
    /// # Errors
    /// The file is gone; the cluster is not reached.
    pub fn attributes(
        &self,
        file: FileIndex,
        handle: Option<FileHandle>,
    ) -> Result<CachedAttributes> {
        if let Some(known) = self.caches.names.attributes(file, |lease| self.caches.is_valid(lease))
        {
            return Ok(known);
        }
        if let Some(known) = self.caches.attributes_of_buffered(file) {
            return Ok(known);
        }
        // A write error is reported to the handle that wrote the bytes, and not here.
        let (lease, mark) = (self.names_lease_of(file), self.flush_and_mark(file));
        let attributes = match handle {
            Some(handle) => self.file(handle)?.file.get()?.attributes()?,
            None => match (self.client().lstat(file), self.removed.attributes(file)) {
                (Err(error), Some(removed)) if is_gone(&error) => {
                    return Ok(self.uncacheable(removed));
                }
                (attributes, _) => attributes?,
            },
        };
        match lease {
            Some(lease) => Ok(self.cache_under(attributes, &lease, mark)),
            None if attributes.kind == FileKind::Directory => {
                self.attributes_of_directory(attributes)
            }
            None => Ok(self.uncacheable(attributes)),
        }
    }

    /// For a file that turns out to be a directory: asks again under its own lease, if there is
    /// one.
    fn attributes_of_directory(&self, found: braid_client::Attributes) -> Result<CachedAttributes> {
        match self.caches.names_lease(found.file) {
            Some(own) => self.attributes_under(found.file, &own),
            None => Ok(self.uncacheable(found)),
        }
    }
}
