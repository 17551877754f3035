//! Attributes of a file.

use braid_client::{FileIndex, FileKind};

use super::open::is_gone;
use crate::{error::Result, handles::FileHandle, known::Known, vfs::Vfs};

impl Vfs {
    /// The attributes of a file; through a handle also of one whose last name is gone.
    ///
    /// # Errors
    /// The file is gone; the cluster is not reached.
    pub fn attributes(&self, file: FileIndex, handle: Option<FileHandle>) -> Result<Known> {
        if let Some(known) =
            self.holder.cache.attributes(file, |promise| self.holder.holds(promise))
        {
            return Ok(known);
        }
        if let Some(known) = self.holder.attributes_of_buffered(file) {
            return Ok(known);
        }
        // What cannot be written is told to whoever wrote it: the file is as long as it is.
        let (promise, mark) = (self.promise_of(file), self.settled_mark(file));
        let attributes = match handle {
            Some(handle) => self.file(handle)?.file.get()?.attributes()?,
            None => match (self.client().lstat(file), self.removed.attributes(file)) {
                (Err(error), Some(removed)) if is_gone(&error) => return Ok(self.seen(removed)),
                (attributes, _) => attributes?,
            },
        };
        match promise {
            Some(promise) => Ok(self.kept_under(attributes, &promise, mark)),
            None if attributes.kind == FileKind::Directory => {
                self.attributes_of_directory(attributes)
            }
            None => Ok(self.seen(attributes)),
        }
    }

    /// It turns out that it is a directory: asked again under its own promise, if that is to be had.
    fn attributes_of_directory(&self, found: braid_client::Attributes) -> Result<Known> {
        match self.holder.promise(found.file) {
            Some(own) => self.attributes_under(found.file, &own),
            None => Ok(self.seen(found)),
        }
    }
}
