//! The store in a local directory.
//!
//! ```text
//!   DIR/braid-iod.toml      identity            DIR/verifier   write verifier
//!   DIR/lock                held while open     DIR/tmp/       objects being made; emptied by open
//!   DIR/objects/000 … 3ff/  the objects         DIR/braid-lost+found/
//! ```
//!
//! 1. An object has its record from its first moment: it is made without a name, given the record, then its name; where the
//!    file system has no nameless files, in `tmp/`, and renamed.
//! 2. An object's name is durable when its first flush returns: its directory counts as unsynced from the
//!    object's creation, and all do after `open`, until a flush syncs it.
//! 3. One process has the directory: `lock` is held by the open store and let go by the kernel when it dies.
//! 4. Nobody but the daemon's user may look into the directory, whatever the umask (`private.rs`).
//! 5. Lock order: object state, then object sync, then directory, then verifier. Never a cache shard around any.

mod cache;
mod directory;
mod dirt;
mod init;
mod list;
mod measure;
mod object;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "portable.rs")]
mod platform;
mod private;
mod store;

pub use directory::Host;
pub(crate) use directory::parse_name;
pub use store::{LocalOptions, LocalStore, OPEN_FILES_DEFAULT};
