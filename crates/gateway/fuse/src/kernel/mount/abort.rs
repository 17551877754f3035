//! The kernel's own way to end a FUSE connection from outside (`fusectl`): every request that waits gets an error, read by
//! the mount or not.

use super::MountEntry;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Where systems mount `fusectl`. What is in there belongs to who mounted, also if that is an ordinary user.
const USUAL: &str = "/sys/fs/fuse/connections";

/// Ends one connection, and never another one: the kernel numbers connections anew, and what is open here stays with
/// that one, and does nothing when it is over. Does not keep it.
#[derive(Debug)]
pub struct Abort(OwnedFd);

impl MountEntry {
    /// For a mount that is in its place now. EPERM, EACCES: only root and who mounted may, who needs the usual `fusectl`.
    pub fn abort(&self) -> io::Result<Abort> {
        let number = self.connection().ok_or(Errno::INVAL)?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(format!("{USUAL}/{number}/abort"), flags, Mode::empty())
        {
            Ok(fd) => fd,
            // Containers and small systems have none.
            Err(_) => {
                rustix::fs::openat(control()?, format!("{number}/abort"), flags, Mode::empty())?
            }
        };
        Ok(Abort(opened))
    }
}

/// An instance of `fusectl` that is in nobody's tree, and gone with its last descriptor. (A mount in a namespace of its own
/// would need one, whose copies of all mounts keep them from ending.)
fn control() -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

impl Abort {
    /// Does it; programs get ECONNABORTED or ENOTCONN from there on. Nothing if it is over already.
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
    /// What another process opened.
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}
