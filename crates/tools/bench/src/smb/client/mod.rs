//! An SMB 3.1.1 client that makes load: no caches, no leases, blocking sockets. It logs on by
//! NTLMv2, and signs or encrypts as it is configured.
//!
//! ```text
//!   files.rs (open, close, stat, reads and writes in flight) ──> connection.rs (frames, logon)
//! ```

mod connection;
mod files;

pub use connection::{Connection, PASSWORD, Protection, SHARE, USER};
pub use files::{File, READ_BYTES_MAX};
