//! The store in memory: objects by id, restart, loss of power.

use super::content::Content;
use super::crash::{ObjectImage, UnsyncedChange};
use super::object::MemObject;
use crate::fault::{DiskOp, FaultPlan};
use crate::identity::Identity;
use crate::{
    DeviceId, NewObject, Object, ObjectPage, ObjectRecord, ObjectStat, ObjectStore, Result,
    SizeChange, StoreError, StoreSpace, listing_order,
};
use braid_types::{ClusterUuid, IodId, ObjectId, Random, Timestamp, WriteVerifier, limits};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Default space of a store in memory.
const TOTAL_BYTES_DEFAULT: u64 = 1 << 40;
/// Bytes of space that count as one object.
const OBJECT_BYTES: u64 = 4096;
/// Up to this many objects are flushed one by one, more at the same time. So few that simulated
/// clusters, which are small, do both.
const FLUSH_EACH_MAX: usize = 3;

/// Objects in memory. Clones share them.
///
/// ```
/// use braid_store::{MemStore, NewObject, ObjectStore};
/// use braid_types::*;
/// let store = MemStore::new(ClusterUuid(*b"0123456789abcdef"), None, 7);
/// let id = ObjectId { file: FileIndex(42), part: PartIndex(0), generation: ObjectGeneration(0) };
/// let (size_generation, layout) = (SizeGeneration(0), [].into());
/// let new = NewObject { id, size_generation, uid: 0, gid: 0, layout };
/// let object = store.create(&new).unwrap();
/// object.write_at(b"flushed", ObjectOffset(0), SizeGeneration(0)).unwrap();
/// object.flush().unwrap();
/// store.crash();
/// let mut bytes = [0; 7];
/// store.open(id).unwrap().read_at(&mut bytes, ObjectOffset(0)).unwrap();
/// assert_eq!(&bytes, b"flushed");
/// ```
#[derive(Clone, Debug)]
pub struct MemStore {
    shared: Arc<SharedStore>,
}

#[derive(Debug)]
pub(super) struct SharedStore {
    pub(super) name: String,
    pub(super) faults: Arc<FaultPlan>,
    object_bytes_max: AtomicU64,
    inner: Mutex<StoreState>,
}

#[derive(Debug)]
pub(super) struct StoreState {
    identity: Identity,
    pub(super) verifier: WriteVerifier,
    pub(super) life: u64,
    random: Random,
    device: DeviceId,
    next_entry: u64,
    entries: BTreeMap<(u64, ObjectId), ObjectEntry>,
    /// Deleted objects whose names a loss of power may bring back.
    deleted: BTreeMap<(u64, ObjectId), ObjectImage>,
    lost_and_found: BTreeMap<String, ObjectEntry>,
    total_bytes: u64,
    /// Bytes written or allocated, with rewrites counted again: the disk fills up at some time, but
    /// not exactly.
    used_bytes: u64,
}

/// One object.
#[derive(Debug)]
pub(super) struct ObjectEntry {
    number: u64,
    pub(super) live: ObjectImage,
    pub(super) durable: ObjectImage,
    unsynced: Vec<UnsyncedChange>,
    /// Whether a flush has something to do: what the directory store would know, not the real
    /// state.
    pub(super) dirty: bool,
    pub(super) name_durable: bool,
    pub(super) changes: u64,
    /// The time that was set after the last change.
    pub(super) modified: Option<Timestamp>,
}

impl MemStore {
    /// An empty store. The seed decides what a loss of power keeps, the verifiers, and the device's
    /// id: use another seed for each store of a cluster.
    pub fn new(cluster: ClusterUuid, iod: Option<IodId>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut device = [0; 16];
        device[..8].copy_from_slice(&random.next_u64().to_le_bytes());
        let inner = StoreState {
            identity: Identity { cluster, iod },
            verifier: WriteVerifier(random.next_u64().max(1)),
            life: 0,
            random,
            device: DeviceId(device),
            next_entry: 0,
            entries: BTreeMap::new(),
            deleted: BTreeMap::new(),
            lost_and_found: BTreeMap::new(),
            total_bytes: TOTAL_BYTES_DEFAULT,
            used_bytes: 0,
        };
        let name = format!("memory:{seed}");
        let object_bytes_max = AtomicU64::new(limits::FILE_BYTES_MAX);
        Self {
            shared: Arc::new(SharedStore {
                name,
                faults: Arc::default(),
                object_bytes_max,
                inner: Mutex::new(inner),
            }),
        }
    }

