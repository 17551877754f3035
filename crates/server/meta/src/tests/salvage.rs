//! Salvage of a damaged store: what remains is restored, what is lost is reported. Also loading a
//! dump.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::engine::{default, image, killed, segments};
use super::*;
use crate::salvage::{SalvageOutcome, Salvaged, load, salvage};
use crate::{Engine, EngineOptions, StoreError, dump};

const FILES: usize = 300;

fn file_name(n: usize) -> String {
    format!("file-{n}")
}

/// A namespace of a directory with files, its store killed; `folded`: after a checkpoint.
fn made(files: usize, folded: bool) -> tempfile::TempDir {
    let root = Identity::root();
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(default(directory.path()));
    let ns = fresh(store.clone());
    let dir = ns.mkdir(&call(&root), ROOT, b"dir", 0o755).unwrap().file;
    for n in 0..files {
        create(&ns, &call(&root), dir, file_name(n).as_bytes()).unwrap();
    }
    if folded {
        store.checkpoint().unwrap();
    }
    killed(&store, directory.path())
}

fn dir_of(ns: &Namespace) -> FileIndex {
    ns.lookup(&Identity::root(), ROOT, b"dir").unwrap().file
}

fn named(ns: &Namespace) -> BTreeSet<Vec<u8>> {
    names(ns, dir_of(ns)).into_iter().collect()
}

fn all_names(files: usize) -> BTreeSet<Vec<u8>> {
    (0..files).map(|n| file_name(n).into_bytes()).collect()
}

fn done(directory: &Path) -> Salvaged {
    assert!(matches!(
        Engine::open(directory, EngineOptions::default()),
        Err(StoreError::Damaged { .. })
    ));
    // The UUID is needed if the record of the cluster is lost.
    match salvage(directory, Some(ClusterUuid([7; 16])), at(1)).unwrap() {
        SalvageOutcome::Done(salvaged) => *salvaged,
        other => panic!("{other:?}"),
    }
}

fn data(directory: &Path) -> PathBuf {
    directory.join("base/data.mdb")
}

