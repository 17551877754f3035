//! Objects in a local directory: what an I/O daemon stores, and what survives a crash.
//!
//! ```text
//!   iod ──> ObjectStore ──┬── LocalStore   a directory: objects/<hash>/<file>.<part>.<generation>
//!           Object        └── MemStore     the same behaviour in memory, for simulated clusters
//!                 FaultPlan: both ask it before every disk operation
//! ```
//!
//! Invariants:
//! 1. A lost object never reads as zeros (I11): [`ObjectStore::open`] of an absent one is
//!    [`StoreError::NoObject`].
//! 2. A write or size change of an older size generation than the object's record is refused (I5).
//! 3. What [`Object::flush`] acknowledged survives a loss of power, and so does the object's name
//!    (I6).
//! 4. When unflushed data may be lost, the [write verifier](ObjectStore::write_verifier) has
//!    changed (I6).
//! 5. A directory without our identity file is never served and never filled: see
//!    [`LocalStore::init`].
//!
//! No assertion here checks these: each store returns the errors of 1, 2 and 5, since a disk or a
//! client causes them, and 3 and 4 are about losses of power, which tests cause.
//!
//! The byte-exact formats are in `docs/format-store.md`.
#![forbid(unsafe_code)]

mod change;
mod disk;
mod error;
mod fault;
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod local;
mod mapping;
mod memory;
mod object;
mod record;
mod verifier;

pub use change::SizeChange;
pub use disk::{DiskLoad, DiskRates, DiskWork};
pub use error::{Result, StoreError};
pub use fault::{DiskOp, Fault, FaultPlan};
pub use identity::{FORMAT_VERSION, IDENTITY_FILE, Identity};
#[cfg(target_os = "linux")]
pub use local::AdoptingDirectory;
pub use local::{Host, LocalOptions, LocalStore, OPEN_FILES_DEFAULT};
pub use mapping::Mapping;
pub use memory::MemStore;
pub use object::{
    DeviceId, NewObject, Object, ObjectPage, ObjectStat, ObjectStore, StoreSpace, listing_order,
};
pub use record::{LAYOUT_BYTES_MAX, ObjectRecord, RECORD_VERSION, RECORD_XATTR};
