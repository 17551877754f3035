//! Copying from file to file.

use crate::{data::gate::Use, error::Result, handles::FileHandle, vfs::Vfs};

/// What one call copies at most: it ends well within the time in which a lease is to be given back.
const COPY_BYTES_MAX: u64 = 64 << 20;

impl Vfs {
    /// Copies a range, or its beginning; returns how many bytes. Fewer than asked for also when the source ends. Where both
    /// ranges lie alike on the I/O daemons these copy it among themselves. With `kill_privileges` setuid and setgid of the target go,
    /// as with a write.
    ///
    /// # Errors
    /// A handle is not open for it; with the daemon that failed, when nothing was copied before.
    pub fn copy_range(
        &self,
        from: (FileHandle, u64),
        to: (FileHandle, u64),
        bytes: u64,
        kill_privileges: bool,
    ) -> Result<u64> {
        let (source, target) = (self.readable(from.0)?, self.writable(to.0)?);
        source.bytes.begin(Use::Read)?;
        let mut under =
            self.begin_change(&target, kill_privileges, || target.bytes.begin(Use::Write))?;
        let bytes = bytes.min(COPY_BYTES_MAX);
        under.iter_mut().for_each(|under| under.changes(to.1, bytes));
        source.bytes.settle()?;
        self.holder.attributes_change(target.file.index());
        target.bytes.settle()?;
        let copied = target.file.get()?.copy_range_from(source.file.get()?, from.1, to.1, bytes);
        target.bytes.ends_at(None);
        // Also where it failed: a part may be copied.
        target.bytes.drop_changed(under.as_ref(), to.1, bytes);
        drop(under);
        self.changed(target.file.index());
        Ok(copied?)
    }
}
