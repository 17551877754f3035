//! Mounting and unmounting: by mount(2) where the caller may, otherwise by `fusermount3`.

mod abort;
mod direct;
mod error;
mod fusermount;
mod mounted;
mod options;
mod table;
mod unmount;
mod users;

pub use abort::Abort;
pub use error::{MountError, UnmountError};
pub use mounted::{Mounted, is_dead};
pub use options::MountOptions;
pub use table::{MountEntry, entries, entry_at};
pub use unmount::{Unmount, remount, unmount};

/// The type in `/proc/self/mountinfo`, after `fuse.`.
pub const SUBTYPE: &str = "braid";
