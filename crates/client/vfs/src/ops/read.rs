//! Reading from an open file.

use crate::{data::gate::Use, error::Result, handles::FileHandle, vfs::Vfs};

impl Vfs {
    /// Reads at an offset, straight from the sockets into `buffer`. Returns how many bytes: fewer than there is room
    /// for only at the end of the file.
    ///
    /// # Errors
    /// The handle is not open for reading; with the daemon that failed.
    pub fn read(&self, handle: FileHandle, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let open = self.readable(handle)?;
        open.bytes.begin(Use::Read)?;
        open.bytes.settle()?;
        Ok(open.file.get()?.read_at(buffer, offset)?)
    }

    /// Reads a page, or several, that a kernel keeps: `give` must have handed them out when it returns.
    ///
    /// # Errors
    /// As [`Vfs::read`]; another client does not give the file's lease back.
    pub fn read_page<R>(
        &self,
        handle: FileHandle,
        offset: u64,
        buffer: &mut [u8],
        give: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        let open = self.file(handle)?;
        let _under = open.bytes.begin(Use::Page)?;
        open.bytes.settle()?;
        let got = open.file.get()?.read_at(buffer, offset)?;
        Ok(give(&buffer[..got]))
    }
}
