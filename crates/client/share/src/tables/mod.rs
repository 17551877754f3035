//! Opens and byte-range locks of all sessions, for shares that keep them in memory of one process:
//! the file system in memory, and a union of local file systems.
//!
//! Neither table knows a file system: a file is its number. The caller holds its own mutex.

mod locks;
mod opens;

pub use locks::{LockTable, Wanted};
pub use opens::{Open, OpenTable};

/// The result of a step; the caller adds what failed.
pub type Outcome<T> = Result<T, braid_types::Status>;