    /// Faults to inject.
    pub fn faults(&self) -> &FaultPlan {
        &self.shared.faults
    }

    /// Limits the disk to this many written bytes from now on.
    pub fn limit_space(&self, bytes: u64) {
        let mut inner = self.shared.lock();
        (inner.total_bytes, inner.used_bytes) = (bytes, 0);
    }

    /// Truncates an object's file without the daemon, as a person may do.
    pub fn truncate_externally(&self, id: ObjectId, bytes: u64) {
        if let Some(entry) = self.shared.lock().entries.get_mut(&listing_order(id)) {
            let cut = SizeChange::Truncate { length: bytes };
            entry.live.content.change(cut);
            entry.durable.content.change(cut);
        }
    }

    /// Sets the length of the longest possible object.
    pub fn limit_object_bytes(&self, bytes: u64) {
        self.shared.object_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// The daemon died and started again: nothing is lost, open objects become unusable, the
    /// verifier stays.
    pub fn restart(&self) {
        let mut inner = self.shared.lock();
        inner.life += 1;
        // The new process does not know what the old one flushed.
        inner.entries.values_mut().for_each(|entry| entry.dirty = true);
        drop(inner);
        self.shared.faults.revive();
    }

    /// The host lost power and started again: any part of the unflushed data may be lost, torn or
    /// out of order. The verifier changes.
    pub fn crash(&self) {
        self.shared.lock().lose_power();
        self.restart();
    }

    fn open_entry(&self, inner: &StoreState, id: ObjectId) -> Option<MemObject> {
        let entry = inner.entries.get(&listing_order(id))?.number;
        Some(MemObject { id, entry, life: inner.life, shared: self.shared.clone() })
    }

    fn failed(&self, action: &'static str, id: ObjectId, error: io::Error) -> StoreError {
        StoreError::from_io(action, self.shared.path(id), error)
    }

    fn check(&self, action: &'static str, id: ObjectId, op: DiskOp) -> Result<()> {
        self.shared.faults.check(op).map_err(|error| self.failed(action, id, error))
    }
}

impl SharedStore {
    pub(super) fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.inner.lock().unwrap_or_else(braid_types::poisoned)
    }

    pub(super) fn object_bytes_max(&self) -> u64 {
        self.object_bytes_max.load(Ordering::Relaxed)
    }

    pub(super) fn path(&self, id: ObjectId) -> String {
        format!("{}/{id}", self.name)
    }
}

impl StoreState {
    pub(super) fn take(&mut self, id: ObjectId, number: u64) -> Option<ObjectEntry> {
        let key = listing_order(id);
        if self.entries.get(&key)?.number == number { self.entries.remove(&key) } else { None }
    }

    pub(super) fn put_back(&mut self, id: ObjectId, entry: ObjectEntry) {
        self.entries.insert(listing_order(id), entry);
    }

    pub(super) fn record(&self, id: ObjectId) -> Option<ObjectRecord> {
        self.entries.get(&listing_order(id)).map(|entry| entry.live.record.clone())
    }

    pub(super) fn take_space(&mut self, bytes: u64) -> io::Result<()> {
        let used = self.used_bytes.saturating_add(bytes);
        if used > self.total_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.used_bytes = used;
        Ok(())
    }

    pub(super) fn new_verifier(&mut self) {
        self.verifier = WriteVerifier(self.random.next_u64().max(1));
    }

    /// The system forgets the changes that it could not write (invariant 1).
    pub(super) fn sync_failed(&mut self, entry: &mut ObjectEntry) {
        entry.unsynced.clear();
        self.new_verifier();
    }

