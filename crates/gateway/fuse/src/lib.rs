//! The POSIX mount: the FUSE protocol in front of `vfs`.
#![cfg(target_os = "linux")]
