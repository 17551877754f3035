//! The last descriptor of an open file is gone.

use std::sync::Arc;

use crate::{error::Result, handles::FileHandle, vfs::Vfs};

impl Vfs {
    /// Closes a handle. The metadata server learns it a little later, together with other closes; calls that still run
    /// on the handle end as they would have.
    ///
    /// # Errors
    /// No such handle. That writes were lost, if nobody was told yet.
    pub fn release(&self, handle: FileHandle) -> Result<()> {
        let open = self.open_files.remove(handle.0)?;
        // Whoever else still uses it closes it.
        Ok(Arc::into_inner(open).map_or(Ok(()), |open| open.file.close())?)
    }
}