fn edit(path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    edit(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_salvaged_store_lacks_only_what_the_bad_record_held() {
    let directory = made(FILES, false);
    let segment = segments(directory.path()).remove(0);
    edit(&segment, |bytes| {
        let name = file_name(147).into_bytes();
        let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
        bytes[at + 40] ^= 1;
    });
    let before = std::fs::read(&segment).unwrap();
    let salvaged = done(directory.path());
    assert_eq!(salvaged.damaged_directory, directory.path().join("damaged-1"));
    assert!(
        std::fs::read(salvaged.damaged_directory.join(segment.file_name().unwrap())).unwrap()
            == before,
        "unchanged"
    );
    let [(first, last)] = salvaged.salvaged.lost[..] else {
        panic!("{:?}", salvaged.salvaged.lost)
    };
    assert_eq!(
        (first, salvaged.salvaged.batches),
        (last, salvaged.salvaged.last - 1),
        "one batch is lost"
    );
    assert!(
        salvaged.salvaged.names.contains(file_name(147).as_bytes()),
        "{:?}",
        salvaged.salvaged.names
    );
    let ns = open(Arc::new(default(directory.path())));
    assert_eq!(ns.needs_fsck().unwrap().unwrap(), salvaged.damage);
    let mut want = all_names(FILES);
    want.remove(file_name(147).as_bytes());
    assert_eq!(named(&ns), want);
    let highest =
        want.iter().map(|name| ns.lookup(&Identity::root(), dir_of(&ns), name).unwrap().file).max();
    let new = create(&ns, &call(&Identity::root()), dir_of(&ns), b"new").unwrap();
    assert!(Some(new.inode.file) > highest, "no index is given out twice");
    ns.clear_needs_fsck().unwrap();
    drop(ns);
    assert_eq!(salvage(directory.path(), None, at(2)).unwrap(), SalvageOutcome::Whole);
    assert_eq!(open(Arc::new(default(directory.path()))).needs_fsck().unwrap(), None);
}

#[test]
fn records_below_a_lost_branch_of_the_base_are_found_page_by_page() {
    const MANY: usize = 2000;
    let whole = made(MANY, true);
    let pages = std::fs::metadata(data(whole.path())).unwrap().len() as usize / 4096;
    let (mut branches, mut leaves) = (0, 0);
    for page in 2..pages {
        let bytes = std::fs::read(data(whole.path())).unwrap();
        let is_branch = bytes[page * 4096 + 10] == 1;
        // Some of the leaves: each lost one is a case of its own.
        if !is_branch && page % 40 != 0 {
            continue;
        }
        let directory = image(whole.path());
        edit(&data(directory.path()), |bytes| bytes[page * 4096..][..64].fill(0xee));
        if Engine::open(directory.path(), EngineOptions::default()).is_ok() {
            continue; // nothing leads there
        }
        let salvaged = done(directory.path());
        assert!(!salvaged.salvaged.damage.is_empty());
        let ns = open(Arc::new(default(directory.path())));
        let (found, all) = (named(&ns), all_names(MANY));
        assert!(
            found.is_subset(&all) && found.len() + 100 > MANY,
            "page {page}: {} names",
            found.len()
        );
        if is_branch {
            assert_eq!(found, all, "page {page}");
        }
        (branches, leaves) = (branches + u32::from(is_branch), leaves + u32::from(!is_branch));
    }
    assert!(branches > 0 && leaves > 3, "{branches} branches, {leaves} leaves");
}

#[test]
fn a_missing_segment_and_a_truncated_base_are_salvaged() {
    let directory = made(FILES, true);
    let segment = segments(directory.path()).remove(0);
    std::fs::remove_file(&segment).unwrap();
    let salvaged = done(directory.path());
    assert!(salvaged.damage.contains(segment.to_str().unwrap()), "{}", salvaged.damage);
    assert_eq!(named(&open(Arc::new(default(directory.path())))), all_names(FILES));
    let cut = made(2000, true);
    edit(&data(cut.path()), |bytes| bytes.truncate(bytes.len() / 2));
    let salvaged = done(cut.path());
    assert!(
        salvaged.salvaged.base_lost > 0 && salvaged.salvaged.damage[0].contains("data.mdb"),
        "{:?}",
        salvaged.salvaged
    );
}

#[test]
fn a_lost_cluster_record_needs_the_uuid() {
    let directory = made(3, false);
    std::fs::remove_dir_all(directory.path().join("base")).unwrap();
    edit(&segments(directory.path())[0], |bytes| bytes.truncate(32));
    let before = segments(directory.path());
    assert_eq!(status(salvage(directory.path(), None, at(1))), Status::Corrupted);
    assert_eq!(segments(directory.path()), before, "nothing was moved");
    let SalvageOutcome::Done(salvaged) =
        salvage(directory.path(), Some(ClusterUuid([9; 16])), at(1)).unwrap()
    else {
        panic!()
    };
    assert!(
        salvaged.repaired.cluster && salvaged.repaired.root && !salvaged.salvaged.lost.is_empty()
    );
    let ns = open(Arc::new(default(directory.path())));
    assert_eq!((ns.cluster().uuid, names(&ns, ROOT)), (ClusterUuid([9; 16]), Vec::new()));
}

#[test]
fn the_next_salvage_finishes_an_interrupted_one() {
    let damaged = made(20, true);
    edit(&data(damaged.path()), |bytes| bytes.truncate(9000));
    let old =
        ["synced", segments(damaged.path())[0].file_name().unwrap().to_str().unwrap(), "base"]
            .map(str::to_owned);
    done(damaged.path());
    let log = segments(damaged.path())[0].file_name().unwrap().to_str().unwrap().to_owned();
    let new = ["base".to_owned(), log, "synced".to_owned()];
    for undone in 0..=6 {
        let directory = tempfile::tempdir().unwrap();
        copy_all(damaged.path(), directory.path());
        let (built, left) = (directory.path().join("salvaged"), directory.path().join("damaged-1"));
        std::fs::create_dir(&built).unwrap();
        std::fs::write(left.join("unfinished"), b"").unwrap();
        let back = |from: &Path, to: &Path, name: &str| {
            std::fs::rename(from.join(name), to.join(name)).unwrap()
        };
        new.iter().rev().take(undone).for_each(|name| back(directory.path(), &built, name));
        old.iter()
            .rev()
            .take(undone.saturating_sub(3))
            .for_each(|name| back(&left, directory.path(), name));
        if undone > 0 {
            assert!(
                Engine::open(directory.path(), EngineOptions::default()).is_err(),
                "{undone} moves undone"
            );
        }
        assert_eq!(
            salvage(directory.path(), None, at(1)).unwrap(),
            SalvageOutcome::Ended(left.clone())
        );
        assert!(open(Arc::new(default(directory.path()))).needs_fsck().unwrap().is_some());
        assert!(old.iter().all(|name| left.join(name).exists()) && !built.exists());
    }
}

fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            std::fs::create_dir(&copy).unwrap();
            copy_all(&path, &copy);
        } else {
            std::fs::copy(&path, copy).unwrap();
        }
    }
}

