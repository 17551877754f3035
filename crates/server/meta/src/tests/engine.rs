//! The embedded engine: what survives a kill or a loss of power.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::*;
use crate::{Batch, Engine, EngineOptions, Fence, StoreError};

/// An engine that makes a checkpoint all the time.
pub(super) fn small(directory: &Path) -> Engine {
    with(directory, EngineOptions { checkpoint_bytes: 20_000 })
}

pub(super) fn default(directory: &Path) -> Engine {
    with(directory, EngineOptions::default())
}

fn with(directory: &Path, options: EngineOptions) -> Engine {
    match Engine::open(directory, options.clone()) {
        Err(StoreError::Missing(_)) => Engine::create(directory, options).unwrap(),
        opened => opened.unwrap(),
    }
}

fn put(store: &Engine, key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(key, value);
    store.commit(batch, Fence(1)).unwrap();
}

fn all(store: &dyn MetaStore) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    store.snapshot().unwrap().scan(b"", b"\xff\xff\xff", &mut visit).unwrap();
    found
}

pub(super) fn segments(directory: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut list: Vec<_> = list
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log."))
        .collect();
    list.sort();
    list
}

/// The files as a killed process leaves them: copied while the engine still runs.
pub(super) fn killed(store: &Engine, directory: &Path) -> tempfile::TempDir {
    // A copy takes time: nothing may change meanwhile.
    store.wait_for_checkpoint().unwrap();
    image(directory)
}

/// A copy of a store that no process changes now.
pub(super) fn image(directory: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    std::fs::create_dir(copy.path().join("base")).unwrap();
    std::fs::copy(directory.join("base/data.mdb"), copy.path().join("base/data.mdb")).unwrap();
    std::fs::copy(directory.join("synced"), copy.path().join("synced")).unwrap();
    for path in segments(directory) {
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

#[test]
fn what_was_committed_is_there_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let store = default(directory.path());
    (0..500u32).for_each(|n| put(&store, &n.to_be_bytes(), b"value"));
    let image = killed(&store, directory.path());
    let found = default(image.path());
    assert_eq!(all(&found).len(), 500);
    assert_eq!(found.committed(), store.committed());
}

#[test]
fn a_torn_tail_ends_the_log_at_the_last_whole_batch() {
    let directory = tempfile::tempdir().unwrap();
    let store = default(directory.path());
    (0..10u8).for_each(|n| put(&store, &[n], &[n; 40]));
    let log = std::fs::read(&segments(directory.path())[0]).unwrap();
    for end in (0..log.len()).step_by(7) {
        let torn = killed(&store, directory.path());
        std::fs::write(&segments(torn.path())[0], &log[..end]).unwrap();
        let found = default(torn.path());
        let whole: Vec<_> = all(&found).into_iter().map(|(key, _)| key[0]).collect();
        assert_eq!(
            whole,
            (0..found.committed().0 as u8).collect::<Vec<_>>(),
            "cut at {end}: a prefix"
        );
    }
}

#[test]
fn new_batches_follow_on_where_a_torn_log_was_cut() {
    let directory = tempfile::tempdir().unwrap();
    let store = default(directory.path());
    (0..10u8).for_each(|n| put(&store, &[n], &[n; 40]));
    let torn = killed(&store, directory.path());
    let path = segments(torn.path()).remove(0);
    let log = std::fs::read(&path).unwrap();
    std::fs::write(&path, &log[..log.len() / 2]).unwrap();
    let found = default(torn.path());
    let left = found.committed().0;
    assert!(left > 0 && left < 10, "{left}");
    assert_eq!(found.torn_tail().unwrap().first_lost.0, left + 1);
    put(&found, b"next", b"1");
    assert_eq!(found.committed().0, left + 1);
    drop(found);
    let again = default(torn.path());
    assert_eq!((all(&again).len() as u64, again.torn_tail()), (left + 1, None));
}

#[test]
fn the_log_corrects_a_base_that_is_ahead_of_its_sequence() {
    let directory = tempfile::tempdir().unwrap();
    let store = default(directory.path());
    (0..200u8).for_each(|n| put(&store, &[n % 7], &[n]));
    let before = killed(&store, directory.path());
    let want = all(&store);
    store.checkpoint().unwrap();
    // The checkpoint's transactions are in the base; the segment that they came from still exists.
    let folded = directory.path().join("base/data.mdb");
    let both = image(before.path());
    std::fs::copy(folded, both.path().join("base/data.mdb")).unwrap();
    let found = default(both.path());
    assert_eq!((all(&found), found.committed()), (want, store.committed()));
}

#[test]
fn a_checkpoint_changes_nothing_that_a_reader_sees() {
    let directory = tempfile::tempdir().unwrap();
    let store = small(directory.path());
    let mut model = std::collections::BTreeMap::new();
    let mut state = 1u64;
    for step in 0..6_000u32 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let key = ((state >> 33) as u16 % 1500).to_be_bytes().to_vec();
        let mut batch = Batch::new();
        if state >> 60 < 5 {
            model.remove(&key);
            batch.remove(key);
        } else {
            model.insert(key.clone(), step.to_be_bytes().to_vec());
            batch.put(key, step.to_be_bytes());
        }
        store.commit(batch, Fence(1)).unwrap();
        if step % 500 == 0 {
            assert_eq!(all(&store), model.clone().into_iter().collect::<Vec<_>>(), "step {step}");
        }
    }
    let want: Vec<_> = model.into_iter().collect();
    assert_eq!(all(&store), want);
    for (key, value) in &want {
        assert_eq!(store.get(key).unwrap().as_ref(), Some(value));
    }
    store.checkpoint().unwrap();
    assert_eq!(all(&store), want);
    assert_eq!(segments(directory.path()).len(), 1, "the log of batches in the base was removed");
    drop(store);
    assert_eq!(all(&small(directory.path())), want);
}

