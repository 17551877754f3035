//! What the kernel remembers, dropped when a lease is recalled.
//!
//! Names go all at once, by a new epoch of the mount: `FUSE_NOTIFY_INVAL_ENTRY` would take the directory's lock, which a
//! create of this kernel holds that may itself wait for another mount's recall. What is still true of them is looked up
//! again, in `vfs`'s memory.

use braid_vfs::{FileIndex, Keeper};
use rustix::io::Errno;

use crate::kernel::Notifier;

/// The kernel's memory of one mount.
#[derive(Debug)]
pub(super) struct KernelMemory {
    notifier: Notifier,
    /// Names were handed out as to be remembered.
    keeps_names: bool,
}

impl KernelMemory {
    pub(super) fn new(notifier: Notifier, keeps_names: bool) -> Self {
        Self { notifier, keeps_names }
    }
}

impl Keeper for KernelMemory {
    fn drop_names(&self, directory: FileIndex, files: &[FileIndex]) {
        if self.keeps_names {
            told(self.notifier.inc_epoch());
        }
        for file in files.iter().chain([&directory]) {
            told(self.notifier.inval_attributes(file.0));
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
