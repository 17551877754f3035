//! Where data and holes begin.

use crate::{
    data::gate::Use,
    error::{Error, Result},
    handles::FileHandle,
    vfs::Vfs,
};

impl Vfs {
    /// The next byte of data at or after `offset`.
    ///
    /// # Errors
    /// [`Error::PastEnd`] when there is none; with the daemon that failed.
    pub fn next_data(&self, handle: FileHandle, offset: u64) -> Result<u64> {
        let open = self.file(handle)?;
        open.bytes.begin(Use::Read)?;
        open.bytes.settle()?;
        open.file.get()?.next_data(offset)?.ok_or(Error::PastEnd)
    }

    /// The next hole at or after `offset`, at the latest the end of the file.
    ///
    /// # Errors
    /// [`Error::PastEnd`] at or past the end; with the daemon that failed.
    pub fn next_hole(&self, handle: FileHandle, offset: u64) -> Result<u64> {
        let open = self.file(handle)?;
        open.bytes.begin(Use::Read)?;
        open.bytes.settle()?;
        open.file.get()?.next_hole(offset)?.ok_or(Error::PastEnd)
    }
}
