//! `SEEK_DATA` and `SEEK_HOLE`.

use std::sync::Arc;

use crate::{
    data::lease_state::DataUse,
    error::{Error, Result},
    open::{handles::FileHandle, open_file::OpenFile},
    vfs::Vfs,
};

impl Vfs {
    /// The next byte of data at or after `offset`.
    ///
    /// # Errors
    /// [`Error::PastEnd`] when there is none; a daemon failed.
    pub fn next_data(&self, handle: FileHandle, offset: u64) -> Result<u64> {
        let open = self.with_all_written(handle)?;
        open.file.get()?.next_data(offset)?.ok_or(Error::PastEnd)
    }

    /// The next hole at or after `offset`, at the latest the end of the file.
    ///
    /// # Errors
    /// [`Error::PastEnd`] at or past the end; a daemon failed.
    pub fn next_hole(&self, handle: FileHandle, offset: u64) -> Result<u64> {
        let open = self.with_all_written(handle)?;
        open.file.get()?.next_hole(offset)?.ok_or(Error::PastEnd)
    }

    /// The open file, once everything written to it is at the daemons: also the bytes that this
    /// mount buffers and the dirty pages of its kernel.
    fn with_all_written(&self, handle: FileHandle) -> Result<Arc<OpenFile>> {
        let open = self.file(handle)?;
        self.caches.begin(&open.data, DataUse::Read)?;
        // The kernel holds the inode lock for a seek; reading or writing a page does not need it.
        self.caches.drop_dirty_pages(&open.data);
        self.caches.flush(&open.data)?;
        Ok(open)
    }
}
