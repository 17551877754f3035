//! Reading from an open file.

use braid_client::Pipe;

use crate::{
    consistency::Consistency,
    data::lease_state::DataUse,
    error::Result,
    open::{handles::FileHandle, open_file::OpenFile},
    vfs::Vfs,
};

impl Vfs {
    /// Reads at an offset, directly from the sockets into `buffer`. Returns how many bytes: fewer
    /// than the buffer holds only at the end of the file.
    ///
    /// # Errors
    /// The handle is not open for reading; a daemon failed.
    pub fn read(&self, handle: FileHandle, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let open = self.readable(handle)?;
        self.caches.begin(&open.data, DataUse::Read)?;
        self.caches.flush(&open.data)?;
        Ok(open.file.get()?.read_at(buffer, offset)?)
    }

    /// Reads one or more pages that a kernel caches. `give` must have handed them to the kernel
    /// when it returns. They may arrive in a pipe, without a copy in this process's memory. Only
    /// pages do, since nothing writes them while they are being read.
    ///
    /// # Errors
    /// As [`Vfs::read`]; another client does not return its lease of the file in time.
    pub fn read_page<R>(
        &self,
        handle: FileHandle,
        offset: u64,
        buffer: &mut [u8],
        pipe: Option<&mut Pipe>,
        give: impl FnOnce(Page<'_>) -> R,
    ) -> Result<R> {
        let open = self.file(handle)?;
        let _under = self.caches.begin(&open.data, DataUse::Page)?;
        self.caches.flush(&open.data)?;
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

    /// The part of a page before the end of the file, where the end is known under the page's
    /// leases. For a read past the end every daemon would be asked, since only all of them together
    /// know it.
    fn before_the_end<'b>(
        &self,
        open: &OpenFile,
        offset: u64,
        buffer: &'b mut [u8],
    ) -> &'b mut [u8] {
        if self.consistency() != Consistency::Posix {
            return buffer;
        }
        let Some(end) = self.caches.cached_end(open.file.index()) else { return buffer };
        let left = end.saturating_sub(offset);
        let before = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        &mut buffer[..before]
    }
}

/// Pages that were read for a kernel.
#[derive(Debug)]
pub enum Page<'a> {
    /// In memory; fewer than asked for at the end of the file.
    Bytes(&'a [u8]),
    /// In the pipe, behind the header that was written to it first: as many as were asked for.
    Piped(&'a mut Pipe),
}
