//! The POSIX mount: the FUSE protocol in front of `vfs`.
//!
//! [`kernel`] speaks the kernel's protocol and knows nothing of BraidFS.
//! [`fs`] does what it asks, by `vfs`.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)] // one ioctl in kernel::clone, a thread's own descriptors in kernel::invalidator::table

pub mod fs;
pub mod kernel;
