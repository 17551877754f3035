//! Directories that this mount has removed and that its kernel still uses: a working directory, an
//! open one.
//!
//! The metadata server forgets a directory with its name. A program in it may still ask for its
//! attributes, as on a local file system. A directory that another client removed is stale
//! (ESTALE), as with NFS.
//!
//! Invariants:
//! 1. The attributes that are stored here are used for nothing else.
//! 2. Both tables are bounded (I9). A directory that is not in them any more is stale.
//!
//! `note_seen` and `add` assert 2. What callers do with the attributes cannot be seen here (1).

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use braid_client::{Attributes, FileIndex};

use crate::mutex::lock;

/// Directories that were looked up and are not cached under a lease. A kernel looks a name up just
/// before it removes it, so only lookups of other threads come between.
const SEEN_MAX: usize = 256;
/// Removed directories that the kernel has not forgotten yet. Few are still in use.
const REMOVED_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct RemovedDirectories {
    seen: Mutex<VecDeque<Seen>>,
    removed: Mutex<Removed>,
    /// How many are removed. Read without the lock, since mostly there are none.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Seen {
    parent: FileIndex,
    name: Box<[u8]>,
    found: Attributes,
}

#[derive(Debug, Default)]
struct Removed {
    directories: HashMap<FileIndex, Attributes>,
    /// In the order of their removal. Some are forgotten.
    order: VecDeque<FileIndex>,
}

impl RemovedDirectories {
    /// Notes the attributes of a directory that was looked up and is not cached.
    pub(crate) fn note_seen(&self, (parent, name): (FileIndex, &[u8]), found: &Attributes) {
        let mut seen = lock(&self.seen);
        seen.retain(|one| (one.parent, &*one.name) != (parent, name));
        if seen.len() >= SEEN_MAX {
            seen.pop_front();
        }
        debug_assert!(seen.len() < SEEN_MAX, "2: bounded");
        seen.push_back(Seen { parent, name: name.into(), found: found.clone() });
    }

    /// The directory that was last looked up under a name.
    pub(crate) fn seen(&self, (parent, name): (FileIndex, &[u8])) -> Option<Attributes> {
        let seen = lock(&self.seen);
        seen.iter()
            .find(|one| (one.parent, &*one.name) == (parent, name))
            .map(|one| one.found.clone())
    }

    /// A directory was removed. `before`: its attributes before that.
    pub(crate) fn add(&self, before: Attributes) {
        let mut removed = lock(&self.removed);
        let file = before.file;
        removed.directories.insert(file, Attributes { links: 0, ..before });
        removed.order.push_back(file);
        while removed.order.len() > REMOVED_MAX {
            let oldest = removed.order.pop_front();
            oldest.and_then(|oldest| removed.directories.remove(&oldest));
        }
        debug_assert!(removed.directories.len() <= removed.order.len(), "2: bounded by the order");
        self.count.store(removed.directories.len(), Ordering::Release);
    }

    /// The attributes of a removed directory.
    pub(crate) fn attributes(&self, file: FileIndex) -> Option<Attributes> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        lock(&self.removed).directories.get(&file).cloned()
    }

    /// The kernel has forgotten a directory.
    pub(crate) fn forget(&self, file: FileIndex) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut removed = lock(&self.removed);
        removed.directories.remove(&file);
        self.count.store(removed.directories.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use braid_client::{FileKind, Timestamp};
    use braid_types::{ByteCount, SizeGeneration};

    use super::*;

    fn directory(number: u64) -> Attributes {
        let time = Timestamp::default();
        Attributes {
            file: FileIndex(number),
            kind: FileKind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            links: 2,
            bytes: ByteCount(0),
            bytes_used: ByteCount(0),
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            change: 1,
            flags: 0,
            size_generation: SizeGeneration(0),
            device: 0,
            has_xattrs: false,
            uncacheable: false,
        }
    }

    #[test]
    fn a_removed_directory_has_no_links_until_the_kernel_forgets_it() {
        let known = RemovedDirectories::default();
        known.add(directory(7));
        assert_eq!(known.attributes(FileIndex(7)).map(|found| found.links), Some(0));
        known.forget(FileIndex(7));
        assert_eq!(known.attributes(FileIndex(7)), None);
    }

    #[test]
    fn both_tables_are_bounded_and_drop_the_oldest() {
        let known = RemovedDirectories::default();
        for number in 0..=REMOVED_MAX as u64 {
            known.add(directory(number));
            known.note_seen((FileIndex(1), &number.to_le_bytes()), &directory(number));
        }
        assert!(
            known.attributes(FileIndex(0)).is_none() && known.attributes(FileIndex(1)).is_some()
        );
        assert_eq!(lock(&known.removed).directories.len(), REMOVED_MAX);
        assert_eq!(lock(&known.seen).len(), SEEN_MAX);
    }

    #[test]
    fn the_last_lookup_of_a_name_counts() {
        let known = RemovedDirectories::default();
        known.note_seen((FileIndex(1), b"d"), &directory(7));
        known.note_seen((FileIndex(1), b"d"), &directory(8));
        assert_eq!(known.seen((FileIndex(1), b"d")).map(|found| found.file), Some(FileIndex(8)));
        assert!(known.seen((FileIndex(2), b"d")).is_none());
    }
}
