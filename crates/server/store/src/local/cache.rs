//! A limited cache of open objects, by id: 16 shards, each with the clock algorithm.
//!
//! Invariants:
//! 1. An object is in at most one entry, to which the index maps its id.
//! 2. A full shard evicts the next object that was not used since the clock's hand last passed it.
//! 3. An object with other references is never evicted: opened twice it would have two records, and
//!    a late writer would miss the newer one (I5). So a shard may exceed its capacity by the
//!    objects in use.

use super::directory::lock;
use super::dirt::Dirt;
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
    slot: HashMap<ObjectId, usize>,
    slots: Vec<Slot>,
    hand: usize,
}

#[derive(Debug)]
struct Slot {
    object: Arc<LocalObject>,
    asked_for: bool,
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
        let at = *shard.slot.get(&id)?;
        let slot = &mut shard.slots[at];
        slot.asked_for = true;
        Some(slot.object.clone())
    }

    /// The object to use: the one that another thread opened first, or this one.
    pub(super) fn insert(&self, object: Arc<LocalObject>) -> Arc<LocalObject> {
        let mut shard = lock(self.shard(object.id));
        match shard.slot.get(&object.id) {
            Some(at) => shard.slots[*at].object.clone(),
            None => {
                shard.place(object.clone(), self.shard_objects_max);
                object
            }
        }
    }

    pub(super) fn remove(&self, id: ObjectId) {
        lock(self.shard(id)).remove(id);
    }

    /// What a sync of the whole file system will cover, for each open object. It does not hold the
    /// objects, so the cache can still evict them.
    pub(super) fn dirt_seen(&self) -> Vec<(Arc<Dirt>, u64)> {
        let seen = |slot: &Slot| (slot.object.dirt().clone(), slot.object.dirt().seen());
        self.shards
            .iter()
            .flat_map(|shard| lock(shard).slots.iter().map(seen).collect::<Vec<_>>())
            .collect()
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).slots.len()).sum()
    }

    fn shard(&self, id: ObjectId) -> &Mutex<Shard> {
        &self.shards[self.hash.hash_one(id) as usize % SHARDS]
    }
}

impl Shard {
    fn place(&mut self, object: Arc<LocalObject>, max: usize) {
        let (id, slot) = (object.id, Slot { object, asked_for: false });
        // Two for one, so that a shard that had to grow shrinks again.
        for _ in 0..2 {
            if self.slots.len() >= max
                && let Some(victim) = self.victim()
            {
                self.remove(victim);
            }
        }
        self.slot.insert(id, self.slots.len());
        self.slots.push(slot);
        debug_assert_eq!(self.slot.len(), self.slots.len(), "1: each object has one entry");
    }

    fn victim(&mut self) -> Option<ObjectId> {
        for _ in 0..HAND_STEPS_MAX.min(2 * self.slots.len()) {
            let at = self.hand % self.slots.len();
            self.hand = at + 1;
            let slot = &mut self.slots[at];
            if Arc::strong_count(&slot.object) == 1 && !std::mem::take(&mut slot.asked_for) {
                return Some(slot.object.id);
            }
        }
        None
    }

    fn remove(&mut self, id: ObjectId) {
        let Some(at) = self.slot.remove(&id) else { return };
        self.slots.swap_remove(at);
        if let Some(moved) = self.slots.get(at) {
            self.slot.insert(moved.object.id, at);
        }
        debug_assert_eq!(self.slot.len(), self.slots.len(), "1: each object has one entry");
    }
}
