//! Writing to an open file.

use braid_client::AttributeChanges;

use std::sync::Arc;

use crate::{
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
    pub fn write(&self, handle: FileHandle, offset: u64, bytes: &[u8], how: WriteAs) -> Result<usize> {
        let open = self.writable(handle)?;
        if how.kill_privileges {
            self.kill_privileges(&open)?;
        }
        let written = match (how.page, how.append) {
            // Whoever drops pages waits for it: it waits for nobody, but for daemons. It was stored into after what is gathered.
            (true, _) => open.bytes.settle().and_then(|()| Ok(open.file.get()?.write_at(bytes, offset).map(drop)?)),
            (false, true) => append(&open, bytes, how),
            (false, false) => write_at(&open, (offset, bytes), how),
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

    /// Takes setuid and setgid away, where the file has them: the attributes after it. Done before the bytes are written: a
    /// program that runs as somebody else is never seen with bytes of a third.
    pub(super) fn kill_privileges(&self, open: &OpenFile) -> Result<Option<Known>> {
        let Some(mode) = open.shared.mode_without_privileges() else { return Ok(None) };
        let changes = AttributeChanges { mode: Some(mode), ..AttributeChanges::none() };
        Ok(Some(self.set_attributes(open.file.index(), None, changes, false)?))
    }
}

fn write_at(open: &Arc<OpenFile>, (offset, bytes): (u64, &[u8]), how: WriteAs) -> Result<()> {
    let under = open.bytes.begin_write(Some(offset), bytes.len())?;
    Bytes::put(open, under.as_ref(), (offset, bytes), how)?;
    open.bytes.written(under.as_ref(), offset, bytes.len() as u64);
    Ok(())
}

/// At the end of the file, wherever it is: no other mount writes, cuts or extends it meanwhile, and of this one no other
/// append. Several that write and cut a file on one mount are kept apart by its kernel.
fn append(open: &Arc<OpenFile>, bytes: &[u8], how: WriteAs) -> Result<()> {
    let _alone_here = open.shared.append_lock();
    let under = open.bytes.begin_write(None, bytes.len())?;
    let end = match open.bytes.end() {
        Some(end) => end,
        None => {
            open.bytes.settle()?;
            match open.bytes.end_alone(under.as_ref()) {
                Some(end) => end,
                None => open.file.get()?.size()?,
            }
        }
    };
    open.bytes.ends_at(None);
    open.bytes.expect_write(end);
    Bytes::put(open, under.as_ref(), (end, bytes), how)?;
    open.bytes.ends_at(under.is_some().then_some(end + bytes.len() as u64));
    open.bytes.written(under.as_ref(), end, bytes.len() as u64);
    Ok(())
}
