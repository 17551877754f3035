//! Reading from an open file.

use braid_client::Pipe;

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

    /// Reads a page, or several, that a kernel keeps: `give` must have handed them out when it returns. They may come in a
    /// pipe that was begun, past this process's memory: only pages do, since nobody writes them while they are under way.
    ///
    /// # Errors
    /// As [`Vfs::read`]; another client does not give the file's lease back.
    pub fn read_page<R>(
        &self,
        handle: FileHandle,
        offset: u64,
        buffer: &mut [u8],
        pipe: Option<&mut Pipe>,
        give: impl FnOnce(Page<'_>) -> R,
    ) -> Result<R> {
        let open = self.file(handle)?;
        let _under = open.bytes.begin(Use::Page)?;
        open.bytes.settle()?;
        let file = open.file.get()?;
        let Some(pipe) = pipe else {
            let got = file.read_at(buffer, offset)?;
            return Ok(give(Page::Bytes(&buffer[..got])));
        };
        let got = file.read_at_into_pipe(buffer, offset, pipe)?;
        Ok(match pipe.payload_bytes() {
            0 => give(Page::Bytes(&buffer[..got])),
            _ => give(Page::Piped(pipe)),
        })
    }
}

/// Where the bytes of pages are that were read for a kernel.
#[derive(Debug)]
pub enum Page<'a> {
    /// Here; fewer than asked for at the end of the file.
    Bytes(&'a [u8]),
    /// In the pipe, behind what it was begun with: as many as were asked for.
    Piped(&'a mut Pipe),
}
