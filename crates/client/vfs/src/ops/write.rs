//! Writing to an open file.

use braid_client::AttributeChanges;

use crate::{data::gate::Use, error::Result, files::OpenFile, handles::FileHandle, known::Known, vfs::Vfs};

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
}

impl Vfs {
    /// Writes all of `bytes` at an offset, straight from the buffer into the sockets.
    ///
    /// # Errors
    /// The handle is not open for writing; with the daemon that failed.
    pub fn write(&self, handle: FileHandle, offset: u64, bytes: &[u8], how: WriteAs) -> Result<usize> {
        let open = self.writable(handle)?;
        if how.kill_privileges {
            self.kill_privileges(&open)?;
        }
        let written = match (how.page, how.append) {
            // Whoever drops pages waits for it: it waits for nobody.
            (true, _) => open.file.get()?.write_at(bytes, offset).map_err(Into::into),
            (false, true) => append(&open, bytes),
            (false, false) => write_at(&open, offset, bytes),
        };
        self.changed(open.file.index());
        let written = written?;
        if how.durable {
            open.file.get()?.sync()?;
        }
        Ok(written)
    }

    /// Takes setuid and setgid away, where the file has them: the attributes after it. Done before the bytes are written: a
    /// program that runs as somebody else is never seen with bytes of a third.
    pub(super) fn kill_privileges(&self, open: &OpenFile) -> Result<Option<Known>> {
        let Some(mode) = open.shared.mode_without_privileges() else { return Ok(None) };
        let changes = AttributeChanges { mode: Some(mode), ..AttributeChanges::none() };
        Ok(Some(self.set_attributes(open.file.index(), None, changes, false)?))
    }
}

fn write_at(open: &OpenFile, offset: u64, bytes: &[u8]) -> Result<usize> {
    let under = open.bytes.begin(Use::Write)?;
    let written = open.file.get()?.write_at(bytes, offset)?;
    open.bytes.written(under.as_ref(), offset, written as u64);
    Ok(written)
}

/// At the end of the file, wherever it is: no other mount writes, cuts or extends it meanwhile, and of this one no other
/// append. Several that write and cut a file on one mount are kept apart by its kernel.
fn append(open: &OpenFile, bytes: &[u8]) -> Result<usize> {
    let _alone_here = open.shared.append_lock();
    let under = open.bytes.begin(Use::Append)?;
    let known = open.bytes.end();
    let end = match known {
        Some(end) => end,
        None => open.file.get()?.size()?,
    };
    open.bytes.ends_at(None);
    let written = open.file.get()?.write_at(bytes, end)?;
    let now = end + written as u64;
    open.bytes.ends_at(under.is_some().then_some(now));
    open.bytes.written(under.as_ref(), end, written as u64);
    Ok(written)
}
