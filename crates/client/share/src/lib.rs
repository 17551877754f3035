//! What network gateways (NFS, SMB) have in common: a file system that many protocol clients use
//! through one gateway, each with its own session at the metadata server.
//!
//! ```text
//!   gateway ──> Share ──> ShareClient ───────────────────> ShareFile
//!                         one for each protocol client:    one for each open:
//!                         a session at the metadata server a handle there
//! ```
//!
//! A gateway is written against the traits of `share.rs`. [`cluster`] implements them with the
//! async client, [`memory`] in memory, so that tests of a protocol need no cluster.
//!
//! Invariants:
//! 1. Opens, locks and fences belong to the session of one protocol client. So two clients of one
//!    gateway conflict as two mounts do, and a client that dies is fenced alone (I4).
//! 2. A gateway keeps no attributes, entries or bytes between two calls, unless a grant covers
//!    them.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod memory;
mod name;
mod share;
pub mod tables;
mod types;

pub use braid_client::{Error, Result, Status};
pub use braid_types::{dos_attributes, fold, nfs4_acl};
pub use name::check_name;
pub use share::{Share, ShareClient, ShareFile};
pub use types::*;
