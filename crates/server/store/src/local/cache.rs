//! A limited cache of open objects, by id: 16 shards, each with the clock algorithm.
//!
//! Invariants:
//! 1. An object is in at most one entry, to which the index maps its id.
//! 2. A full shard evicts the next object that was not used since the clock's hand last passed it.
//! 3. An object with other references is never evicted: opened twice it would have two records, and
//!    a late writer would miss the newer one (I5). So a shard may exceed its capacity by the
//!    objects in use.
//!
//! `insert` and `remove` assert 1. `victim` obeys 2 and 3: it takes only what nothing else refers
//! to.

use super::directory::lock;
use super::dirty_state::DirtyState;
use super::object::LocalObject;
use braid_types::ObjectId;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

/// Enough that the threads of a few hundred connections seldom use the same one.
const SHARDS: usize = 16;
/// Entries that one insertion looks at, at most: two rounds of a shard of the default size.
const HAND_STEPS_MAX: usize = 128;

#[derive(Debug)]
pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
    hash: RandomState,
    shard_objects_max: usize,
}

#[derive(Debug, Default)]
struct Shard {
    index: HashMap<ObjectId, usize>,
    entries: Vec<CacheEntry>,
    hand: usize,
}

#[derive(Debug)]
struct CacheEntry {
    object: Arc<LocalObject>,
    referenced: bool,
}

impl Cache {
    /// For at least `objects_max` objects, rounded up to the shards.
    pub(super) fn new(objects_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            shards,
            hash: RandomState::new(),
            shard_objects_max: objects_max.div_ceil(SHARDS).max(1),
        }
    }

    pub(super) fn find(&self, id: ObjectId) -> Option<Arc<LocalObject>> {
        let mut shard = lock(self.shard(id));
        let at = *shard.index.get(&id)?;
        let slot = &mut shard.entries[at];
        slot.referenced = true;
        Some(slot.object.clone())
    }

    /// The object to use: the one that another thread opened first, or this one.
    pub(super) fn insert(&self, object: Arc<LocalObject>) -> Arc<LocalObject> {
        let mut shard = lock(self.shard(object.id));
        match shard.index.get(&object.id) {
            Some(at) => shard.entries[*at].object.clone(),
            None => {
                shard.insert(object.clone(), self.shard_objects_max);
                object
            }
        }
    }

    pub(super) fn remove(&self, id: ObjectId) {
        lock(self.shard(id)).remove(id);
    }

    /// What a sync of the whole file system will cover, for each open object. It does not hold the
    /// objects, so the cache can still evict them.
    pub(super) fn dirty_snapshot(&self) -> Vec<(Arc<DirtyState>, u64)> {
        let seen = |slot: &CacheEntry| {
            (slot.object.dirty_state().clone(), slot.object.dirty_state().change_count())
        };
        self.shards
            .iter()
            .flat_map(|shard| lock(shard).entries.iter().map(seen).collect::<Vec<_>>())
            .collect()
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).entries.len()).sum()
    }

    fn shard(&self, id: ObjectId) -> &Mutex<Shard> {
        &self.shards[self.hash.hash_one(id) as usize % SHARDS]
    }
}

impl Shard {
    fn insert(&mut self, object: Arc<LocalObject>, max: usize) {
        let (id, slot) = (object.id, CacheEntry { object, referenced: false });
        // Two for one, so that a shard that had to grow shrinks again.
        for _ in 0..2 {
            if self.entries.len() >= max
                && let Some(victim) = self.victim()
            {
                self.remove(victim);
            }
        }
        self.index.insert(id, self.entries.len());
        self.entries.push(slot);
        debug_assert_eq!(self.index.len(), self.entries.len(), "1: each object has one entry");
    }

    fn victim(&mut self) -> Option<ObjectId> {
        for _ in 0..HAND_STEPS_MAX.min(2 * self.entries.len()) {
            let at = self.hand % self.entries.len();
            self.hand = at + 1;
            let slot = &mut self.entries[at];
            if Arc::strong_count(&slot.object) == 1 && !std::mem::take(&mut slot.referenced) {
                return Some(slot.object.id);
            }
        }
        None
    }

    fn remove(&mut self, id: ObjectId) {
        let Some(at) = self.index.remove(&id) else { return };
        self.entries.swap_remove(at);
        if let Some(moved) = self.entries.get(at) {
            self.index.insert(moved.object.id, at);
        }
        debug_assert_eq!(self.index.len(), self.entries.len(), "1: each object has one entry");
    }
}
