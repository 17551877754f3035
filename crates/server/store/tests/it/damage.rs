//! Files of an object directory are changed, truncated, removed and swapped at random. Every read
//! is right, or an error names the damage. A changed byte within an object's data is not tested:
//! without checksums nothing notices it.
#![cfg(target_os = "linux")]

use braid_store::{
    LocalOptions, LocalStore, NewObject, ObjectStore, RECORD_XATTR, SizeChange, StoreError,
};
use braid_types::{
    ClusterUuid, FileIndex, IodId, ObjectGeneration, ObjectId, ObjectOffset, PartIndex, Random,
    SizeGeneration, Status,
};
use rustix::fs::XattrFlags;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CLUSTER: ClusterUuid = ClusterUuid(*b"damaged on a day");
const FILES: u64 = 8;
const SEEDS: u64 = 150;

fn id(file: u64) -> ObjectId {
    ObjectId { file: FileIndex(file), part: PartIndex(0), generation: ObjectGeneration(0) }
}

fn data(file: u64) -> Vec<u8> {
    (0..2000 + file * 3000).map(|at| (at * 7 + file * 31 + at / 251) as u8 | 1).collect()
}

fn path_of(root: &Path, file: u64) -> PathBuf {
    root.join(format!("objects/{:03x}/{}", file % 1024, id(file)))
}

fn open(root: &Path) -> Result<LocalStore, StoreError> {
    LocalStore::open(root, CLUSTER, LocalOptions::default())
}

/// Written and flushed files, two of which end in a hole.
fn filled(root: &Path) {
    LocalStore::init(root, CLUSTER, Some(IodId(1))).unwrap();
    let store = open(root).unwrap();
    for file in 0..FILES {
        let new = NewObject {
            id: id(file),
            size_generation: SizeGeneration(0),
            uid: 0,
            gid: 0,
            layout: Arc::from([]),
        };
        let object = store.create(&new).unwrap();
        object.write_at(&data(file), ObjectOffset(0), SizeGeneration(0)).unwrap();
        object.flush().unwrap();
    }
}

/// Does one random damage to the directory. Returns what it was.
fn damage(root: &Path, random: &mut Random) -> String {
    let (file, other) = (random.below(FILES), random.below(FILES));
    let (object, second) = (path_of(root, file), path_of(root, other));
    let small = ["braid-iod.toml", "verifier", "lock"][random.below(3) as usize];
    let flip = |bytes: &mut Vec<u8>, random: &mut Random| {
        let at = random.below(bytes.len().max(1) as u64) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << random.below(8);
        }
    };
    match random.below(9) {
        0 => {
            fs::remove_file(&object).unwrap();
            format!("removed {file}")
        }
        1 | 2 => {
            let bytes = random.below(data(file).len() as u64);
            fs::File::options().write(true).open(&object).unwrap().set_len(bytes).unwrap();
            format!("cut {file} to {bytes}")
        }
        3 => {
            let mut record = vec![0; 4096];
            let length = rustix::fs::getxattr(&object, RECORD_XATTR, &mut record[..]).unwrap();
            record.truncate(length);
            flip(&mut record, random);
            rustix::fs::setxattr(&object, RECORD_XATTR, &record, XattrFlags::REPLACE).unwrap();
            format!("flipped a bit of the record of {file}")
        }
        4 => {
            rustix::fs::removexattr(&object, RECORD_XATTR).unwrap();
            format!("removed the record of {file}")
        }
        5 if file != other => {
            let aside = root.join("aside");
            fs::rename(&object, &aside).unwrap();
            fs::rename(&second, &object).unwrap();
            fs::rename(&aside, &second).unwrap();
            format!("swapped {file} and {other}")
        }
        6 => {
            let mut bytes = fs::read(root.join(small)).unwrap();
            flip(&mut bytes, random);
            fs::write(root.join(small), bytes).unwrap();
            format!("flipped a bit of {small}")
        }
        7 => {
            fs::remove_file(root.join(small)).unwrap();
            format!("removed {small}")
        }
        _ => {
            fs::remove_dir_all(object.parent().unwrap()).unwrap();
            format!("removed the directory of {file}")
        }
    }
}

/// Every byte is read right, or an error names the object or the directory. No other byte is ever
/// returned.
fn check(root: &Path, what: &str) -> usize {
    let store = match open(root) {
        Ok(store) => store,
        Err(error) => {
            assert!(
                error.to_string().contains(&root.display().to_string()),
                "{what}: {error} names no path"
            );
            return 1;
        }
    };
    let mut errors = 0;
    for file in 0..FILES {
        let want = data(file);
        let object = match store.open(id(file)) {
            Ok(object) => object,
            Err(error) => {
                let known = [Status::ObjectLost, Status::Corrupted, Status::NotServing];
                assert!(known.contains(&error.status()), "{what}: {error}");
                errors += 1;
                continue;
            }
        };
        let stat = object.stat().unwrap();
        assert_eq!(stat.size, want.len() as u64, "{what}: {file} silently has another length");
        let there = stat.lost_from.unwrap_or(stat.size) as usize;
        errors += usize::from(there < want.len());
        let mut got = vec![0; want.len()];
        assert_eq!(object.read_at(&mut got, ObjectOffset(0)).unwrap(), there, "{what}: {file}");
        assert_eq!(got[..there], want[..there], "{what}: {file}");
        // A write behind the lost end does not repair the object.
        if there < want.len() {
            object.write_at(b"x", ObjectOffset(want.len() as u64), SizeGeneration(0)).unwrap_err();
        }
    }
    errors
}

#[test]
fn damage_of_a_directory_gives_the_right_bytes_or_an_error_that_names_it() {
    let mut errors = 0;
    for seed in 0..SEEDS {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let root = dir.path().join("iod");
        filled(&root);
        let mut random = Random::new(seed);
        let what = format!("seed {seed}: {}", damage(&root, &mut random));
        errors += check(&root, &what);
        // The daemon has moved or repaired nothing: a second start reports the same.
        check(&root, &what);
    }
    assert!(errors > SEEDS as usize / 3, "most damage is seen: {errors} errors of {SEEDS} runs");
}

#[test]
fn a_file_cut_while_the_daemon_has_it_open_is_noticed_by_the_next_look() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("iod");
    filled(&root);
    let store = open(&root).unwrap();
    let object = store.open(id(3)).unwrap();
    fs::File::options().write(true).open(path_of(&root, 3)).unwrap().set_len(10).unwrap();
    assert_eq!(object.stat().unwrap().lost_from, Some(10));
    object.change_size(SizeChange::Truncate { length: 20_000 }, SizeGeneration(1)).unwrap();
    let stat = object.stat().unwrap();
    assert_eq!((stat.size, stat.lost_from), (20_000, Some(10)), "it is not grown over the loss");
}
