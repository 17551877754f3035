//! Further descriptors of a mount.
#![allow(unsafe_code)]

use super::device::Device;
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Setter, opcode};
use std::io;
use std::os::fd::RawFd;

/// `FUSE_DEV_IOC_CLONE`: `_IOR(229, 0, uint32_t)`.
const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);

/// Opens the device again and attaches it to the connection of descriptor `of` of this thread.
///
/// # Errors
/// `of` is not an open FUSE device.
pub(super) fn clone_device(of: RawFd) -> io::Result<Device> {
    let fd = open_device()?;
    let of = u32::try_from(of).map_err(io::Error::other)?;
    // SAFETY: FUSE_DEV_IOC_CLONE reads one u32 through the pointer, which Setter hands to it.
    unsafe { rustix::ioctl::ioctl(&fd, Setter::<CLONE, u32>::new(of))? };
    Ok(Device::new(fd))
}

/// Opens a `/dev/fuse` that belongs to no mount yet.
pub(super) fn open_device() -> io::Result<std::os::fd::OwnedFd> {
    Ok(rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}
