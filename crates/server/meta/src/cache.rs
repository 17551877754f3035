//! The inode cache: bounded, and never older than the store.
//!
//! Invariants:
//! 1. Writers set the inodes that they committed. An inode in the cache is therefore never older
//!    than the one in the store.
//! 2. A reader that missed may add what it read only if no writer has touched its slice of the
//!    cache since. Otherwise it would put back an inode that was changed or removed. `add` checks
//!    it.
//! 3. A slice holds at most `per_slice_max` inodes; `insert` asserts it. Eviction is second chance:
//!    an inode that was used since the hand last passed stays.
//!
//! Whether the store has a newer inode cannot be asserted without a read of the store (1).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use braid_types::{FileIndex, IdHashBuilder};

use crate::record::Inode;

/// Slices, each with its own lock.
const SLICES: usize = 64;

struct Slot {
    inode: Arc<Inode>,
    used: AtomicBool,
}

#[derive(Default)]
struct Slice {
    map: HashMap<FileIndex, Slot, IdHashBuilder>,
    /// In the order of arrival: each index in `map` once, and some that were removed.
    order: VecDeque<FileIndex>,
    /// Counts the changes of writers (invariant 2).
    writes: u64,
}

pub(crate) struct InodeCache {
    slices: Vec<Mutex<Slice>>,
    per_slice_max: usize,
}

/// The number of changes at a miss; a reader shows it to add what it read.
#[derive(Clone, Copy)]
pub(crate) struct MissToken(u64);

impl InodeCache {
    /// A cache of at most `inodes`, rounded up to one per slice.
    pub(crate) fn new(inodes: usize) -> Self {
        let slices = (0..SLICES).map(|_| Mutex::default()).collect();
        Self { slices, per_slice_max: inodes.div_ceil(SLICES).max(1) }
    }

    fn slice(&self, file: FileIndex) -> MutexGuard<'_, Slice> {
        let mixed = (file.0 ^ file.0 >> 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        self.slices[mixed as usize % SLICES].lock().unwrap_or_else(braid_types::poisoned)
    }

    pub(crate) fn get(&self, file: FileIndex) -> Result<Arc<Inode>, MissToken> {
        let slice = self.slice(file);
        match slice.map.get(&file) {
            Some(slot) => {
                slot.used.store(true, Ordering::Relaxed);
                Ok(slot.inode.clone())
            }
            None => Err(MissToken(slice.writes)),
        }
    }

    /// For a reader: adds what it read from the store after a miss.
    pub(crate) fn add(&self, inode: Arc<Inode>, missed: MissToken) {
        let mut slice = self.slice(inode.file);
        if slice.writes == missed.0 {
            self.insert(&mut slice, inode);
        }
    }

    /// For a writer: sets the inode that it committed.
    pub(crate) fn set(&self, inode: Arc<Inode>) {
        let mut slice = self.slice(inode.file);
        slice.writes += 1;
        self.insert(&mut slice, inode);
    }

    /// For a writer: removes the inode that it deleted.
    pub(crate) fn remove(&self, file: FileIndex) {
        let mut slice = self.slice(file);
        slice.writes += 1;
        slice.map.remove(&file);
    }

    fn insert(&self, slice: &mut Slice, inode: Arc<Inode>) {
        let file = inode.file;
        if let Some(slot) = slice.map.get_mut(&file) {
            slot.inode = inode;
            slot.used.store(true, Ordering::Relaxed);
            return;
        }
        if slice.map.len() >= self.per_slice_max {
            slice.evict();
        }
        if slice.order.len() > 2 * self.per_slice_max {
            let Slice { map, order, .. } = slice;
            order.retain(|file| map.contains_key(file));
        }
        slice.map.insert(file, Slot { inode, used: AtomicBool::new(false) });
        slice.order.push_back(file);
        debug_assert!(slice.map.len() <= self.per_slice_max, "3: the cache is bounded");
    }

    /// The number of cached inodes.
    pub(crate) fn len(&self) -> usize {
        self.slices
            .iter()
            .map(|slice| slice.lock().unwrap_or_else(braid_types::poisoned).map.len())
            .sum()
    }
}

impl Slice {
    fn evict(&mut self) {
        while let Some(file) = self.order.pop_front() {
            match self.map.get(&file) {
                Some(slot) if slot.used.swap(false, Ordering::Relaxed) => {
                    self.order.push_back(file)
                }
                Some(_) => {
                    self.map.remove(&file);
                    return;
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample_inode;

    #[test]
    fn a_used_inode_outlives_unused_ones() {
        let cache = InodeCache::new(SLICES * 4);
        cache.set(Arc::new(sample_inode(FileIndex(1))));
        for n in 2..10_000 {
            assert!(cache.get(FileIndex(1)).is_ok());
            cache.set(Arc::new(sample_inode(FileIndex(n))));
        }
        assert!(cache.len() <= SLICES * 4);
    }

    #[test]
    fn a_reader_does_not_put_back_what_a_writer_removed() {
        let cache = InodeCache::new(1000);
        let old = Arc::new(sample_inode(FileIndex(7)));
        let missed = cache.get(FileIndex(7)).err().unwrap();
        cache.remove(FileIndex(7));
        cache.add(old, missed);
        assert!(cache.get(FileIndex(7)).is_err());
    }
}
