//! Files of a local file system that the kernel reads and writes by itself (FUSE passthrough, Linux
//! 6.9 with `CONFIG_FUSE_PASSTHROUGH`).
//!
//! ```text
//!   handler ── BackingFiles::register(descriptor) ──> BackingFile, with an id of this mount
//!      |                                                   |
//!      +── reply to OPEN, CREATE: Opened.backing = id <────+
//!   kernel: looks up the id, opens the file again, and keeps it open until the close
//! ```
//!
//! 1. The kernel looks up the id when the reply has been written already. So a [`BackingFile`]
//!    outlives the reply: until the RELEASE of the handle that it was opened with. An open that the
//!    kernel fails by 2 or 4 has a RELEASE too.
//! 2. All files that are open on one node at the same time have the same id. An open with another
//!    id, or without one, fails with EIO, and so does one with an id while another open file of the
//!    node uses the page cache.
//! 3. So while a file is open on the node, its [`BackingFile`] is dropped only if no other open is
//!    to succeed: the open files continue to work, and the number may be given to another file.
//! 4. With `KEEP_CACHE` (and every flag but `DIRECT_IO`, `PARALLEL_DIRECT_WRITES` and `NOFLUSH`)
//!    the open fails with EIO. With `DIRECT_IO` the handler gets READ and WRITE, and mappings use
//!    the backing file.
//! 5. Read, write, splice and mappings bypass the handler. All other calls are requests, with
//!    truncate, fallocate, fsync and SEEK_DATA among them. After a read or a write the kernel asks
//!    for the attributes again; after a store through a mapping, or a change by another way to the
//!    backing file, it uses those that it has until they expire.

mod ioctl;

use super::device::Device;
use rustix::io::Errno;
use std::num::NonZeroI32;
use std::os::fd::AsFd;
use std::sync::Arc;
use thiserror::Error;

/// Registers backing files of one mount. Any thread may use it.
#[derive(Clone, Debug)]
pub struct BackingFiles {
    device: Arc<Device>,
}

/// The number of a registered file, valid for one mount while its [`BackingFile`] exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackingId(NonZeroI32);

/// A registered file. The kernel closes the id when this is dropped, and the file when no open file
/// uses it any more.
#[derive(Debug)]
pub struct BackingFile {
    device: Arc<Device>,
    id: BackingId,
}

/// Why a file could not be registered.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackingError {
    /// The kernel has no passthrough.
    #[error(
        "registering a backing file failed: this kernel has no FUSE passthrough; try: Linux 6.9 \
         or newer with CONFIG_FUSE_PASSTHROUGH"
    )]
    NotSupported,
    /// The thread lacks CAP_SYS_ADMIN in the initial user namespace.
    #[error(
        "registering a backing file failed: CAP_SYS_ADMIN in the initial user namespace is \
         needed; try: as root, outside a container"
    )]
    NotAllowed,
    /// Its file system is itself stacked too high for this mount's `Wanted::stack_depth`.
    #[error(
        "registering a backing file failed: its file system is stacked on another one (overlayfs, \
         or a mount with passthrough); try: a directory of a local file system"
    )]
    TooDeep,
    /// A directory, a device, a pipe, a socket.
    #[error("registering a backing file failed: it is not a regular file")]
    NotRegularFile,
    /// A system call failed for another reason: EBADF (an `O_PATH` descriptor in older kernels),
    /// ENOMEM, ENOSPC (2³¹ - 1 ids exist).
    #[error("registering a backing file failed: {0}")]
    Failed(Errno),
}

impl BackingFiles {
    pub(super) fn new(device: Arc<Device>) -> Self {
        Self { device }
    }

    /// Registers a regular file. Its descriptor may be closed afterwards.
    ///
    /// The kernel opens the file again for each open of the mount, with that open's access mode
    /// and flags and **without a check of permissions**: neither the descriptor's own mode nor
    /// the backing file's mode limits it. The handler's reply to OPEN decides. Reads and writes run
    /// with the credentials of the thread that registers.
    ///
    /// # Errors
    /// See [`BackingError`].
    pub fn register(&self, file: impl AsFd) -> Result<BackingFile, BackingError> {
        let number = ioctl::open(self.device.fd(), file.as_fd()).map_err(BackingError::from)?;
        let id = BackingId::from_number(number).ok_or(BackingError::Failed(Errno::IO))?;
        Ok(BackingFile { device: Arc::clone(&self.device), id })
    }
}

impl BackingId {
    /// `None`: not a number that the kernel gives.
    pub(super) fn from_number(number: i32) -> Option<Self> {
        NonZeroI32::new(number).filter(|number| number.is_positive()).map(Self)
    }

    /// `backing_id` of `fuse_open_out`.
    pub(super) fn number(self) -> i32 {
        self.0.get()
    }
}

impl BackingFile {
    /// For the replies to opens ([`super::Opened::backing`]).
    pub fn id(&self) -> BackingId {
        self.id
    }
}

impl Drop for BackingFile {
    /// Needs CAP_SYS_ADMIN too. Without it the file stays registered until the mount ends.
    fn drop(&mut self) {
        if let Err(error) = ioctl::close(self.device.fd(), self.id.0) {
            tracing::warn!(%error, id = self.id.number(), "closing a backing file's id failed");
        }
    }
}

impl From<Errno> for BackingError {
    fn from(error: Errno) -> Self {
        match error {
            // ENOTTY: before Linux 6.9. EOPNOTSUPP: built without it.
            Errno::NOTTY | Errno::OPNOTSUPP => Self::NotSupported,
            // Also where passthrough was not agreed, but then there are no `BackingFiles`.
            Errno::PERM => Self::NotAllowed,
            Errno::LOOP => Self::TooDeep,
            Errno::INVAL | Errno::ISDIR => Self::NotRegularFile,
            error => Self::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_numbers_above_zero() {
        assert_eq!([i32::MIN, -1, 0].map(BackingId::from_number), [None; 3]);
        assert_eq!(
            [1, i32::MAX].map(|n| BackingId::from_number(n).unwrap().number()),
            [1, i32::MAX]
        );
    }

    #[test]
    fn a_descriptor_that_is_no_fuse_device_has_no_passthrough() {
        let other = tempfile::tempfile().unwrap();
        let files = BackingFiles::new(Arc::new(Device::new(other.into())));
        let file = tempfile::tempfile().unwrap();
        assert_eq!(files.register(&file).unwrap_err(), BackingError::NotSupported);
    }
}
