//! Copying from file to file.

use crate::{error::Result, handles::FileHandle, vfs::Vfs};

impl Vfs {
    /// Copies a range, or its beginning; returns how many bytes. Fewer than asked for also when the source ends. Where both
    /// ranges lie alike on the I/O daemons these copy it among themselves.
    ///
    /// # Errors
    /// A handle is not open for it; with the daemon that failed, when nothing was copied before.
    pub fn copy_range(&self, from: (FileHandle, u64), to: (FileHandle, u64), bytes: u64) -> Result<u64> {
        let (source, target) = (self.readable(from.0)?, self.writable(to.0)?);
        let copied = target.file.copy_range_from(&source.file, from.1, to.1, bytes);
        self.changed(target.file.index());
        Ok(copied?)
    }
}
