//! Listings of directories that stay in memory.
//!
//! A listing opens and reads the directory on each branch. While the directory does not change, its
//! kept listing needs one statx(2) for each branch instead.
//!
//! 1. A kept listing is used only if the directory has the same copies, with the same times, as
//!    before its names were read. The file systems of [`TIMES_SHOW_CHANGES`] set the times of a
//!    directory with each change of a name.
//! 2. Times have a resolution: two changes in one unit of it look like one. A listing is kept only
//!    if the last change was [`SETTLED`] before.
//! 3. A listing that lacks the names of a branch is not kept.
//! 4. Where direct changes are noticed ([`crate::notices`]), they and those of this process are
//!    counted: while the count stays, the listing is used without asking the branches.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    DirectoryEntry, NodeId, Union,
    attributes::{Time, stat_fd},
    node::{Copy, Node, lock},
};

/// Seconds since the last change of a directory before its listing is kept. The coarsest resolution
/// of [`TIMES_SHOW_CHANGES`] is one second (ext4 with inodes of 128 bytes).
const SETTLED: i64 = 2;
/// Names of one kept listing at most.
const LISTING_NAMES_MAX: usize = 1 << 16;
/// Names of all kept listings at most: about 40 MiB.
const NAMES_MAX: usize = 1 << 19;
/// `f_type` of statfs(2).
const TIMES_SHOW_CHANGES: [u32; 8] = [
    0xef53,      // ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0xf2f5_2010, // F2FS
    0xca45_1a4e, // bcachefs
    0x2fc1_2fc1, // ZFS
    0x794c_7630, // overlayfs
];

/// One reading of a directory's names. No two readings have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListingId(u64);

/// A listing, and what shows that it is still right.
#[derive(Debug)]
pub(crate) struct KeptListing {
    pub(crate) id: ListingId,
    pub(crate) entries: Arc<Vec<DirectoryEntry>>,
    /// `None`: a later change might not change them.
    stamps: Option<Vec<Stamp>>,
}

/// The listing that a noticed directory has, though its names may not be kept any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedListing {
    id: ListingId,
    /// `DirectoryNames::changed` before it was read.
    changed: u64,
}

/// A directory on a branch at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    copy: Copy,
    /// Another file system may be mounted on the directory.
    device: (u32, u32),
    modified: Time,
    changed: Time,
}

/// The kept listings, the oldest first. Some of them may be gone.
#[derive(Debug, Default)]
pub(crate) struct KeptListings {
    oldest_first: VecDeque<(NodeId, ListingId, usize)>,
    names: usize,
    last_id: u64,
}

impl Union {
    /// The times of a directory's copies. `None`: one of them cannot be asked.
    pub(crate) fn stamps(&self, node: &Node, copies: &[Copy]) -> Option<Vec<Stamp>> {
        let stamp = |copy: &Copy| {
            let stat = stat_fd(&*self.directory_fd(node, copy.branch).ok()?).ok()?;
            let device = (stat.stx_dev_major, stat.stx_dev_minor);
            let (modified, changed) = (stat.stx_mtime.into(), stat.stx_ctime.into());
            Some(Stamp { copy: *copy, device, modified, changed })
        };
        copies.iter().map(stamp).collect()
    }

