//! Closing the last descriptor of an open file.

use std::sync::Arc;

use crate::{error::Result, open::handles::FileHandle, vfs::Vfs};

impl Vfs {
    /// Closes a handle and unlocks its own locks, and the lock on the whole file that `whole` owns.
    /// The close is sent to the metadata server a little later, together with others. Calls that
    /// still run on the handle finish as usual.
    ///
    /// # Errors
    /// No such handle; writes were lost, and no call has reported it.
    pub fn release(&self, handle: FileHandle, whole: Option<u64>) -> Result<()> {
        let open = self.open_files.remove(handle.0)?;
        let owners = self.record_unlocks(&open, whole);
        // `open.lost` has the error, if this handle wrote the bytes.
        let _ = self.caches.flush_at_release(&open);
        let lost = open.write_error.report();
        if let Some(directory) = open.lazy_in {
            self.caches.lazy_opens.forget(directory, handle.0);
        }
        let unlocked = self.client().unlock_owners(open.file.index(), &owners);
        // If another thread still uses the file, its reference closes it.
        Arc::into_inner(open).map_or(Ok(()), |open| open.file.close())?;
        lost?;
        Ok(unlocked?)
    }
}
