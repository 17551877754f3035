//! A union of local file systems for network gateways: the traits of `braid-share`, in front of
//! [`braid_union::Union`] (docs/union.md, "NFS").
//!
//! ```text
//!   NFS gateway ──> UnionShare ──> Service, on threads that may block
//!                                    ├── Files      from a client's number to a node, and back
//!                                    │     └── FileTable    inodes and their generations, on disk
//!                                    ├── Sessions   opens with share and deny, byte-range locks
//!                                    ├── Changes    counters that rise with each change
//!                                    └── Union      names, attributes, data: the same as a mount's
//! ```
//!
//! 1. Every call that has an [`braid_share::Identity`] acts for it: the kernel checks modes and
//!    POSIX ACLs, with the thread acting as the user. What depends on the owner alone is compared
//!    here (`rights`).
//! 2. A number of a file never stands for another file (`file_table`).
//! 3. Opens and locks end with this process.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod acl;
mod attributes;
mod changes;
mod client;
mod data;
mod file;
mod file_table;
mod files;
mod identity;
mod listing;
mod locks;
mod names;
mod opens;
mod record;
mod rename;
mod rights;
mod service;
mod sessions;
mod share;
mod status;
mod xattrs;

pub use client::UnionClient;
pub use file::UnionFile;
pub use service::Change;
pub use share::{OpenError, UnionShare};
