//! The last descriptor of an open file is gone.

use std::sync::Arc;

use crate::{error::Result, files::Bytes, handles::FileHandle, vfs::Vfs};

impl Vfs {
    /// Closes a handle; its own locks go, and the lock on the whole file that `whole` owns. The metadata server
    /// learns of the close a little later, together with others; calls that still run on the handle end as they would have.
    ///
    /// # Errors
    /// No such handle. That writes were lost, if nobody was told yet.
    pub fn release(&self, handle: FileHandle, whole: Option<u64>) -> Result<()> {
        let open = self.open_files.remove(handle.0)?;
        let owners = self.closing_owners(&open, whole);
        // Who wrote it is told: if it was this handle, now.
        let _ = Bytes::settle_at_release(&open);
        let lost = open.lost.tell();
        if let Some(directory) = open.late_in {
            self.holder.late.forget(directory, handle.0);
        }
        let unlocked = self.client().unlock_owners(open.file.index(), &owners);
        // Whoever else still uses it closes it.
        Arc::into_inner(open).map_or(Ok(()), |open| open.file.close())?;
        lost?;
        Ok(unlocked?)
    }
}
