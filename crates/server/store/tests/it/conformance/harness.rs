//! A store of either kind that can be stopped and started again.

use braid_store::{FaultPlan, LocalOptions, LocalStore, MemStore, NewObject, Object, ObjectStore};
use braid_types::{
    ClusterUuid, FileIndex, ObjectGeneration, ObjectId, ObjectOffset, PartIndex, SizeGeneration,
};
use std::sync::Arc;

pub const CLUSTER: ClusterUuid = ClusterUuid(*b"conformance test");

pub enum Harness {
    Local { dir: tempfile::TempDir, faults: Arc<FaultPlan>, store: Option<LocalStore> },
    Memory(MemStore),
}

/// A directory in memory if it can store object records: the suite syncs thousands of times.
/// `tests/it/directory.rs` uses a disk.
fn scratch() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm").ok();
    match in_memory.filter(|dir| LocalStore::init(dir.path(), CLUSTER, None).is_ok()) {
        Some(dir) => dir,
        None => {
            let dir = tempfile::tempdir().expect("a scratch directory");
            LocalStore::init(dir.path(), CLUSTER, None).expect("init");
            dir
        }
    }
}

impl Harness {
    pub fn local() -> Self {
        let dir = scratch();
        let mut harness = Self::Local { dir, faults: Arc::default(), store: None };
        harness.restart();
        harness
    }

    pub fn memory() -> Self {
        Self::Memory(MemStore::new(CLUSTER, None, 1))
    }

    pub fn store(&self) -> &dyn ObjectStore {
        match self {
            Self::Local { store, .. } => store.as_ref().expect("an open store"),
            Self::Memory(store) => store,
        }
    }

    pub fn faults(&self) -> &FaultPlan {
        match self {
            Self::Local { faults, .. } => faults,
            Self::Memory(store) => store.faults(),
        }
    }

    /// Whether the store can distinguish a restart from a boot, and holes from data.
    pub fn knows_its_host(&self) -> bool {
        cfg!(target_os = "linux") || matches!(self, Self::Memory(_))
    }

    /// Truncates an object's file without the daemon.
    pub fn cut_by_hand(&self, id: ObjectId, bytes: u64) {
        match self {
            Self::Local { dir, .. } => {
                let path = dir.path().join(format!("objects/{:03x}/{id}", id.file.0 % 1024));
                std::fs::File::options()
                    .write(true)
                    .open(path)
                    .expect("its file")
                    .set_len(bytes)
                    .expect("cut");
            }
            Self::Memory(store) => store.truncate_externally(id, bytes),
        }
    }

    /// The daemon is killed and started again.
    pub fn restart(&mut self) {
        match self {
            Self::Local { dir, faults, store } => {
                *store = None;
                let options =
                    LocalOptions { faults: Some(faults.clone()), ..LocalOptions::default() };
                *store = Some(LocalStore::open(dir.path(), CLUSTER, options).expect("open"));
            }
            Self::Memory(store) => store.restart(),
        }
    }
}

pub fn id(file: u64, part: u16) -> ObjectId {
    ObjectId { file: FileIndex(file), part: PartIndex(part), generation: ObjectGeneration(0) }
}

pub fn new(id: ObjectId) -> NewObject {
    NewObject {
        id,
        size_generation: SizeGeneration(1),
        uid: 10,
        gid: 20,
        layout: Arc::from(&b"layout"[..]),
    }
}

/// An object with these bytes, written under size generation 1.
pub fn object(store: &dyn ObjectStore, id: ObjectId, data: &[u8]) -> Arc<dyn Object> {
    let object = store.create(&new(id)).expect("create");
    object.write_at(data, ObjectOffset(0), SizeGeneration(1)).expect("write");
    object
}

/// All bytes of an object.
pub fn bytes(object: &dyn Object) -> Vec<u8> {
    let mut buf = vec![0xee; object.stat().expect("stat").size as usize + 1];
    let read = object.read_at(&mut buf, ObjectOffset(0)).expect("read");
    buf.truncate(read);
    buf
}
