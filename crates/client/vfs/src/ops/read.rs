//! Reading from an open file.

use crate::{error::Result, handles::FileHandle, vfs::Vfs};

impl Vfs {
    /// Reads at an offset, straight from the sockets into `buffer`. Returns how many bytes: fewer than there is room
    /// for only at the end of the file.
    ///
    /// # Errors
    /// The handle is not open for reading; with the daemon that failed.
    pub fn read(&self, handle: FileHandle, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        Ok(self.readable(handle)?.file.read_at(buffer, offset)?)
    }
}
