//! Writing to an open file.

use braid_client::AttributeChanges;

use crate::{error::Result, files::OpenFile, handles::FileHandle, known::Known, vfs::Vfs};

/// How bytes are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteAs {
    /// To the end of the file, wherever it is when they are written; the offset does not count.
    pub append: bool,
    /// They are on disk before the call returns.
    pub durable: bool,
    /// setuid and setgid go, as POSIX wants of a write by somebody without the right to keep them.
    pub kill_privileges: bool,
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
        let written = match how.append {
            true => self.append(&open, bytes),
            false => open.file.write_at(bytes, offset).map_err(Into::into),
        };
        self.changed(open.file.index());
        let written = written?;
        if how.durable {
            open.file.sync()?;
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
