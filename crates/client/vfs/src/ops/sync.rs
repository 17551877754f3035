//! Forcing to disk, and telling of losses.

use crate::{consistency::Consistency, error::Result, files::Bytes, handles::FileHandle, vfs::Vfs};

impl Vfs {
    /// Forces everything written to the file to disk: data on every daemon, size and name (I6). Also what other handles
    /// wrote, as `fsync` means it. There is nothing that `fdatasync` could leave out: the size is data, and times come
    /// with it. On a mount that is coherent by commits, reads see from then on what others committed.
    ///
    /// # Errors
    /// Once for each open file, that writes were lost; with the server that failed.
    pub fn sync(&self, handle: FileHandle) -> Result<()> {
        let open = self.file(handle)?;
        // What was lost before this came is told by this, too.
        let settled = open.bytes.settle().and_then(|()| open.lost.check());
        let synced = match &settled {
            // It would be waited for once more.
            Err(error) if error.is_of_server_away() => Ok(()),
            _ => open.file.get().and_then(|file| Ok(file.sync().map(drop)?)),
        };
        // Told by one of them, it is told.
        let closed = open.bytes.tell_closed();
        open.lost.tell()?;
        settled?;
        closed?;
        synced?;
        if self.consistency() == Consistency::Commit {
            open.bytes.drop_weak();
        }
        Ok(())
    }

    /// Forces everything to disk that was written before, as `syncfs(2)` does: on this mount, to files that are closed by now too, with
    /// names and attributes; and what others had acknowledged by the servers. What other mounts gather is theirs.
    ///
    /// # Errors
    /// With the server that failed. Once, that writes of this mount were lost, whoever was told of it before.
    pub fn sync_all(&self) -> Result<()> {
        let gathered = self.holder.settle_all();
        // A server that is away would be waited for once more.
        if let Err(error) = &gathered
            && error.is_of_server_away()
        {
            return gathered;
        }
        let synced = self.client().sync_all();
        gathered?;
        Ok(synced?)
    }

    /// One of several descriptors of an open file is closed: what its process (`owner`) wrote and was gathered is sent, ranges that it
    /// has locked go. Says whether writes are known to be lost.
    ///
    /// # Errors
    /// Once for each open file, that daemons lost writes. Each time until [`Vfs::sync`] has said so, that what was gathered is
    /// lost: a program that was started looks at no error of what it inherited. The locks could not be let go.
    pub fn flush(&self, handle: FileHandle, owner: Option<u64>) -> Result<()> {
        let open = self.file(handle)?;
        // Who wrote it is told: if it was this handle, now.
        let _ = Bytes::settle_at_close(&open, owner);
        let unlocked = owner.map_or(Ok(()), |owner| self.unlock_process(&open, owner));
        open.lost.check()?;
        open.file.check_loss()?;
        unlocked
    }
}
