//! The cost of flushing new small files: one sync of the file system for all, or a flush of each.
//!
//! ```text
//! cargo run --release -p braid-store --example settle -- DIR [FILES]
//! ```

use braid_store::{LocalOptions, LocalStore, NewObject, ObjectStore};
use braid_types::{
    ClusterUuid, FileIndex, ObjectGeneration, ObjectId, ObjectOffset, PartIndex, SizeGeneration,
};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CLUSTER: ClusterUuid = ClusterUuid(*b"settle-benchmark");
const FILES_DEFAULT: u64 = 10_000;
const FILE_BYTES: usize = 4096;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("which directory?")?;
    let files = arguments.next().map_or(Ok(FILES_DEFAULT), |text| text.parse())?;
    for count in [1, 4, 16, 64, files] {
        let together = measure(Path::new(&dir), count, |store, _| store.flush_all().map(drop))?;
        let each = measure(Path::new(&dir), count, |store, ids| {
            ids.iter().try_for_each(|id| store.open(*id)?.flush().map(drop))
        })?;
        println!("{count:>6} new files: one sync for all {together:>10.1?}, each {each:>10.1?}");
    }
    Ok(())
}

/// Creates files in a new store and flushes them. Returns how long the flush took.
fn measure(
    dir: &Path,
    files: u64,
    flush: impl FnOnce(&LocalStore, &[ObjectId]) -> braid_store::Result<()>,
) -> Outcome<Duration> {
    let root = dir.join("settle");
    LocalStore::init(&root, CLUSTER, None)?;
    let store = LocalStore::open(&root, CLUSTER, LocalOptions::default())?;
    // Names of a store that was just opened count as unsynced, which is not measured here.
    let before: Vec<ObjectId> = (0..1024).map(|file| id(1 << 20 | file)).collect();
    make(&store, &before)?;
    store.flush_all()?;
    let ids: Vec<ObjectId> = (0..files).map(id).collect();
    make(&store, &ids)?;
    let started = Instant::now();
    flush(&store, &ids)?;
    let took = started.elapsed();
    drop(store);
    std::fs::remove_dir_all(&root)?;
    Ok(took)
}

fn make(store: &LocalStore, ids: &[ObjectId]) -> Outcome<()> {
    for id in ids {
        let new = NewObject {
            id: *id,
            size_generation: SizeGeneration(0),
            uid: 0,
            gid: 0,
            layout: Arc::from([7; 64]),
        };
        store.create(&new)?.write_at(&[1; FILE_BYTES], ObjectOffset(0), SizeGeneration(0))?;
    }
    Ok(())
}

fn id(file: u64) -> ObjectId {
    ObjectId { file: FileIndex(file), part: PartIndex(0), generation: ObjectGeneration(0) }
}
