//! Forcing data to disk, and reporting lost writes.

use crate::{consistency::Consistency, error::Result, open::handles::FileHandle, vfs::Vfs};

impl Vfs {
    /// Forces everything written to the file to disk: data on every daemon, size and name (I6). As
    /// with `fsync`, that includes the writes of other handles. `fdatasync` could leave out
    /// nothing: the size is data, and times come with it. In the cache mode `commit`, later reads
    /// see what other clients have committed.
    ///
    /// # Errors
    /// Writes were lost, once for each open file; a server failed.
    pub fn sync(&self, handle: FileHandle) -> Result<()> {
        let open = self.file(handle)?;
        // An earlier loss is reported by this call, too.
        let flushed = self.caches.flush(&open.data).and_then(|()| open.write_error.check());
        let synced = match &flushed {
            // The server is not waited for a second time.
            Err(error) if error.is_server_unresponsive() => Ok(()),
            _ => open.file.get().and_then(|file| Ok(file.sync().map(drop)?)),
        };
        // Each of these errors is reported now, whichever is returned.
        let closed = self.caches.buffers.errors.report_closed(open.file.index());
        open.write_error.report()?;
        flushed?;
        closed?;
        synced?;
        if self.consistency() == Consistency::Commit {
            self.caches.drop_relaxed_pages(&open.data);
        }
        Ok(())
    }

    /// Forces everything to disk that was written before, as `syncfs(2)` does: the writes of this
    /// mount, also to files that are closed by now, with names and attributes, and what the servers
    /// have acknowledged to other clients. Bytes that other mounts buffer are not included.
    ///
    /// # Errors
    /// A server failed; writes of this mount were lost, once, even if another call has reported it.
    pub fn sync_all(&self) -> Result<()> {
        let flushed = self.caches.flush_all();
        // An unresponsive server is not waited for a second time.
        if let Err(error) = &flushed
            && error.is_server_unresponsive()
        {
            return flushed;
        }
        let synced = self.client().sync_all();
        flushed?;
        Ok(synced?)
    }

    /// One of several descriptors of an open file is closed: the buffered bytes of its process
    /// (`owner`) are sent, and its ranges are unlocked.
    ///
    /// # Errors
    /// Daemons lost writes, once for each open file. Buffered bytes were lost, each time until
    /// [`Vfs::sync`] has reported it: a child process ignores errors of descriptors that it
    /// inherited. The locks could not be unlocked.
    pub fn flush(&self, handle: FileHandle, owner: Option<u64>) -> Result<()> {
        let open = self.file(handle)?;
        // `open.lost` has the error, if this handle wrote the bytes.
        let _ = self.caches.flush_at_close(&open, owner);
        let unlocked = owner.map_or(Ok(()), |owner| self.unlock_process(&open, owner));
        open.write_error.check()?;
        open.file.check_loss()?;
        unlocked
    }
}
