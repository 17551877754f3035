//! Which listing the kernel has kept of each directory (`FOPEN_CACHE_DIR`).
//!
//! The kernel keeps what it reads through a directory that was opened with this flag. It drops it
//! after a change through the mount, and at an open without `FOPEN_KEEP_CACHE`. Changes directly on
//! a branch are noticed here, at the open.
//!
//! The kernel adds the parts of a listing as they come, without a check that they are of one
//! reading (`fs/fuse/readdir.c`, `fuse_add_dirent_to_cache`):
//!
//! 1. While a directory is open with the flag, it is opened so again only if the kernel has what
//!    the directory has now. Then every part that comes is of one reading.
//! 2. If parts of two readings came nevertheless (a change through the mount, or a program went
//!    back to the beginning), nothing is kept after the last close.
//! 3. An entry's offset is computed from its name, and the entries are in the order of their
//!    offsets. A program that reads on at an offset of an earlier reading so gets each name that
//!    was there all the time, once.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use braid_union::{ListingId, NodeId};

/// Names of a listing that the kernel keeps at most. More of them are read in few requests, and
/// their offsets would collide.
pub(super) const NAMES_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct KernelListings {
    directories: Mutex<HashMap<NodeId, KernelListing>>,
}

#[derive(Debug, Default)]
struct KernelListing {
    open: u64,
    parts: Parts,
}

/// Of which reading the parts are that the kernel has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Parts {
    #[default]
    None,
    Of(ListingId),
    Mixed,
}

/// How a directory is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// The kernel reads it here.
    Read,
    /// It reads it here, and keeps it.
    ReadAndKeep,
    /// It uses what it has.
    Kept,
}

impl KernelListings {
    fn directories(&self) -> MutexGuard<'_, HashMap<NodeId, KernelListing>> {
        // Each change is one assignment.
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A directory is opened whose listing is `now`. Unless the result is [`Use::Read`], it needs
    /// a [`KernelListings::close`].
    pub(super) fn open(&self, directory: NodeId, now: ListingId) -> Use {
        let mut directories = self.directories();
        let kernel = directories.entry(directory).or_default();
        let has = kernel.parts == Parts::Of(now);
        if kernel.open > 0 && !has {
            return Use::Read;
        }
        kernel.open += 1;
        if has {
            return Use::Kept;
        }
        kernel.parts = Parts::None;
        Use::ReadAndKeep
    }

    /// Whether the kernel has this listing.
    pub(super) fn has(&self, directory: NodeId, listing: ListingId) -> bool {
        let directories = self.directories();
        directories.get(&directory).is_some_and(|kernel| kernel.parts == Parts::Of(listing))
    }

    /// A program begins to read a directory that the kernel keeps.
    pub(super) fn read(&self, directory: NodeId, listing: Option<ListingId>) {
        if let Some(kernel) = self.directories().get_mut(&directory) {
            kernel.parts = match (kernel.parts, listing) {
                (Parts::None, Some(new)) => Parts::Of(new),
                (Parts::Of(known), Some(new)) if known == new => Parts::Of(known),
                _ => Parts::Mixed,
            };
        }
    }

    pub(super) fn close(&self, directory: NodeId) {
        if let Some(kernel) = self.directories().get_mut(&directory) {
            kernel.open = kernel.open.saturating_sub(1);
        }
    }

    /// The kernel has dropped lookups of these nodes.
    pub(super) fn forget(&self, nodes: impl Iterator<Item = NodeId>) {
        let mut directories = self.directories();
        if !directories.is_empty() {
            for node in nodes {
                // One that is open is still known.
                if directories.get(&node).is_some_and(|kernel| kernel.open == 0) {
                    directories.remove(&node);
                }
            }
        }
    }
}
