//! Names and attributes of a mount, cached under names leases.
//!
//! ```text
//!   name_cache         the cache: directories, names, attributes
//!     cached_directory   one directory in it
//!     listings           cached directory listings
//!     parents            the directory above a file or directory
//!     own_changes        what changes by this mount do to the cache
//!     change_marks       which replies are older than such a change
//!     pending_changes    changes that the server has not answered yet
//!     recall_history     when a recalled lease is asked for again
//!     uncertain_dirs     directories whose last change has an unknown outcome
//!     eviction_queue     the order in which directories are evicted
//!     lease_return       leases that are being given back
//!   names_lease        leases on directories: asked for, held, given back
//!   cached_attributes  attributes as the cache returns them
//!   removed_dirs       directories that were removed here and are still in use
//! ```

pub(crate) mod cached_attributes;
mod cached_directory;
pub(crate) mod change_marks;
mod dir_listing;
mod eviction_queue;
mod lease_return;
mod listings;
pub(crate) mod name_cache;
pub(crate) mod names_lease;
mod own_changes;
mod parents;
pub(crate) mod pending_changes;
mod recall_history;
pub(crate) mod removed_dirs;
mod uncertain_dirs;
