//! The POSIX layer of a mount: handles, open files, caches, leases and locks. Knows no gateway.
//!
//! ```text
//!   FUSE, NFS, SMB, HTTP ──> Vfs ──┬── users: the user in whose name a call is made
//!                                  ├── open/: handles, open files, what handles share
//!                                  ├── names/: names and attributes, under names leases
//!                                  ├── data/: reads, writes and buffers, under data leases
//!                                  ├── mount_caches: all that is under leases; recalls
//!                                  └── ops/: one operation in each file ──> braid-client
//! ```
//!
//! Every method of [`Vfs`] may be called from many threads at the same time. It blocks its caller,
//! no longer than the client's deadline (I8).
//!
//! Invariants:
//! 1. The caller has checked permissions: a kernel with `default_permissions`, or a gateway with
//!    the rules of its protocol. What is created belongs to the given [`User`].
//! 2. A file is named by its [`FileIndex`], which is never used twice, so there is no table of
//!    nodes.
//! 3. What is returned as cacheable is covered by a lease that was held from before the question
//!    was sent until its reply was cached. Everything else was true at one moment between question
//!    and reply, and may be wrong at the next.
//! 4. Bytes are written, or given out to be cached, under a data lease: [`data`].
//! 5. No lock of this crate is held while a server is asked, except locks of one file: for its
//!    appends, its write buffer, the drop of its pages, and its lazy open.
//!
//! No assertion here checks these: 1 is a rule for the gateway, 2 follows from the types, 3 and 4
//! are checked where a reply is cached (`names/`) and a use begins (`data/`), and locks do not
//! record their owners (5).
#![forbid(unsafe_code)]

// The tests' support is shared with other crates, which name this one.
#[cfg(test)]
extern crate self as braid_vfs;

mod consistency;
pub mod data;
mod error;
mod mount_caches;
mod mutex;
mod names;
mod open;
mod ops;
mod users;
mod vfs;

pub use braid_client::{
    AttributeChanges, Attributes, CallDeadline, DirectoryEntry, Error as ClusterError, FileIndex,
    FileKind, Pipe, RenameMode, SetTime, Status, Timestamp, XattrMode,
};
pub use consistency::Consistency;
pub use data::{
    throughput::SlowRates,
    write_coalescing::{BUFFER_AGE_MAX, BUFFER_BYTES_MAX},
};
pub use error::{Error, Result};
pub use mount_caches::CacheInvalidator;
pub use names::cached_attributes::{Cacheable, CachedAttributes, CachingLeases, LookupResult};
pub use open::handles::{DirectoryHandle, FileHandle};
pub use ops::{
    allocate::Allocation,
    create::NewFile,
    directory::DirectoryBatch,
    layout_xattr::LAYOUT_XATTR,
    lock::{Lock, LockSpace, LockWait},
    open::{Access, OpenAs, Opened},
    read::Page,
    statfs::FreeSpace,
    write::WriteAs,
    xattr::NFS4_LIST,
};
pub use users::User;
pub use vfs::{Options, Vfs};