    fn lose_power(&mut self) {
        let Self { entries, random, .. } = self;
        entries.retain(|_, entry| entry.name_durable || random.below(2) == 0);
        for entry in entries.values_mut() {
            entry.durable.lose_power(std::mem::take(&mut entry.unsynced), random);
            entry.live = entry.durable.clone();
            entry.name_durable = true;
        }
        for (key, durable) in std::mem::take(&mut self.deleted) {
            if self.random.below(2) == 0 && !self.entries.contains_key(&key) {
                let entry = ObjectEntry::new(self.next_entry, durable);
                self.next_entry += 1;
                self.entries.insert(key, ObjectEntry { name_durable: true, ..entry });
            }
        }
        self.new_verifier();
    }
}

impl ObjectEntry {
    fn new(number: u64, durable: ObjectImage) -> Self {
        let (live, unsynced) = (durable.clone(), Vec::new());
        Self {
            number,
            live,
            durable,
            unsynced,
            dirty: true,
            name_durable: false,
            changes: 0,
            modified: None,
        }
    }

    /// Everyone sees the change, and a loss of power can undo it.
    pub(super) fn apply_unsynced(&mut self, change: UnsyncedChange) {
        self.changes += 1;
        self.modified = None;
        self.dirty = true;
        self.live.apply(change.clone());
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            self.durable.apply(change);
        }
        self.dirty = false;
    }

    fn is_dirty(&self) -> bool {
        self.dirty || !self.name_durable
    }

    pub(super) fn stat(&self) -> ObjectStat {
        let (size, flushed) = (self.live.content.size, self.live.record.flushed_bytes);
        ObjectStat {
            size: size.max(flushed),
            lost_from: (size < flushed).then_some(size),
            allocated_bytes: self.live.content.allocated_bytes(),
            mtime: self.modified.unwrap_or(Timestamp { seconds: self.changes as i64, nanos: 0 }),
            size_generation: self.live.record.size_generation,
        }
    }

    /// Records the length; a loss of power can undo that.
    pub(super) fn remember_length(&mut self, size: u64) {
        if size > self.live.record.flushed_bytes && self.live.record.pending.is_none() {
            let record = ObjectRecord { flushed_bytes: size, ..self.live.record.clone() };
            self.live.record = record.clone();
            self.unsynced.push(UnsyncedChange::Record(record));
        }
    }
}

impl ObjectStore for MemStore {
    fn identity(&self) -> Identity {
        self.shared.lock().identity
    }

    fn assign_iod(&self, iod: IodId) -> Result<()> {
        let identity = &mut self.shared.lock().identity;
        match identity.iod {
            Some(found) if found != iod => Err(StoreError::ForeignIod {
                path: self.shared.name.clone(),
                found: found.0,
                wanted: iod.0,
            }),
            _ => {
                identity.iod = Some(iod);
                Ok(())
            }
        }
    }

    fn write_verifier(&self) -> WriteVerifier {
        self.shared.lock().verifier
    }

    fn object_bytes_max(&self) -> u64 {
        self.shared.object_bytes_max()
    }

    fn open(&self, id: ObjectId) -> Result<Arc<dyn Object>> {
        self.check("open", id, DiskOp::Open)?;
        let object = self.open_entry(&self.shared.lock(), id);
        let object = object
            .ok_or_else(|| StoreError::NoObject { object: id, path: self.shared.name.clone() })?;
        object.finish_pending()?;
        Ok(Arc::new(object))
    }

    fn create(&self, new: &NewObject) -> Result<Arc<dyn Object>> {
        match self.open(new.id) {
            Err(error) if error.is_no_object() => {}
            outcome => return outcome,
        }
        let record = ObjectRecord::new(new)?;
        for op in [DiskOp::Create, DiskOp::SetRecord, DiskOp::Rename] {
            self.check("make", new.id, op)?;
        }
        let mut inner = self.shared.lock();
        let number = inner.next_entry;
        inner.next_entry += 1;
        let made = ObjectEntry::new(number, ObjectImage { content: Content::default(), record });
        inner.entries.entry(listing_order(new.id)).or_insert(made);
        let object = self.open_entry(&inner, new.id);
        drop(inner);
        Ok(Arc::new(object.ok_or_else(|| StoreError::NoObject {
            object: new.id,
            path: self.shared.name.clone(),
        })?))
    }

