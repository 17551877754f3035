//! Drops the kernel's caches when a lease is recalled. docs/adr/0023.
//!
//! Names are expired one by one. `FUSE_NOTIFY_INC_EPOCH` would expire all names together and take
//! no lock. But the kernel unhashes such a name before it looks it up again: file systems mounted
//! below it are unmounted, a working directory there disappears for a moment, and a running program
//! is shown as deleted.

use std::time::{Duration, Instant};

use braid_vfs::{CacheInvalidator, FileIndex};
use rustix::io::Errno;

use super::kernel_names::{KernelNames, TakenNames};
use crate::kernel::{Expiry, Invalidation, Notifier};

/// How long after the last reply names are expired. A thread that looks up a known name again
/// applies the reply without a lock, and possibly a little later.
const APPLIED_AFTER: Duration = Duration::from_millis(10);
/// How long a recall waits for a directory's lock that the kernel holds while it waits for this
/// mount. That request may itself wait for the client that needs the lease, so the lease is
/// returned; the names are expired when the lock is free.
const WAIT_LOCKED: Duration = Duration::from_millis(5);
/// How long it waits for a lock that is held for another reason, which ends by itself; counted from
/// the last message that the kernel accepted.
const WAIT: Duration = Duration::from_secs(1);
/// How long it waits in total: half of what the metadata server allows for a recall.
const WAIT_ALL: Duration = Duration::from_secs(5);

/// The kernel's caches of one mount.
#[derive(Debug)]
pub(super) struct KernelCache {
    notifier: Notifier,
    /// `None`: the kernel cannot expire names, so none is cacheable.
    noted: Option<KernelNames>,
}

/// Names of a directory that are being expired.
#[derive(Debug)]
struct Expiring {
    directory: FileIndex,
    begins: Instant,
    invalidation: Invalidation,
}

impl KernelCache {
    pub(super) fn new(notifier: Notifier, keeps_names: bool) -> Self {
        Self { notifier, noted: keeps_names.then(KernelNames::default) }
    }

    /// The names that the kernel may cache, if it may cache any.
    pub(super) fn names(&self) -> Option<&KernelNames> {
        self.noted.as_ref()
    }

    /// Expires a name once the directory's lock is free, and once more for a reply that is being
    /// applied meanwhile. Does not wait for it.
    pub(super) fn expire_later(&self, directory: FileIndex, name: &[u8]) {
        if self.noted.is_some() {
            let now = Expiry {
                directory: directory.0,
                names: vec![name.into()],
                files: Vec::new(),
                not_before: None,
            };
            drop(self.notifier.expire(now));
            drop(self.expire(
                directory,
                &[],
                TakenNames { names: vec![name.into()], last: Instant::now() },
            ));
        }
    }

    fn expire(
        &self,
        directory: FileIndex,
        files: &[FileIndex],
        TakenNames { names, last }: TakenNames,
    ) -> Expiring {
        let (files, begins) = (files.iter().map(|file| file.0).collect(), last + APPLIED_AFTER);
        let expiry = Expiry { directory: directory.0, names, files, not_before: Some(begins) };
        Expiring {
            directory,
            begins: begins.max(Instant::now()),
            invalidation: self.notifier.expire(expiry),
        }
    }

    /// Waits until all names are expired, except in directories that the kernel keeps locked.
    fn wait(&self, noted: &KernelNames, expiring: &[Expiring]) {
        let begun = Instant::now();
        let (mut moved, mut sent) = (begun, 0);
        for Expiring { directory, begins, invalidation } in expiring {
            loop {
                if let Some(result) = invalidation.wait_for(Duration::ZERO) {
                    log_error(result);
                    break;
                }
                let now = Instant::now();
                if now >= *begins + WAIT_LOCKED
                    && noted.is_locked_since(*directory, now.checked_sub(WAIT_LOCKED))
                {
                    break;
                }
                let before = std::mem::replace(
                    &mut sent,
                    expiring.iter().map(|one| one.invalidation.sent()).sum(),
                );
                if sent != before {
                    moved = now;
                }
                if now >= moved + WAIT || now >= begun + WAIT_ALL {
                    tracing::warn!(
                        %directory,
                        ?invalidation,
                        "expiring names failed: the kernel holds the directory's lock for long; \
                         it may show old names until it releases it"
                    );
                    break;
                }
                let _ = invalidation.wait_for(WAIT_LOCKED);
            }
        }
    }
}

impl CacheInvalidator for KernelCache {
    fn drop_names(&self, directories: &[(FileIndex, Vec<FileIndex>)]) {
        // First the drops that take no lock.
        for file in
            directories.iter().flat_map(|(directory, files)| files.iter().chain([directory]))
        {
            log_error(self.notifier.inval_attributes(file.0));
        }
        let Some(noted) = &self.noted else { return };
        let taken = |(directory, files): &(FileIndex, Vec<FileIndex>)| {
            let taken = noted.take(*directory, Instant::now())?;
            Some(self.expire(*directory, files, taken))
        };
        let expiring: Vec<Expiring> = directories.iter().filter_map(taken).collect();
        self.wait(noted, &expiring);
    }

    fn drop_attributes(&self, file: FileIndex) {
        log_error(self.notifier.inval_attributes(file.0));
    }

    fn drop_data(&self, file: FileIndex, offset: u64, bytes: u64) {
        log_error(self.notifier.drop_pages(file.0, offset, bytes));
    }
}

/// Logs an error, unless the mount has ended and caches nothing.
fn log_error(result: Result<(), Errno>) {
    match result {
        Ok(()) | Err(Errno::NODEV | Errno::CONNABORTED | Errno::NOTCONN) => {}
        Err(error) => {
            tracing::error!(%error, "invalidating the kernel's cache failed: it may show old data")
        }
    }
}
