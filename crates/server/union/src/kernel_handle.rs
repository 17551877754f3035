//! The kernel's handle of an inode (open_by_handle_at(2)): its number and generation. It is valid
//! after renames and restarts, and never names another file.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::Result;

/// `MAX_HANDLE_SZ` of Linux.
pub const KERNEL_HANDLE_BYTES_MAX: usize = 128;

/// An inode of one file system, as its file system names it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KernelHandle {
    /// `handle_type`.
    pub kind: i32,
    /// `f_handle`; at most [`KERNEL_HANDLE_BYTES_MAX`].
    pub bytes: Box<[u8]>,
}

/// `struct file_handle` with the longest handle.
#[repr(C)]
struct Buffer {
    length: libc::c_uint,
    kind: libc::c_int,
    bytes: [u8; KERNEL_HANDLE_BYTES_MAX],
}

impl KernelHandle {
    /// The handle of an open file. `None`: its file system has no handles.
    #[allow(unsafe_code)] // rustix has no name_to_handle_at
    pub(crate) fn of(fd: impl AsFd) -> Result<Option<Self>> {
        let length = KERNEL_HANDLE_BYTES_MAX as libc::c_uint;
        let mut buffer = Buffer { length, kind: 0, bytes: [0; KERNEL_HANDLE_BYTES_MAX] };
        let mut mount = 0;
        // SAFETY: the path is a string with its NUL. The buffer begins as `file_handle` does, and
        // has as many bytes after it as its length says. Both pointers are valid for the call.
        let done = unsafe {
            libc::name_to_handle_at(
                fd.as_fd().as_raw_fd(),
                c"".as_ptr(),
                (&raw mut buffer).cast(),
                &raw mut mount,
                libc::AT_EMPTY_PATH,
            )
        };
        if done != 0 {
            return match last_error() {
                Errno::OPNOTSUPP | Errno::OVERFLOW => Ok(None),
                error => Err(error),
            };
        }
        let bytes = buffer.bytes.get(..buffer.length as usize).ok_or(Errno::OVERFLOW)?;
        Ok(Some(Self { kind: buffer.kind, bytes: bytes.into() }))
    }

    /// Opens the inode. `within`: any file of its file system. Needs `CAP_DAC_READ_SEARCH`.
    ///
    /// # Errors
    /// `ESTALE`: the file was removed. `EPERM`.
    #[allow(unsafe_code)] // rustix has no open_by_handle_at
    pub(crate) fn open(&self, within: impl AsFd, flags: OFlags) -> Result<OwnedFd> {
        let mut bytes = [0; KERNEL_HANDLE_BYTES_MAX];
        bytes.get_mut(..self.bytes.len()).ok_or(Errno::STALE)?.copy_from_slice(&self.bytes);
        let length = self.bytes.len() as libc::c_uint;
        let mut buffer = Buffer { length, kind: self.kind, bytes };
        let flags = flags | OFlags::CLOEXEC;
        // SAFETY: the buffer begins as `file_handle` does, and has at least as many bytes after it
        // as its length says. The kernel only reads it.
        let fd = unsafe {
            libc::open_by_handle_at(
                within.as_fd().as_raw_fd(),
                (&raw mut buffer).cast(),
                flags.bits() as libc::c_int,
            )
        };
        if fd < 0 {
            return Err(last_error());
        }
        // SAFETY: the kernel has just opened it for this call.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

pub(crate) fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
