//! A file system in memory, for tests of gateways that need no cluster.
//!
//! It has the semantics of a cluster, which the crate's tests compare: POSIX names, permissions and
//! links, open modes of all clients, byte-range locks with waits, holes, extended attributes, and
//! change counters that rise with every change. Access control lists (`system.` attributes) and
//! quotas are missing.
//!
//! ```text
//!   MemoryShare ──┬─> MemoryClient ──> MemoryFile
//!                 │        one session    one open
//!                 └── State, under one mutex: inodes, sessions, opens, locks
//! ```
//!
//! Invariants:
//! 1. A call runs as a whole under the mutex, so that every change is atomic. Before it, it waits
//!    until delegations are returned. Only a lock wait releases the mutex, and it waits for a
//!    notification.
//! 2. Each change takes the next number of one change counter.

mod attributes;
mod bytes;
mod client;
mod data;
mod delegations;
mod fault;
mod file;
mod inode;
mod names;
mod opens;
mod permission;
mod rename;
mod share;
mod state;
#[cfg(test)]
mod tests;

pub use client::MemoryClient;
pub use fault::CallKind;
pub use file::MemoryFile;
pub use share::MemoryShare;