#[test]
fn after_a_failed_sync_no_second_one_is_trusted_until_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = default(directory.path());
    put(&store, b"synced", b"1");
    let synced = store.committed();
    store.sync(synced).unwrap();
    put(&store, b"lost", b"1");
    store.fail_next_flush();
    assert!(matches!(store.sync(store.committed()), Err(StoreError::Disk { .. })));
    assert!(matches!(store.sync(store.committed()), Err(StoreError::Stopped)));
    assert!(matches!(store.checkpoint(), Err(StoreError::Stopped)), "nor is the base built on it");
    store.sync(synced).unwrap();
    drop(store);
    let store = default(directory.path());
    assert_eq!(
        store.get(b"lost").unwrap().as_deref(),
        Some(&b"1"[..]),
        "the process was not even killed"
    );
    store.sync(store.committed()).unwrap();
}

#[test]
fn a_scan_stops_where_its_visitor_says_in_every_layer() {
    let directory = tempfile::tempdir().unwrap();
    let store = default(directory.path());
    [1u8, 4, 7].iter().for_each(|n| put(&store, &[*n], b"base"));
    store.checkpoint().unwrap();
    [2u8, 4, 9].iter().for_each(|n| put(&store, &[*n], b"over"));
    for count in 1..=5 {
        let mut seen = Vec::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            seen.push((key[0], value.to_vec()));
            if seen.len() == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        store.snapshot().unwrap().scan(&[0], &[255], &mut visit).unwrap();
        let want = [(1, "base"), (2, "over"), (4, "over"), (7, "base"), (9, "over")];
        let want: Vec<_> =
            want[..count].iter().map(|(key, value)| (*key, value.as_bytes().to_vec())).collect();
        assert_eq!(seen, want);
    }
}

#[test]
fn a_second_process_is_refused_and_so_is_an_older_fence() {
    let directory = tempfile::tempdir().unwrap();
    let store = default(directory.path());
    let second = Engine::open(directory.path(), EngineOptions::default());
    assert!(matches!(second, Err(StoreError::InUse(_))));
    let mut batch = Batch::new();
    batch.put(b"k", b"v");
    store.commit(batch.clone(), Fence(7)).unwrap();
    assert!(matches!(
        store.commit(batch.clone(), Fence(6)),
        Err(StoreError::Fenced { offered: 6, current: 7 })
    ));
    drop(store);
    let store = default(directory.path());
    assert_eq!(store.fence(), Fence(7));
    assert!(store.commit(batch, Fence(6)).is_err());
}

#[test]
fn a_batch_over_the_limit_is_refused_and_one_at_it_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = default(directory.path());
    let batch = |bytes: usize| {
        let mut batch = Batch::new();
        batch.put(b"k", vec![1; bytes - 7]);
        batch
    };
    let limit = braid_types::limits::BATCH_BYTES_MAX;
    assert!(matches!(
        store.commit(batch(limit + 1), Fence(1)),
        Err(StoreError::BatchTooLarge { .. })
    ));
    store.commit(batch(limit), Fence(1)).unwrap();
    let image = killed(&store, directory.path());
    let found = default(image.path());
    assert_eq!(found.get(b"k").unwrap().unwrap().len(), limit - 7);
}

#[test]
fn a_namespace_on_the_engine_is_whole_after_kill_and_restart() {
    let directory = tempfile::tempdir().unwrap();
    let root = Identity::root();
    let store = Arc::new(small(directory.path()));
    let ns = fresh(store.clone());
    for n in 0..300 {
        create(&ns, &call(&root), ROOT, format!("f{n}").as_bytes()).unwrap();
    }
    let image = killed(&store, directory.path());
    let again = open(Arc::new(small(image.path())));
    assert_eq!(names(&again, ROOT), names(&ns, ROOT));
    assert_eq!(again.getattr(ROOT).unwrap().size, 300);
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_the_store_also_an_older_one() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("mds");
    let paths = |root: &Path| {
        let of = |dir: &Path| {
            std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
        };
        [vec![root.to_owned(), root.join("base")], of(root), of(&root.join("base"))].concat()
    };
    let loose = |root: &Path| {
        let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode();
        paths(root).into_iter().filter(|path| mode(path) & 0o077 != 0).collect::<Vec<_>>()
    };
    let store = small(&root);
    put(&store, b"name", b"secret");
    drop(store);
    assert_eq!(loose(&root), Vec::<PathBuf>::new());
    for path in paths(&root) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let store = small(&root);
    assert_eq!(store.get(b"name").unwrap().as_deref(), Some(&b"secret"[..]));
    assert_eq!(loose(&root), Vec::<PathBuf>::new());
}
