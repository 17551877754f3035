//! The POSIX mount: the FUSE protocol in front of `vfs`.
//!
//! [`kernel`] speaks the kernel's protocol and knows nothing of BraidFS.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod kernel;
