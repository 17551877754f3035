//! Locks of programs: on ranges of bytes (`fcntl`), and on whole files (`flock`). They are kept by the metadata server and
//! hold for every mount; who owns one is a number that the gateway gives.
//!
//! ```text
//!   a process        owns ranges; they go when it closes any descriptor of the file         flush(handle, owner)
//!   an open file     owns ranges (OFD) or the whole file; they go with its last descriptor  release(handle, ..)
//! ```
//!
//! That an open file owns a range nobody says when it is closed. But whatever a process owned through this handle went
//! when it closed its descriptor of it: what is left then is the open file's own.

use braid_client::{FileIndex, LockHolder, LockRange, LockRequest, Status};
pub use braid_client::{LockCancelHandle as LockWait, LockSpace};

use crate::{
    error::{Error, Result},
    files::{OpenFile, lock},
    handles::FileHandle,
    vfs::Vfs,
};

/// A lock that somebody wants or has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// Who owns it; the same for all that do not exclude each other.
    pub owner: u64,
    /// The process, for those who ask who is in the way.
    pub pid: u32,
    /// First byte.
    pub start: u64,
    /// Last byte, itself included.
    pub last: u64,
    /// Alone, or with others that are not alone either.
    pub exclusive: bool,
}

impl Vfs {
    /// The lock that would be in the way of this one.
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

    /// Takes a lock at once: the one in the way when there is one.
    ///
    /// # Errors
    /// No such handle; the cluster is not reached, or has no room for more locks.
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

    /// Takes a lock and waits for it, as long as it takes.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after [`Vfs::cancel`]; [`Status::Deadlock`]; the cluster is not reached.
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
    /// The cluster is not reached: the wait ends when it is.
    pub fn cancel(&self, wait: &LockWait) -> Result<()> {
        Ok(self.client().cancel_lock(wait)?)
    }

    /// Lets bytes go.
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

    /// A process has closed a descriptor of the file: all its ranges go, through whichever handle it got them. If they cannot now, as
    /// soon as they can.
    pub(super) fn unlock_process(&self, open: &OpenFile, owner: u64) -> Result<()> {
        lock(&open.lockers).remove(&owner);
        Ok(self.client().unlock_owners(open.file.index(), &[(LockSpace::Range, owner)])?)
    }

    /// The last descriptor of an open file is closed: what it owned itself is to go, before anybody of the same number asks for more.
    pub(super) fn closing_owners(
        &self,
        open: &OpenFile,
        whole: Option<u64>,
    ) -> Vec<(LockSpace, u64)> {
        let ranges = std::mem::take(&mut *lock(&open.lockers));
        let whole = whole.map(|owner| (LockSpace::Whole, owner));
        let owners: Vec<_> =
            ranges.into_iter().map(|owner| (LockSpace::Range, owner)).chain(whole).collect();
        owners
            .iter()
            .for_each(|(space, owner)| self.client().owe_unlock(open.file.index(), *space, *owner));
        owners
    }
}

impl OpenFile {
    /// Notes who has ranges locked through this handle.
    fn locks(&self, space: LockSpace, owner: u64) {
        if space == LockSpace::Range {
            lock(&self.lockers).insert(owner);
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
