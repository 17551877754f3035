//! The namespace: names, inodes and the other metadata that must survive a crash, in an ordered
//! key-value store.
//!
//! ```text
//! mds ─▶ Namespace ─▶ ops/* ─▶ Tx (one batch: changes + replay record, I7) ─▶ MetaStore ─▶ Engine
//!                        └───▶ readers: InodeCache, snapshots of the store
//! ```
//!
//! The namespace is synchronous and thread-safe. It reads no clock, uses no network and issues no
//! capabilities. When an operation returns, its batch has been written to the log (I6);
//! [`Namespace::sync`] forces the log to disk.
//!
//! ```
//! use std::sync::Arc;
//! use braid_meta::{Call, Identity, MemoryStore, Namespace, Options};
//! use braid_types::{ClusterUuid, FileIndex, Timestamp};
//!
//! let store = Arc::new(MemoryStore::new());
//! Namespace::format(&*store, ClusterUuid([7; 16]), 8, Timestamp::default())?;
//! let namespace = Namespace::open(store, Options::default())?;
//! let who = Identity::root();
//! let call = Call { who: &who, now: Timestamp::default(), replay: None };
//! let made = namespace.mkdir(&call, FileIndex::ROOT, b"data", 0o755)?;
//! assert_eq!(namespace.lookup(&who, FileIndex::ROOT, b"data")?.file, made.file);
//! # Ok::<(), braid_types::Failure>(())
//! ```
#![deny(unsafe_code)]

mod acl;
mod acl_xattr;
mod cache;
mod change_counter;
mod codec;
mod directory_name_cache;
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod key;
mod layout_table;
pub mod lease;
mod namespace;
mod nfs4_permissions;
mod opens;
mod ops;
mod quota;
mod record;
pub mod salvage;
mod store;
#[cfg(test)]
mod tests;
mod tx;

pub use acl::{ACL_ENTRIES_MAX, AccessList, Acl, AclList, InodeAcl, NamedEntry, NewMode};
pub use identity::{Call, Identity, Replay, Want, permit};
pub use lease::modes::{Deny, OpenMode};
pub use namespace::{Namespace, Options};
pub use opens::{Access, OpenFile};
pub use ops::{
    AttributeChanges, CAPABILITY_XATTR, CreateArgs, Created, DirectoryPage, ImportArgs, Imported,
    ListedEntry, Made, NameSlot, NodeArgs, ObjectSummary, OpenArgs, QuotaState, QuotaWalkPage,
    RenameMode, SetTime, UsageDifference, XattrMode,
};
pub use quota::{GROWTH_GRANT_FIRST, GROWTH_GRANT_MAX};
pub use record::{
    ClientKey, ClusterIdentity, Deletion, DirectoryChange, DirectoryDefault, DistributionKind,
    Entry, FileKind, Inode, Intent, IntentKind, IodRecord, IodState, KeyRights, Parts, Placement,
    Principal, PrincipalKind, Quota, QuotaLimit, QuotaOwner, RecordError, SessionRecord, Usage,
};
pub use store::{
    Batch, Change, DumpSummary, Engine, EngineOptions, Faults, Fence, KEY_BYTES_MAX, MemoryStore,
    MetaStore, ReserveUse, SalvagedRecords, Sequence, Snapshot, StoreError, TornTail, Visit, dump,
};