    /// Keeps a listing whose names were read after `stamps`, and after `changed` was read if the
    /// directory is noticed. `None`: a later change might not be seen, or it has too many names.
    pub(crate) fn keep_listing(
        &self,
        node: &Node,
        stamps: Option<Vec<Stamp>>,
        changed: Option<u64>,
        entries: &Arc<Vec<DirectoryEntry>>,
        begun: SystemTime,
    ) -> Option<ListingId> {
        let names = entries.len();
        let begun = begun.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let settled = i64::try_from(begun).ok()? - SETTLED;
        // By whole seconds: the difference is more than `SETTLED`.
        let is_settled = |stamp: &Stamp| stamp.changed.seconds < settled;
        let show_changes = |stamps: &Vec<Stamp>| {
            stamps.iter().all(is_settled)
                && stamps.iter().all(|stamp| self.times_show_changes(node, stamp.copy.branch))
        };
        let stamps = stamps.filter(show_changes);
        let changed = changed.filter(|changed| *changed == node.names.changed());
        if names > LISTING_NAMES_MAX || stamps.is_none() && changed.is_none() {
            return None;
        }
        let mut kept = lock(&self.kept_listings);
        kept.last_id += 1;
        let id = ListingId(kept.last_id);
        let listing = KeptListing { id, entries: Arc::clone(entries), stamps };
        *lock(&node.names.kept_listing) = Some(Arc::new(listing));
        // A change since the check above has changed the count.
        *lock(&node.names.counted_listing) = changed.map(|changed| CountedListing { id, changed });
        for (node, id) in kept.add(node.id, id, names) {
            self.drop_listing(node, id);
        }
        Some(id)
    }

    /// The listing that a directory still has, without asking its branches. `None`: it has changed
    /// since it was listed, or changes are not noticed.
    pub fn unchanged_listing(&self, directory: NodeId) -> Option<ListingId> {
        let node = self.nodes.get(directory).ok()?;
        self.is_noticed(&node).then(|| node.counted_listing())?
    }

    fn times_show_changes(&self, node: &Node, branch: usize) -> bool {
        let system = self.directory_fd(node, branch).and_then(rustix::fs::fstatfs);
        let kind = system.ok().and_then(|system| u32::try_from(system.f_type).ok());
        kind.is_some_and(|kind| TIMES_SHOW_CHANGES.contains(&kind))
    }

    fn drop_listing(&self, node: NodeId, id: ListingId) {
        let Ok(node) = self.nodes.get(node) else { return };
        let mut kept = lock(&node.names.kept_listing);
        if kept.as_ref().is_some_and(|listing| listing.id == id) {
            *kept = None;
        }
    }
}

impl Node {
    /// The kept listing, if the directory has not changed since.
    pub(crate) fn kept_listing(&self, stamps: &[Stamp]) -> Option<Arc<KeptListing>> {
        let kept = lock(&self.names.kept_listing).clone()?;
        (kept.stamps.as_deref() == Some(stamps)).then_some(kept)
    }

    /// The kept listing of a noticed directory, if the directory has not changed since.
    pub(crate) fn kept_counted_listing(&self) -> Option<Arc<KeptListing>> {
        let id = self.counted_listing()?;
        lock(&self.names.kept_listing).clone().filter(|kept| kept.id == id)
    }

    fn counted_listing(&self) -> Option<ListingId> {
        let counted = *lock(&self.names.counted_listing);
        counted.filter(|listing| listing.changed == self.names.changed()).map(|listing| listing.id)
    }
}

impl KeptListings {
    /// Counts a listing. Returns those that must go.
    fn add(&mut self, node: NodeId, id: ListingId, names: usize) -> Vec<(NodeId, ListingId)> {
        // An empty listing takes memory, too.
        let names = names + 1;
        self.oldest_first.push_back((node, id, names));
        self.names += names;
        let mut dropped = Vec::new();
        while self.names > NAMES_MAX
            && let Some((node, id, names)) = self.oldest_first.pop_front()
        {
            self.names -= names;
            dropped.push((node, id));
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_kept_listings_are_bounded() {
        let mut kept = KeptListings::default();
        let names = LISTING_NAMES_MAX - 1;
        let whole = NAMES_MAX / LISTING_NAMES_MAX;
        let dropped: Vec<_> =
            (0..2 * whole as u64).map(|n| kept.add(NodeId(n), ListingId(n), names)).collect();
        assert!(dropped[..whole].iter().all(Vec::is_empty));
        assert_eq!(dropped[whole], [(NodeId(0), ListingId(0))], "the oldest");
        assert_eq!((kept.oldest_first.len(), kept.names), (whole, NAMES_MAX));
    }
}
