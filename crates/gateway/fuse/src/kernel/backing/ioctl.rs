//! The two calls that register a backing file and close its id.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, opcode};
use std::ffi::c_void;
use std::num::NonZeroI32;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::from_mut;

/// `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    fd: i32,
    /// None is defined in protocol 7.45.
    flags: u32,
    padding: u64,
}

/// `FUSE_DEV_IOC_BACKING_OPEN`: `_IOW(229, 1, struct fuse_backing_map)`.
const OPEN: Opcode = opcode::write::<BackingMap>(229, 1);
/// `FUSE_DEV_IOC_BACKING_CLOSE`: `_IOW(229, 2, uint32_t)`.
const CLOSE: Opcode = opcode::write::<u32>(229, 2);

/// Returns the id.
pub(super) fn open(device: &OwnedFd, file: BorrowedFd<'_>) -> Result<i32, Errno> {
    let map = BackingMap { fd: file.as_raw_fd(), flags: 0, padding: 0 };
    // SAFETY: FUSE_DEV_IOC_BACKING_OPEN reads one BackingMap through the pointer, which Register
    // hands to it. The kernel takes its own reference to the file, which is open during the call.
    unsafe { rustix::ioctl::ioctl(device, Register(map)) }
}

pub(super) fn close(device: &OwnedFd, id: NonZeroI32) -> Result<(), Errno> {
    // SAFETY: FUSE_DEV_IOC_BACKING_CLOSE reads one u32 through the pointer, which Setter hands to
    // it.
    unsafe { rustix::ioctl::ioctl(device, Setter::<CLOSE, u32>::new(id.get().cast_unsigned())) }
}

/// As `Setter`, with the call's result.
struct Register(BackingMap);

// SAFETY: the opcode belongs to the structure that the pointer points to, and the kernel does not
// write to it.
unsafe impl Ioctl for Register {
    type Output = i32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        OPEN
    }

    fn as_ptr(&mut self) -> *mut c_void {
        from_mut(&mut self.0).cast()
    }

    unsafe fn output_from_ptr(result: IoctlOutput, _: *mut c_void) -> Result<i32, Errno> {
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn calls_have_the_numbers_of_the_kernel() {
        assert_eq!((OPEN, CLOSE), (0x4010_e501, 0x4004_e502));
    }
}
