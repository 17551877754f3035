//! Handles, open state, caches, leases and locks of a mount; knows no gateway.
//!
//! ```text
//!   FUSE, NFS, SMB, HTTP ──> Vfs ──┬── users: who a call is made as
//!                                  ├── handles ──> open files ──> what all handles of one file share
//!                                  └── ops/: one operation, one file ──> braid-client (blocking)
//! ```
//!
//! Every method of [`Vfs`] may be called from many threads at once and blocks its caller, no longer than the client's
//! time bound (I8).
//!
//! Invariants:
//! 1. Who may do what was decided by whoever calls: a kernel with `default_permissions`, a gateway that knows its
//!    protocol's rules. What is created belongs to the [`User`] named.
//! 2. A file is named by its [`FileIndex`], which is never used twice: there is no table of nodes to be kept.
//! 3. What is answered as cacheable is covered by a lease that was held from before the question was sent until
//!    after its answer was taken in. Everything else is true at one moment between question and answer, and may be wrong
//!    at the next.
//! 4. Bytes are written, or handed out to be kept, under a data lease: [`data`].
//! 5. No lock of this crate is held while a server is asked, but for those of one file: that of its appends, that of
//!    what is gathered of it, that of dropping its pages, and that of opening it late.
#![forbid(unsafe_code)]

mod arrivals;
mod consistency;
pub mod data;
mod doubts;
mod error;
mod files;
mod handles;
mod kept;
mod known;
mod late;
mod listed;
mod ops;
mod promise;
mod removed;
mod users;
mod vfs;

pub use braid_client::{
    AttributeChanges, Attributes, Bound, DirectoryEntry, Error as ClusterError, FileIndex,
    FileKind, Pipe, RenameMode, SetTime, Status, Timestamp, XattrMode,
};
pub use consistency::Consistency;
pub use data::{
    gather::{GATHER_AGE, GATHER_BYTES_MAX},
    pace::SlowRates,
};
pub use error::{Error, Result};
pub use handles::{DirectoryHandle, FileHandle};
pub use known::{Keep, Kept, Known, Looked};
pub use ops::{
    allocate::Allocation,
    create::NewFile,
    directory::Stretch,
    layout_xattr::LAYOUT_XATTR,
    lock::{Lock, LockSpace, LockWait},
    open::{Access, OpenAs, Opened},
    read::Page,
    room::Room,
    write::WriteAs,
};
pub use promise::Keeper;
pub use users::User;
pub use vfs::{Options, Vfs};
