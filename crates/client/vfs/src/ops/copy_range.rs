//! Copying from file to file.

use crate::{data::lease_state::DataUse, error::Result, open::handles::FileHandle, vfs::Vfs};

/// How much one call copies at most: it ends well within the time in which a lease must be
/// returned.
const COPY_BYTES_MAX: u64 = 64 << 20;

impl Vfs {
    /// Copies a range, or the beginning of it, and returns how many bytes. Copies fewer bytes than
    /// asked for where the source ends. Ranges of identical placement are copied by the I/O
    /// daemons. `kill_privileges` clears setuid and setgid of the target, as with a write.
    ///
    /// # Errors
    /// A handle is not open for it; a daemon failed before anything was copied.
    pub fn copy_range(
        &self,
        from: (FileHandle, u64),
        to: (FileHandle, u64),
        bytes: u64,
        kill_privileges: bool,
    ) -> Result<u64> {
        let (source, target) = (self.readable(from.0)?, self.writable(to.0)?);
        self.caches.begin(&source.data, DataUse::Read)?;
        let mut under = self.begin_change(&target, kill_privileges, || {
            self.caches.begin(&target.data, DataUse::Write)
        })?;
        let bytes = bytes.min(COPY_BYTES_MAX);
        under.iter_mut().for_each(|under| under.exclude_write_back(to.1, bytes));
        self.caches.flush(&source.data)?;
        let changing = self.caches.begin_attribute_change(target.file.index());
        self.caches.flush(&target.data)?;
        let copied = target.file.get()?.copy_range_from(source.file.get()?, from.1, to.1, bytes);
        target.data.set_end(None);
        // Also after a failure: a part may be copied.
        self.caches.drop_changed_pages(under.as_ref(), to.1, bytes);
        drop(changing);
        drop(under);
        self.note_change(target.file.index());
        Ok(copied?)
    }
}
