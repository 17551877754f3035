//! Writing to an open file.

use std::sync::Arc;

use braid_client::FileIndex;

use crate::{
    data::{UseGuard, set_ids::SetIdBits},
    error::Result,
    names::cached_attributes::CachedAttributes,
    open::{handles::FileHandle, open_file::OpenFile},
    vfs::Vfs,
};

/// How bytes are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteAs {
    /// At the end of the file, wherever it is then; the offset does not count.
    pub append: bool,
    /// They are on disk before the call returns.
    pub durable: bool,
    /// Setuid and setgid are cleared, as POSIX requires of a writer without the right to keep them.
    pub kill_privileges: bool,
    /// They are pages of a mapping, which the kernel writes back at any time, or because it drops
    /// them.
    pub page: bool,
    /// They are at the daemons before the call returns, as with `O_DIRECT`: nothing is buffered.
    pub direct: bool,
    /// The process that writes, by its number as a lock owner, if it is known.
    pub owner: Option<u64>,
}

impl Vfs {
    /// Writes all of `bytes` at an offset, directly from the buffer into the sockets. Buffers them
    /// where they continue the last write and are few, or the daemons slow.
    ///
    /// # Errors
    /// The handle is not open for writing; a daemon failed; buffered bytes of this handle are lost,
    /// until an fsync has reported it.
    pub fn write(
        &self,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        how: WriteAs,
    ) -> Result<usize> {
        let open = self.writable(handle)?;
        let written = match (how.page, how.append) {
            // A thread that drops pages waits for it, so it waits only for daemons.
            (true, _) => self.write_pages(&open, offset, bytes),
            (false, true) => self.append(&open, bytes, how),
            (false, false) => self.write_at(&open, (offset, bytes), how),
        };
        self.note_change(open.file.index());
        written?;
        if how.durable || how.direct {
            self.caches.flush(&open.data)?;
        }
        if how.durable {
            open.file.get()?.sync()?;
        }
        Ok(bytes.len())
    }

    fn write_at(
        &self,
        open: &Arc<OpenFile>,
        (offset, bytes): (u64, &[u8]),
        how: WriteAs,
    ) -> Result<()> {
        let begin = || self.caches.begin_write(&open.data, Some(offset), bytes.len());
        let mut under = self.begin_change(open, how.kill_privileges, begin)?;
        under.iter_mut().for_each(|under| under.exclude_write_back(offset, bytes.len() as u64));
        let _changing = self.caches.begin_write_change(under.as_ref());
        if let Err(error) = self.caches.write_or_buffer(open, under.as_ref(), (offset, bytes), how)
        {
            // A part may be written.
            self.note_change(open.file.index());
            self.caches.drop_changed_pages(under.as_ref(), offset, bytes.len() as u64);
            return Err(error);
        }
        self.caches.note_written(&open.data, under.as_ref(), offset, bytes.len() as u64);
        Ok(())
    }

    /// Writes pages of a mapping. They were stored after the buffered bytes were written.
    fn write_pages(&self, open: &OpenFile, offset: u64, bytes: &[u8]) -> Result<()> {
        let all = offset..offset.saturating_add(bytes.len() as u64);
        open.data.write_pages(all, |parts| {
            self.caches.flush(&open.data)?;
            let file = open.file.get()?;
            parts.iter().try_for_each(|part| {
                // Within `bytes`, whose length is a usize.
                let of = (part.start - offset) as usize..(part.end - offset) as usize;
                Ok(file.write_at(&bytes[of], part.start).map(drop)?)
            })
        })
    }

    /// Writes at the end of the file, wherever it is. No other mount writes, truncates or extends
    /// the file meanwhile, and no other call of this mount appends. The kernel of this mount orders
    /// its writes and truncates.
    fn append(&self, open: &Arc<OpenFile>, bytes: &[u8], how: WriteAs) -> Result<()> {
        let _alone_here = open.shared.append_lock();
        let begin = || self.caches.begin_write(&open.data, None, bytes.len());
        let mut under = self.begin_change(open, how.kill_privileges, begin)?;
        let length = bytes.len() as u64;
        let end = match open.data.begin_append(length) {
            Some(end) => end,
            None => {
                self.caches.flush(&open.data)?;
                let end = match self.end_alone(under.as_ref()) {
                    Some(end) => end,
                    None => open.file.get()?.size()?,
                };
                open.data.set_end(under.is_some().then_some(end + length));
                end
            }
        };
        open.data.expect_write(end);
        under.iter_mut().for_each(|under| under.exclude_write_back(end, length));
        let _changing = self.caches.begin_write_change(under.as_ref());
        if let Err(error) = self.caches.write_or_buffer(open, under.as_ref(), (end, bytes), how) {
            open.data.set_end(None);
            self.note_change(open.file.index());
            self.caches.drop_changed_pages(under.as_ref(), end, length);
            return Err(error);
        }
        self.caches.note_written(&open.data, under.as_ref(), end, length);
        Ok(())
    }

    /// Where the file ends, if its attributes are cached and no other client uses it. Its buffer
    /// must be empty.
    fn end_alone(&self, under: Option<&UseGuard>) -> Option<u64> {
        let under = under.filter(|under| under.is_alone())?;
        self.caches.cached_end(under.file())
    }

    /// Begins a change of a file's bytes. Capabilities, and with `kill_privileges` setuid and
    /// setgid, are cleared when this returns, and stay cleared until the change has ended: a
    /// program that runs with another user's rights is never seen with bytes of a third user.
    pub(super) fn begin_change(
        &self,
        open: &OpenFile,
        kill_privileges: bool,
        begin: impl Fn() -> Result<Option<UseGuard>>,
    ) -> Result<Option<UseGuard>> {
        loop {
            let under = begin()?;
            let to_drop =
                open.data.set_ids_to_clear(under.as_ref(), SetIdBits::of(kill_privileges));
            let Some(to_drop) = to_drop else { return Ok(under) };
            // The use must end first: the server may wait for the return of its lease.
            let is_leased = under.as_ref().is_some_and(UseGuard::is_leased);
            drop(under);
            self.clear_set_ids(open.file.index(), to_drop.which())?;
            open.data.set_ids_cleared(to_drop);
            if !is_leased {
                return begin();
            }
        }
    }

    /// Has the metadata server clear setuid, setgid and capabilities of a file. Returns the new
    /// attributes.
    pub(super) fn clear_set_ids(
        &self,
        file: FileIndex,
        which: SetIdBits,
    ) -> Result<CachedAttributes> {
        let dropped = self.set_attributes(file, None, which.changes(), false);
        // The kernel does not ask for the mode after a write, and would run the program with the
        // old one.
        self.caches.drop_attributes(file);
        dropped
    }
}