/// Every directory with its names, each with its attributes.
fn tree(ns: &Namespace, directory: FileIndex) -> BTreeMap<Vec<u8>, (FileIndex, u64, u16)> {
    let found = names(ns, directory).into_iter().map(|name| {
        let inode = ns.lookup(&Identity::root(), directory, &name).unwrap();
        (name, (inode.file, inode.change, inode.mode))
    });
    found.collect()
}

#[test]
fn a_dump_that_is_loaded_gives_an_equal_file_system() {
    for folded in [false, true] {
        let directory = made(FILES, folded);
        let mut bytes = Vec::new();
        let dumped = dump(directory.path(), &mut bytes).unwrap();
        let empty = tempfile::tempdir().unwrap();
        let loaded = load(&empty.path().join("new"), &mut &bytes[..], at(1)).unwrap();
        assert_eq!(loaded.keys, dumped.keys);
        let (a, b) = (default(directory.path()), default(&empty.path().join("new")));
        let (a, b) = (open(Arc::new(a)), open(Arc::new(b)));
        assert_eq!(tree(&a, dir_of(&a)), tree(&b, dir_of(&b)));
        assert_eq!((names(&a, ROOT), a.cluster().uuid), (names(&b, ROOT), b.cluster().uuid));
        assert!(b.needs_fsck().unwrap().is_some() && b.epoch() > a.epoch());
    }
}

#[test]
fn a_truncated_or_flipped_dump_is_not_loaded() {
    let directory = made(40, false);
    let mut bytes = Vec::new();
    dump(directory.path(), &mut bytes).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let new = parent.path().join("new");
    for at_byte in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut flipped = bytes.clone();
        flipped[at_byte] ^= 8;
        for wrong in [&bytes[..at_byte], &flipped] {
            assert_eq!(
                status(load(&new, &mut &*wrong, at(1))),
                Status::Corrupted,
                "byte {at_byte}"
            );
            assert!(matches!(
                Engine::open(&new, EngineOptions::default()),
                Err(StoreError::Missing(_))
            ));
        }
    }
    bytes.push(0);
    assert_eq!(
        status(load(&new, &mut &bytes[..], at(1))),
        Status::Corrupted,
        "bytes after the end"
    );
    assert_eq!(
        status(load(directory.path(), &mut &bytes[..], at(1))),
        Status::Exists,
        "over another store"
    );
}

#[test]
fn a_salvaged_directory_has_its_index_of_folded_names() {
    let root = Identity::root();
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(default(directory.path()));
    let ns = fresh(store.clone());
    let dir = ns.mkdir(&call(&root), ROOT, b"dir", 0o755).unwrap().file;
    assert_eq!(status(ns.look_up_folded(&root, dir, b"none")), Status::NotFound);
    for n in 0..FILES {
        create(&ns, &call(&root), dir, file_name(n).as_bytes()).unwrap();
    }
    // A name without its index record.
    let mut batch = crate::Batch::new();
    let cookie = ns.find_entry(dir, file_name(7).as_bytes()).unwrap().unwrap().cookie;
    batch.remove(crate::key::folded_name(dir, b"FILE-7", cookie));
    // An index record without a name.
    batch.put(crate::key::folded_name(dir, b"GONE", 1 << 40), b"\x01gone");
    store.commit(batch, store.fence()).unwrap();
    let left = killed(&store, directory.path());
    let segment = segments(left.path()).remove(0);
    edit(&segment, |bytes| {
        let name = file_name(147).into_bytes();
        let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
        bytes[at + 40] ^= 1;
    });
    done(left.path());
    let ns = open(Arc::new(default(left.path())));
    super::folded::check_index(&ns, dir_of(&ns));
    let found = ns.look_up_folded(&root, dir, b"FILE-7").unwrap().0;
    assert_eq!(found, file_name(7).into_bytes());
}
