//! Where data and holes begin.

use std::sync::Arc;

use crate::{
    data::gate::Use,
    error::{Error, Result},
    files::OpenFile,
    handles::FileHandle,
    vfs::Vfs,
};

impl Vfs {
    /// The next byte of data at or after `offset`.
    ///
    /// # Errors
    /// [`Error::PastEnd`] when there is none; with the daemon that failed.
    pub fn next_data(&self, handle: FileHandle, offset: u64) -> Result<u64> {
        let open = self.at_the_daemons(handle)?;
        open.file.get()?.next_data(offset)?.ok_or(Error::PastEnd)
    }

    /// The next hole at or after `offset`, at the latest the end of the file.
    ///
    /// # Errors
    /// [`Error::PastEnd`] at or past the end; with the daemon that failed.
    pub fn next_hole(&self, handle: FileHandle, offset: u64) -> Result<u64> {
        let open = self.at_the_daemons(handle)?;
        open.file.get()?.next_hole(offset)?.ok_or(Error::PastEnd)
    }

    /// The open file, when what was written to it is where it is asked for: also what this mount has gathered, and what its kernel has in
    /// pages.
    fn at_the_daemons(&self, handle: FileHandle) -> Result<Arc<OpenFile>> {
        let open = self.file(handle)?;
        open.bytes.begin(Use::Read)?;
        // The kernel holds the inode's lock for a seek; no page needs that one.
        open.bytes.drop_stored();
        open.bytes.settle()?;
        Ok(open)
    }
}
