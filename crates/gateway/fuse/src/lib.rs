//! The POSIX mount: the FUSE protocol in front of `vfs`.
//!
//! [`kernel`] speaks the kernel's protocol and knows nothing of BraidFS.
//! [`fs`] serves its requests with `vfs`.
//! [`union`] serves them with a union of local file systems.
#![cfg(target_os = "linux")]
// Allowed in kernel::clone (one ioctl), kernel::backing::ioctl (two),
// kernel::invalidator::table (a thread's own descriptors) and kernel::uring.
#![deny(unsafe_code)]

pub mod fs;
pub mod kernel;
pub mod union;
