//! Open files and directories of a mount.
//!
//! ```text
//!   handles ──> open_file ──┬── lazy_open     the file at the servers, opened when it is needed
//!                           ├── shared_file   what all handles of one file share
//!                           └── data          the use of the file's bytes (crate::data)
//! ```

pub(crate) mod handles;
pub(crate) mod lazy_open;
pub(crate) mod open_file;
pub(crate) mod shared_file;
