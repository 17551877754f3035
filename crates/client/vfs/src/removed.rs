//! Directories that this mount has removed and that its kernel still uses: a working directory, an open one.
//!
//! The metadata server forgets a directory with its name. A program in it may go on to ask for its attributes, as on any file system of
//! this machine; what other mounts removed is gone (ESTALE), as over NFS.
//!
//! Invariants: (1) attributes that were seen are used for nothing but this; (2) both tables are bounded (I9): a directory that
//! is not in them any more is gone.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use braid_client::{Attributes, FileIndex};

use crate::files::lock;

/// Directories that were looked up and are not remembered under a lease: a kernel looks a name up just before it removes it, so those
/// that its other threads look up meanwhile are all that come between.
const SEEN_MAX: usize = 256;
/// Removed ones that a kernel still uses. Each is forgotten when the kernel forgets it; one that is in use is rare.
const REMOVED_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct RemovedDirectories {
    seen: Mutex<VecDeque<Seen>>,
    removed: Mutex<Removed>,
    /// Of the removed ones, so that nobody takes the lock for nothing.
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
    /// In the order in which they were removed; some were forgotten.
    order: VecDeque<FileIndex>,
}

impl RemovedDirectories {
    /// A directory was looked up, and is not remembered otherwise.
    pub(crate) fn note_seen(&self, (parent, name): (FileIndex, &[u8]), found: &Attributes) {
        let mut seen = lock(&self.seen);
        seen.retain(|one| (one.parent, &*one.name) != (parent, name));
        if seen.len() >= SEEN_MAX {
            seen.pop_front();
        }
        seen.push_back(Seen { parent, name: name.into(), found: found.clone() });
    }

    /// The directory that was last seen under a name.
    pub(crate) fn seen(&self, (parent, name): (FileIndex, &[u8])) -> Option<Attributes> {
        let seen = lock(&self.seen);
        seen.iter()
            .find(|one| (one.parent, &*one.name) == (parent, name))
            .map(|one| one.found.clone())
    }

    /// A directory was removed, and was so before.
    pub(crate) fn add(&self, before: Attributes) {
        let mut removed = lock(&self.removed);
        let file = before.file;
        removed.directories.insert(file, Attributes { links: 0, ..before });
        removed.order.push_back(file);
        while removed.order.len() > REMOVED_MAX {
            let oldest = removed.order.pop_front();
            oldest.and_then(|oldest| removed.directories.remove(&oldest));
        }
        self.count.store(removed.directories.len(), Ordering::Release);
    }

    /// The attributes of a directory that was removed.
    pub(crate) fn attributes(&self, file: FileIndex) -> Option<Attributes> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        lock(&self.removed).directories.get(&file).cloned()
    }

    /// The kernel uses it no more.
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
            shared: false,
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
    fn both_tables_are_bounded_and_the_oldest_goes() {
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
    fn what_was_last_seen_under_a_name_counts() {
        let known = RemovedDirectories::default();
        known.note_seen((FileIndex(1), b"d"), &directory(7));
        known.note_seen((FileIndex(1), b"d"), &directory(8));
        assert_eq!(known.seen((FileIndex(1), b"d")).map(|found| found.file), Some(FileIndex(8)));
        assert!(known.seen((FileIndex(2), b"d")).is_none());
    }
}
