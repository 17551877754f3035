//! Locks of programs: on ranges of bytes (`fcntl`) and on whole files (`flock`). The metadata
//! server keeps them, and they hold for every mount. The owner is a number that the gateway gives.
//!
//! ```text
//!   a process     owns ranges, until it closes any descriptor of the file: flush(handle, owner)
//!   an open file  owns ranges (OFD) or the whole file, until its release(handle, ..)
//! ```
//!
//! At a release the kernel does not say that an open file owns ranges. But the ranges of a process
//! ended when it closed its descriptor: those that are left then are the open file's own.

use braid_client::{FileIndex, LockHolder, LockRange, LockRequest, Status};
pub use braid_client::{LockCancelHandle as LockWait, LockSpace};

use crate::{
    error::{Error, Result},
    mutex::lock,
    open::{handles::FileHandle, open_file::OpenFile},
    vfs::Vfs,
};

/// A lock that an owner wants or has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// The owner. Locks of one owner do not conflict.
    pub owner: u64,
    /// The process, for `F_GETLK`.
    pub pid: u32,
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive.
    pub last: u64,
    /// Exclusive, or shared.
    pub exclusive: bool,
}

impl Vfs {
    /// A lock that conflicts with this one.
    ///
    /// # Errors
    /// No such handle; the cluster is not reached.
    pub fn test_lock(
        &self,
        handle: FileHandle,
        space: LockSpace,
        wanted: &Lock,
    ) -> Result<Option<Lock>> {
        let open = self.file(handle)?;
        open.file.get()?;
        Ok(self.client().test_lock(&wanted.request(open.file.index(), space))?.map(Into::into))
    }

    /// Takes a lock without waiting. Returns the conflicting lock, if there is one.
    ///
    /// # Errors
    /// No such handle; the cluster is not reached, or has too many locks.
    pub fn try_lock(
        &self,
        handle: FileHandle,
        space: LockSpace,
        wanted: &Lock,
    ) -> Result<Option<Lock>> {
        let open = self.file(handle)?;
        open.file.get()?;
        open.locks(space, wanted.owner);
        Ok(self.client().try_lock_range(&wanted.request(open.file.index(), space))?.map(Into::into))
    }

    /// Takes a lock and waits for it without a time limit.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after [`Vfs::cancel`]; [`Status::Deadlock`]; the cluster is not
    /// reached.
    pub fn lock(
        &self,
        handle: FileHandle,
        space: LockSpace,
        wanted: &Lock,
        wait: &LockWait,
    ) -> Result<()> {
        let open = self.file(handle)?;
        open.file.get()?;
        open.locks(space, wanted.owner);
        match self.client().lock_range(&wanted.request(open.file.index(), space), wait) {
            Err(error) if error.status() == Status::Interrupted => Err(Error::Interrupted),
            done => Ok(done?),
        }
    }

    /// Ends the wait for a lock from another thread.
    ///
    /// # Errors
    /// The cluster is not reached: the wait ends when it is reached again.
    pub fn cancel(&self, wait: &LockWait) -> Result<()> {
        Ok(self.client().cancel_lock(wait)?)
    }

    /// Unlocks a range.
    ///
    /// # Errors
    /// No such handle; the cluster is not reached.
    pub fn unlock(
        &self,
        handle: FileHandle,
        space: LockSpace,
        owner: u64,
        start: u64,
        last: u64,
    ) -> Result<()> {
        let file = self.file(handle)?.file.index();
        Ok(self.client().unlock_range(&LockRange { file, space, owner, start, last })?)
    }

    /// A process has closed a descriptor of the file: all its ranges are unlocked, through
    /// whichever handle it locked them. If the server is not reached, they are unlocked later.
    pub(super) fn unlock_process(&self, open: &OpenFile, owner: u64) -> Result<()> {
        lock(&open.lock_owners).remove(&owner);
        Ok(self.client().unlock_owners(open.file.index(), &[(LockSpace::Range, owner)])?)
    }

    /// The last descriptor of an open file is closed: records its own locks for unlocking, before
    /// an owner of the same number may ask for more.
    pub(super) fn record_unlocks(
        &self,
        open: &OpenFile,
        whole: Option<u64>,
    ) -> Vec<(LockSpace, u64)> {
        let ranges = std::mem::take(&mut *lock(&open.lock_owners));
        let whole = whole.map(|owner| (LockSpace::Whole, owner));
        let owners: Vec<_> =
            ranges.into_iter().map(|owner| (LockSpace::Range, owner)).chain(whole).collect();
        owners.iter().for_each(|(space, owner)| {
            self.client().defer_unlock(open.file.index(), *space, *owner)
        });
        owners
    }
}

impl OpenFile {
    /// Notes the owner of ranges that are locked through this handle.
    fn locks(&self, space: LockSpace, owner: u64) {
        if space == LockSpace::Range {
            lock(&self.lock_owners).insert(owner);
        }
    }
}

impl Lock {
    fn request(&self, file: FileIndex, space: LockSpace) -> LockRequest {
        let Self { owner, pid, start, last, exclusive } = *self;
        LockRequest { file, space, owner, pid, start, last, exclusive }
    }
}

impl From<LockHolder> for Lock {
    fn from(holder: LockHolder) -> Self {
        let LockHolder { owner, pid, start, last, exclusive, .. } = holder;
        Self { owner, pid, start, last, exclusive }
    }
}
