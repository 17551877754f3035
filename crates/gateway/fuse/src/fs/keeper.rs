//! What the kernel remembers, dropped when a lease is recalled. docs/adr/0023.
//!
//! Names are expired one by one. `FUSE_NOTIFY_INC_EPOCH` would expire all at once and take no lock, but what was expired so is
//! unhashed before it is looked up: what is mounted below it is unmounted, a working directory there is gone for a moment, and a
//! running program is shown as deleted.

use std::{
    thread,
    time::{Duration, Instant},
};

use braid_vfs::{FileIndex, Keeper};
use rustix::io::Errno;

use super::given::{Given, Taken};
use crate::kernel::{Invalidation, Notifier};

/// So long before names are expired the last must have been given: a thread that looked a known name up again applies the answer without a lock,
/// when it runs.
const GIVEN_BEFORE: Duration = Duration::from_millis(10);
/// How long a recall waits for the lock of a directory that the kernel holds while it waits for this mount. That request may itself wait for
/// the mount that recalls, so the lease goes back; the names are expired when the lock is free.
const WAIT_LOCKED: Duration = Duration::from_millis(5);
/// And for one that is locked for another reason, which ends by itself.
const WAIT: Duration = Duration::from_secs(1);

/// The kernel's memory of one mount.
#[derive(Debug)]
pub(super) struct KernelMemory {
    notifier: Notifier,
    /// `None`: the kernel cannot be told to forget names, so it is given none.
    given: Option<Given>,
}

impl KernelMemory {
    pub(super) fn new(notifier: Notifier, keeps_names: bool) -> Self {
        Self { notifier, given: keeps_names.then(Given::default) }
    }

    /// The names that it was given, if it remembers any.
    pub(super) fn given(&self) -> Option<&Given> {
        self.given.as_ref()
    }

    /// Expires a name once the directory's lock is free, and does not wait for it.
    pub(super) fn expire_later(&self, directory: FileIndex, name: &[u8]) {
        if self.given.is_some() {
            drop(self.notifier.expire_names(directory.0, vec![name.into()]));
        }
    }

    fn expire(&self, given: &Given, directory: FileIndex, Taken { names, last }: Taken) {
        thread::sleep(GIVEN_BEFORE.saturating_sub(last.elapsed()));
        let expiring = self.notifier.expire_names(directory.0, names);
        let bound = Instant::now() + WAIT;
        loop {
            match expiring.wait_for(WAIT_LOCKED) {
                Some(result) => return told(result),
                None if given.is_locked_since(directory, Instant::now().checked_sub(WAIT_LOCKED)) => return,
                None if Instant::now() >= bound => return self.goes_on(directory, &expiring),
                None => {}
            }
        }
    }

    fn goes_on(&self, directory: FileIndex, expiring: &Invalidation) {
        tracing::warn!(%directory, ?expiring, "the kernel does not let go of a directory's lock: it may show old names until it does");
    }
}

impl Keeper for KernelMemory {
    fn drop_names(&self, directory: FileIndex, files: &[FileIndex]) {
        for file in files.iter().chain([&directory]) {
            told(self.notifier.inval_attributes(file.0));
        }
        if let Some(given) = &self.given
            && let Some(taken) = given.take(directory, Instant::now())
        {
            self.expire(given, directory, taken);
        }
    }

    fn drop_attributes(&self, file: FileIndex) {
        told(self.notifier.inval_attributes(file.0));
    }

    fn drop_data(&self, file: FileIndex, offset: u64, bytes: u64) {
        told(self.notifier.drop_pages(file.0, offset, bytes));
    }
}

/// A mount that is over remembers nothing.
fn told(result: Result<(), Errno>) {
    match result {
        Ok(()) | Err(Errno::NODEV | Errno::CONNABORTED | Errno::NOTCONN) => {}
        Err(error) => tracing::error!(%error, "the kernel was not told to forget: it may show what is no longer true"),
    }
}
