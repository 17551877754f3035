//! The life of a mount: made, served, ended. By mount(2) where the caller may, else by `fusermount3`.

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

/// What `/proc/self/mountinfo` shows as the type, behind `fuse.`.
pub const SUBTYPE: &str = "braid";
