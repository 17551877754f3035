//! What a name in a directory leads to.

use braid_client::{FileIndex, Status};

use super::name;
use crate::{error::Result, known::Looked, vfs::Vfs};

impl Vfs {
    /// What `wanted` in the directory leads to; a symbolic link is not followed. `.` and `..` are understood.
    ///
    /// # Errors
    /// The directory is gone or none; a name of more than 255 bytes; the cluster is not reached.
    pub fn look_up(&self, directory: FileIndex, wanted: &[u8]) -> Result<Looked> {
        match self.client().lstat((directory, name(wanted)?)) {
            Ok(attributes) => Ok(Looked::Found(self.seen(attributes))),
            Err(error) if error.status() == Status::NotFound => Ok(Looked::Absent { cacheable: false }),
            Err(error) => Err(error.into()),
        }
    }
}
