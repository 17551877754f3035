//! Ending a FUSE connection from outside, with `fusectl`: every pending request gets an error,
//! whether the mount has read it or not.

use super::MountEntry;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Where systems mount `fusectl`. Its files belong to the user who mounted the file system.
const USUAL: &str = "/sys/fs/fuse/connections";

/// Ends one connection and never another one: the kernel reuses connection numbers, but this open
/// file stays with its connection, and does nothing after its end. It does not keep the connection
/// alive.
#[derive(Debug)]
pub struct Abort(OwnedFd);

impl MountEntry {
    /// For this mount. EPERM, EACCES: only root and the user who mounted may, and that user needs a
    /// mounted `fusectl`.
    pub fn abort(&self) -> io::Result<Abort> {
        let number = self.connection().ok_or(Errno::INVAL)?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(format!("{USUAL}/{number}/abort"), flags, Mode::empty())
        {
            Ok(fd) => fd,
            // Containers and small systems have no mounted fusectl.
            Err(_) => {
                rustix::fs::openat(control()?, format!("{number}/abort"), flags, Mode::empty())?
            }
        };
        Ok(Abort(opened))
    }
}

/// An instance of `fusectl` that is in no mount tree, and ends with its last descriptor. (Mounting
/// it needs a mount namespace, whose copies of all mounts would prevent their end.)
fn control() -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

impl Abort {
    /// Ends the connection. Programs get ECONNABORTED or ENOTCONN from then on. No effect after its
    /// end.
    pub fn abort(&self) -> io::Result<()> {
        rustix::io::write(&self.0, b"1")?;
        Ok(())
    }
}

impl From<Abort> for OwnedFd {
    fn from(abort: Abort) -> Self {
        abort.0
    }
}

impl From<OwnedFd> for Abort {
    /// From a descriptor that another process opened.
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}
