//! Writing to an open file.

use std::sync::Arc;

use braid_client::FileIndex;

use crate::{
    data::{Under, set_ids::Which},
    error::Result,
    files::{Bytes, OpenFile},
    handles::FileHandle,
    known::Known,
    vfs::Vfs,
};

/// How bytes are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteAs {
    /// To the end of the file, wherever it is when they are written; the offset does not count.
    pub append: bool,
    /// They are on disk before the call returns.
    pub durable: bool,
    /// setuid and setgid go, as POSIX wants of a write by somebody without the right to keep them.
    pub kill_privileges: bool,
    /// They are pages of a mapping, which a kernel writes when it likes, or because it drops them.
    pub page: bool,
    /// They are to be at the daemons before the call returns, as `O_DIRECT` asks: nothing is gathered.
    pub direct: bool,
    /// The process that writes, as its locks are named, if that is known.
    pub owner: Option<u64>,
}

impl Vfs {
    /// Writes all of `bytes` at an offset, straight from the buffer into the sockets; or gathers them, where they follow what
    /// was written before, and are few, or the daemons slow.
    ///
    /// # Errors
    /// The handle is not open for writing; with the daemon that failed. That bytes that were gathered are lost, until a
    /// sync or a close was told.
    pub fn write(
        &self,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        how: WriteAs,
    ) -> Result<usize> {
        let open = self.writable(handle)?;
        let written = match (how.page, how.append) {
            // Whoever drops pages waits for it: it waits for nobody, but for daemons.
            (true, _) => Bytes::put_pages(&open, offset, bytes),
            (false, true) => self.append(&open, bytes, how),
            (false, false) => self.write_at(&open, (offset, bytes), how),
        };
        self.changed(open.file.index());
        written?;
        if how.durable || how.direct {
            open.bytes.settle()?;
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
        let begin = || open.bytes.begin_write(Some(offset), bytes.len());
        let mut under = self.begin_change(open, how.kill_privileges, begin)?;
        under.iter_mut().for_each(|under| under.changes(offset, bytes.len() as u64));
        if let Err(error) = Bytes::put(open, under.as_ref(), (offset, bytes), how) {
            // A part may be written.
            open.bytes.drop_changed(under.as_ref(), offset, bytes.len() as u64);
            return Err(error);
        }
        open.bytes.written(under.as_ref(), offset, bytes.len() as u64);
        Ok(())
    }

    /// At the end of the file, wherever it is: no other mount writes, cuts or extends it meanwhile, and of this one no other
    /// append. Several that write and cut a file on one mount are kept apart by its kernel.
    fn append(&self, open: &Arc<OpenFile>, bytes: &[u8], how: WriteAs) -> Result<()> {
        let _alone_here = open.shared.append_lock();
        let begin = || open.bytes.begin_write(None, bytes.len());
        let mut under = self.begin_change(open, how.kill_privileges, begin)?;
        let length = bytes.len() as u64;
        let end = match open.bytes.begin_append(length) {
            Some(end) => end,
            None => {
                open.bytes.settle()?;
                let end = match open.bytes.end_alone(under.as_ref()) {
                    Some(end) => end,
                    None => open.file.get()?.size()?,
                };
                open.bytes.ends_at(under.is_some().then_some(end + length));
                end
            }
        };
        open.bytes.expect_write(end);
        under.iter_mut().for_each(|under| under.changes(end, length));
        if let Err(error) = Bytes::put(open, under.as_ref(), (end, bytes), how) {
            open.bytes.ends_at(None);
            open.bytes.drop_changed(under.as_ref(), end, length);
            return Err(error);
        }
        open.bytes.written(under.as_ref(), end, length);
        Ok(())
    }

    /// Begins a change of a file's bytes. Capabilities, and with `kill_privileges` setuid and setgid, are gone when this returns, and
    /// stay so until it ended: a program that runs as somebody else is never seen with bytes of a third.
    pub(super) fn begin_change(
        &self,
        open: &OpenFile,
        kill_privileges: bool,
        begin: impl Fn() -> Result<Option<Under>>,
    ) -> Result<Option<Under>> {
        loop {
            let under = begin()?;
            let to_drop = open.bytes.to_drop(under.as_ref(), Which::of(kill_privileges));
            let Some(to_drop) = to_drop else { return Ok(under) };
            // Not while the lease cannot be returned: what the server waits for may wait for that.
            let is_leased = under.as_ref().is_some_and(Under::is_leased);
            drop(under);
            self.drop_set_ids(open.file.index(), to_drop.which())?;
            open.bytes.dropped(to_drop);
            if !is_leased {
                return begin();
            }
        }
    }

    /// Has the metadata server take setuid, setgid and capabilities away from a file as it is: the attributes after it.
    pub(super) fn drop_set_ids(&self, file: FileIndex, which: Which) -> Result<Known> {
        let dropped = self.set_attributes(file, None, which.changes(), false);
        // No kernel looks at the mode again because of a write, and it would run the program with the old one.
        self.holder.drop_attributes(file);
        dropped
    }
}
