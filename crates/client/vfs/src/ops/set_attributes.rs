//! Changes of attributes. A size cuts the file or extends it with zeros.

use braid_client::{AttributeChanges, FileIndex, FileKind};

use crate::{error::Result, files::without_privileges, handles::FileHandle, known::Known, vfs::Vfs};

impl Vfs {
    /// Changes attributes, all in one call. A size through a handle that is open for writing needs no permission of the
    /// file as it is now. With `kill_privileges` setuid and setgid go, as POSIX wants of a change by somebody else.
    ///
    /// # Errors
    /// The file is gone; the cluster refuses or is not reached.
    pub fn set_attributes(
        &self,
        file: FileIndex,
        handle: Option<FileHandle>,
        mut changes: AttributeChanges,
        kill_privileges: bool,
    ) -> Result<Known> {
        if kill_privileges && changes.mode.is_none() {
            changes.mode = self.mode_to_be(file)?;
        }
        if let (Some(handle), Some(bytes)) = (handle, changes.bytes) {
            let open = self.file(handle)?;
            let only_size = AttributeChanges { bytes: Some(bytes), ..AttributeChanges::none() } == changes;
            if open.access.write && only_size {
                return Ok(self.seen(open.file.set_len(bytes.0)?));
            }
        }
        Ok(self.seen(self.client().set_attributes(file, false, changes)?))
    }

    fn mode_to_be(&self, file: FileIndex) -> Result<Option<u32>> {
        let now = self.client().lstat(file)?;
        Ok(if now.kind == FileKind::File { without_privileges(now.mode) } else { None })
    }
}