    fn flush_all(&self) -> Result<WriteVerifier> {
        let checked = self.shared.faults.check(DiskOp::Sync);
        let mut inner = self.shared.lock();
        if let Err(error) = checked {
            inner.entries.values_mut().for_each(|entry| entry.unsynced.clear());
            inner.new_verifier();
            return Err(StoreError::from_io("make durable", &self.shared.name, error));
        }
        for entry in inner.entries.values_mut() {
            entry.sync();
            entry.name_durable = true;
        }
        inner.deleted.clear();
        Ok(inner.verifier)
    }

    fn flush_objects(&self, ids: &[ObjectId]) -> Result<WriteVerifier> {
        let dirty: Vec<ObjectId> = {
            let inner = self.shared.lock();
            let is_dirty = |id: &ObjectId| {
                inner.entries.get(&listing_order(*id)).is_some_and(ObjectEntry::is_dirty)
            };
            ids.iter().copied().filter(is_dirty).collect()
        };
        if dirty.len() > FLUSH_EACH_MAX {
            return self.flush_all();
        }
        for id in dirty {
            match self.open(id).and_then(|object| object.flush()) {
                Err(error) if !error.is_no_object() => return Err(error),
                _ => {}
            }
        }
        Ok(self.write_verifier())
    }

    fn remember_lengths(&self, seen: &[(ObjectId, ObjectStat)]) {
        let mut inner = self.shared.lock();
        for (id, stat) in seen {
            if let Some(entry) = inner.entries.get_mut(&listing_order(*id))
                && entry.live.record.size_generation == stat.size_generation
            {
                entry.remember_length(stat.size);
            }
        }
    }

    fn delete(&self, id: ObjectId) -> Result<bool> {
        self.check("delete", id, DiskOp::Remove)?;
        let mut inner = self.shared.lock();
        let Some(entry) = inner.entries.remove(&listing_order(id)) else { return Ok(false) };
        if entry.name_durable {
            inner.deleted.insert(listing_order(id), entry.durable);
        }
        Ok(true)
    }

    fn flush_names(&self, ids: &[ObjectId]) -> Result<()> {
        let keys = || ids.iter().map(|id| listing_order(*id));
        let mut inner = self.shared.lock();
        let is_dirty = |key| {
            inner.deleted.contains_key(&key)
                || inner.entries.get(&key).is_some_and(|entry| !entry.name_durable)
        };
        if !keys().any(is_dirty) {
            return Ok(());
        }
        if let Err(error) = self.shared.faults.check(DiskOp::SyncDirectory) {
            inner.new_verifier();
            return Err(StoreError::from_io("make durable", &self.shared.name, error));
        }
        for key in keys() {
            inner.deleted.remove(&key);
            if let Some(entry) = inner.entries.get_mut(&key) {
                entry.name_durable = true;
            }
        }
        Ok(())
    }

    fn list(&self, cursor: Option<ObjectId>, limit: usize) -> Result<ObjectPage> {
        let inner = self.shared.lock();
        let from = cursor
            .map_or(std::ops::Bound::Unbounded, |id| std::ops::Bound::Excluded(listing_order(id)));
        let mut after =
            inner.entries.range((from, std::ops::Bound::Unbounded)).map(|((_, id), _)| *id);
        let objects: Vec<ObjectId> = after.by_ref().take(limit.max(1)).collect();
        let next = after.next().and(objects.last().copied());
        Ok(ObjectPage { objects, foreign_files: Vec::new(), next })
    }

    fn move_to_lost_and_found(&self, id: ObjectId) -> Result<String> {
        self.check("move to lost+found", id, DiskOp::Rename)?;
        let mut inner = self.shared.lock();
        let entry = inner.entries.remove(&listing_order(id));
        let entry = entry
            .ok_or_else(|| StoreError::NoObject { object: id, path: self.shared.name.clone() })?;
        let to = format!("{}/lost+found/{id}.{}", self.shared.name, entry.number);
        inner.lost_and_found.insert(to.clone(), entry);
        Ok(to)
    }

    fn space(&self) -> Result<StoreSpace> {
        let inner = self.shared.lock();
        let free = inner.total_bytes - inner.used_bytes;
        Ok(StoreSpace {
            device: inner.device,
            total_bytes: inner.total_bytes,
            free_bytes: free,
            available_bytes: free,
            total_objects: inner.total_bytes / OBJECT_BYTES,
            free_objects: free / OBJECT_BYTES,
        })
    }
}
