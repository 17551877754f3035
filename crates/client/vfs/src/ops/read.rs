//! Reading from an open file.

use braid_client::Pipe;

use crate::{
    consistency::Consistency, data::gate::Use, error::Result, files::OpenFile, handles::FileHandle,
    vfs::Vfs,
};

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
        let asked = buffer.len();
        let buffer = self.before_the_end(&open, offset, buffer);
        if buffer.is_empty() {
            return Ok(give(Page::Bytes(buffer)));
        }
        let file = open.file.get()?;
        let Some(pipe) = pipe.filter(|_| buffer.len() == asked) else {
            let got = file.read_at(buffer, offset)?;
            return Ok(give(Page::Bytes(&buffer[..got])));
        };
        let got = file.read_at_into_pipe(buffer, offset, pipe)?;
        Ok(match pipe.payload_bytes() {
            0 => give(Page::Bytes(&buffer[..got])),
            _ => give(Page::Piped(pipe)),
        })
    }

    /// The part of a page that lies before the end of the file, where that is known under the leases that pages are read under: of a
    /// read that goes past it only the daemons together know where it ends, and each would be asked.
    fn before_the_end<'b>(
        &self,
        open: &OpenFile,
        offset: u64,
        buffer: &'b mut [u8],
    ) -> &'b mut [u8] {
        if self.consistency() != Consistency::Posix {
            return buffer;
        }
        let Some(end) = self.holder.end_known(open.file.index()) else { return buffer };
        let left = end.saturating_sub(offset);
        let before = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        &mut buffer[..before]
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
