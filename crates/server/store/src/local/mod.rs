//! The store in a local directory.
//!
//! ```text
//!   DIR/braid-iod.toml      identity            DIR/verifier   write verifier
//!   DIR/lock                held while open     DIR/tmp/       new objects; emptied by open
//!   DIR/objects/000 … 3ff/  the objects         DIR/braid-lost+found/
//! ```
//!
//! Invariants:
//! 1. An object has its record from its first moment: its file is created without a name, gets the
//!    record, and then the name. Where the file system has no unnamed files, it is created in
//!    `tmp/` and renamed.
//! 2. An object's name is durable when its first flush returns. Its directory counts as unsynced
//!    from the object's creation on, and every directory does after `open`, until a flush syncs it.
//! 3. One process has the directory: the open store holds `lock`, which the kernel releases when
//!    the process dies.
//! 4. Only the daemon's user may read the directory, whatever the umask is (`private.rs`).
//! 5. Lock order: object state, then object sync, then directory, then verifier. A cache shard's
//!    lock is never held around any of them.
//!
//! No assertion checks these: 1, 2 and 4 are about what is on disk, and are the order of the system
//! calls; the kernel keeps 3; and locks do not record who holds them (5).

#[cfg(target_os = "linux")]
mod adopt;
mod cache;
mod directory;
mod dirty_state;
mod init;
mod list;
mod measure;
mod object;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "portable.rs")]
mod platform;
mod private;
mod store;

#[cfg(target_os = "linux")]
pub use adopt::AdoptingDirectory;
pub use directory::Host;
pub(crate) use directory::parse_name;
pub use store::{LocalOptions, LocalStore, OPEN_FILES_DEFAULT};
