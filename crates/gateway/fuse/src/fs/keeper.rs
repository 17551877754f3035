//! What the kernel remembers, dropped when a lease is recalled. docs/adr/0023.
//!
//! Names are expired one by one. `FUSE_NOTIFY_INC_EPOCH` would expire all at once and take no lock, but what was expired so is
//! unhashed before it is looked up: what is mounted below it is unmounted, a working directory there is gone for a moment, and a
//! running program is shown as deleted.

use std::time::{Duration, Instant};

use braid_vfs::{FileIndex, Keeper};
use rustix::io::Errno;

use super::given::{Given, Taken};
use crate::kernel::{Expiry, Invalidation, Notifier};

/// So long before names are expired the last must have been given: a thread that looked a known name up again applies the answer without a lock,
/// when it runs.
const GIVEN_BEFORE: Duration = Duration::from_millis(10);
/// How long a recall waits for the lock of a directory that the kernel holds while it waits for this mount. That request may itself wait for
/// the mount that recalls, so the lease goes back; the names are expired when the lock is free.
const WAIT_LOCKED: Duration = Duration::from_millis(5);
/// And for one that is locked for another reason, which ends by itself: since the last message that the kernel took.
const WAIT: Duration = Duration::from_secs(1);
/// And in all: half of what the metadata server waits for a recall.
const WAIT_ALL: Duration = Duration::from_secs(5);

/// The kernel's memory of one mount.
#[derive(Debug)]
pub(super) struct KernelMemory {
    notifier: Notifier,
    /// `None`: the kernel cannot be told to forget names, so it is given none.
    given: Option<Given>,
}

/// Names of a directory that are being expired.
#[derive(Debug)]
struct Expiring {
    directory: FileIndex,
    begins: Instant,
    invalidation: Invalidation,
}

impl KernelMemory {
    pub(super) fn new(notifier: Notifier, keeps_names: bool) -> Self {
        Self { notifier, given: keeps_names.then(Given::default) }
    }

    /// The names that it was given, if it remembers any.
    pub(super) fn given(&self) -> Option<&Given> {
        self.given.as_ref()
    }

    /// Expires a name once the directory's lock is free, and once more for an answer that is being applied; does not wait for it.
    pub(super) fn expire_later(&self, directory: FileIndex, name: &[u8]) {
        if self.given.is_some() {
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
                Taken { names: vec![name.into()], last: Instant::now() },
            ));
        }
    }

    fn expire(
        &self,
        directory: FileIndex,
        files: &[FileIndex],
        Taken { names, last }: Taken,
    ) -> Expiring {
        let (files, begins) = (files.iter().map(|file| file.0).collect(), last + GIVEN_BEFORE);
        let expiry = Expiry { directory: directory.0, names, files, not_before: Some(begins) };
        Expiring {
            directory,
            begins: begins.max(Instant::now()),
            invalidation: self.notifier.expire(expiry),
        }
    }

    /// Until all are expired, but for what the kernel keeps locked.
    fn wait(&self, given: &Given, expiring: &[Expiring]) {
        let begun = Instant::now();
        let (mut moved, mut sent) = (begun, 0);
        for Expiring { directory, begins, invalidation } in expiring {
            loop {
                if let Some(result) = invalidation.wait_for(Duration::ZERO) {
                    told(result);
                    break;
                }
                let now = Instant::now();
                if now >= *begins + WAIT_LOCKED
                    && given.is_locked_since(*directory, now.checked_sub(WAIT_LOCKED))
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
                    tracing::warn!(%directory, ?invalidation, "the kernel does not let go of a directory's lock: it may show old names until it does");
                    break;
                }
                let _ = invalidation.wait_for(WAIT_LOCKED);
            }
        }
    }
}

impl Keeper for KernelMemory {
    fn drop_names(&self, directories: &[(FileIndex, Vec<FileIndex>)]) {
        // What takes no lock first.
        for file in
            directories.iter().flat_map(|(directory, files)| files.iter().chain([directory]))
        {
            told(self.notifier.inval_attributes(file.0));
        }
        let Some(given) = &self.given else { return };
        let taken = |(directory, files): &(FileIndex, Vec<FileIndex>)| {
            let taken = given.take(*directory, Instant::now())?;
            Some(self.expire(*directory, files, taken))
        };
        let expiring: Vec<Expiring> = directories.iter().filter_map(taken).collect();
        self.wait(given, &expiring);
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
        Err(error) => {
            tracing::error!(%error, "the kernel was not told to forget: it may show what is no longer true")
        }
    }
}
