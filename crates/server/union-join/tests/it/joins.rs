//! What a join does when nothing goes wrong, and what it leaves.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

use braid_store::{LocalOptions, LocalStore, ObjectStore, RECORD_XATTR};
use braid_types::{ByteCount, ObjectGeneration, ObjectId, PartIndex};
use braid_union::{ErrorKind, Union};
use braid_union_join::{JoinOptions, OBJECTS_DIRECTORY};
use braid_wire::message::FileKind;

use crate::harness::{CLUSTER, World, inode, names};

#[test]
fn every_file_becomes_an_object_and_keeps_its_inode_and_blocks() {
    let (world, files) = World::with_tree();
    let paths: Vec<&str> =
        files.iter().map(|(path, _)| *path).chain(["a/d/sparse", "b/only/again"]).collect();
    let before: Vec<_> = paths
        .iter()
        .map(|path| fs::metadata(world.at(path)).unwrap())
        .map(|found| (found.ino(), found.blocks(), found.len()))
        .collect();
    fs::set_permissions(world.at("b/d/deep/two"), Permissions::from_mode(0o6751)).unwrap();
    let times = fs::metadata(world.at("b/d/deep/two")).unwrap();
    let report = world.join().unwrap();
    assert!(report.finished, "{:?}", report.left);
    assert_eq!((report.names, report.files, report.directories), (7, 6, 4));
    assert_eq!(report.others, 1);
    for (path, (ino, blocks, len)) in paths.iter().zip(before) {
        let object = world.object(path.split_once('/').unwrap().1).unwrap();
        let found = fs::metadata(&object).unwrap();
        assert_eq!((found.ino(), found.len()), (ino, len), "{path}");
        // The record may take the one block that ext4 has for attributes.
        assert!((blocks..=blocks + 8).contains(&found.blocks()), "{path}: {}", found.blocks());
        assert_eq!((found.nlink(), found.mode() & 0o7777), (1, 0o600), "{path}");
    }
    let (_, two) = world.cluster.find("d/deep/two").unwrap();
    assert_eq!((two.mode, two.bytes), (0o6751, ByteCount(100_000)));
    assert_eq!(
        (two.mtime.seconds, i64::from(two.mtime.nanos)),
        (times.mtime(), times.mtime_nsec())
    );
    assert_eq!(
        world.cluster.find("linked").unwrap().0,
        world.cluster.find("only/again").unwrap().0
    );
    assert_eq!(world.cluster.find("link").unwrap().1.target, b"d/deep");
    assert_eq!(world.cluster.root().unwrap().kind, FileKind::Directory);
    assert_eq!((names(&world.at("a")), names(&world.at("b"))), (vec![], vec![]));
    // The store of the daemon reads them.
    let store =
        LocalStore::open(world.at("b").join(OBJECTS_DIRECTORY), CLUSTER, LocalOptions::default());
    let file = world.cluster.find("d/deep/two").unwrap().0;
    let id = ObjectId { file, part: PartIndex(0), generation: ObjectGeneration(1) };
    let stat = store.unwrap().open(id).unwrap().stat().unwrap();
    assert_eq!((stat.size, stat.lost_from), (100_000, None));
}

#[test]
fn a_joined_pool_is_no_union_any_more_and_a_repetition_says_so() {
    let (world, _) = World::with_tree();
    assert!(world.join().unwrap().finished);
    let again = world.join().unwrap();
    assert!(again.finished && again.names == 0);
    let refused = Union::open(&world.pool()).err().unwrap();
    assert!(refused.to_string().contains("have joined the cluster"), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::Usage);
}

#[test]
fn a_hidden_file_stays_and_the_union_ends_only_if_it_is_told_to() {
    let world = World::new();
    for (path, bytes) in [("a/f", "shown"), ("b/f", "hidden"), ("b/g", "other")] {
        fs::write(world.at(path), bytes).unwrap();
    }
    fs::create_dir(world.at("b/f2")).unwrap();
    let report = world.join().unwrap();
    assert!(!report.finished);
    assert_eq!(report.left.len(), 1);
    assert_eq!(report.left[0].path, world.at("b/f"));
    assert_eq!(fs::read(world.at("b/f")).unwrap(), b"hidden");
    assert_eq!(fs::read(world.object("f").unwrap()).unwrap(), b"shown");
    let refused = Union::open(&world.pool()).err().unwrap().to_string();
    assert!(refused.contains("is joining the cluster"), "{refused}");
    // Repeated, it would be another file for the name in the cluster.
    let again = world.join_as(JoinOptions { leave: true, ..World::options() }).unwrap();
    assert!(again.finished);
    assert_eq!(again.left.len(), 1, "{:?}", again.left);
    assert_eq!(fs::read(world.at("b/f")).unwrap(), b"hidden");
    assert_eq!(fs::metadata(world.at("b/f")).unwrap().nlink(), 1);
    assert_eq!(names(&world.at("b")), ["f"]);
}

#[test]
fn a_file_with_a_name_outside_stays_with_all_its_names() {
    let world = World::new();
    fs::create_dir(world.at("outside")).unwrap();
    fs::write(world.at("a/f"), "bytes").unwrap();
    fs::hard_link(world.at("a/f"), world.at("a/g")).unwrap();
    fs::hard_link(world.at("a/f"), world.at("outside/f")).unwrap();
    let report = world.join().unwrap();
    assert_eq!((report.names, report.left.len()), (0, 2));
    assert!(report.left[0].why.contains("another name"), "{:?}", report.left);
    fs::remove_file(world.at("outside/f")).unwrap();
    let report = world.join().unwrap();
    assert!(report.finished, "{:?}", report.left);
    assert_eq!((report.names, report.files), (2, 1));
    assert_eq!(world.cluster.find("f").unwrap().0, world.cluster.find("g").unwrap().0);
}

#[test]
fn a_name_that_the_cluster_has_leaves_the_file_as_it_was() {
    let world = World::new();
    fs::write(world.at("a/f"), "mine").unwrap();
    fs::set_permissions(world.at("a/f"), Permissions::from_mode(0o640)).unwrap();
    let ino = inode(&world.at("a/f"));
    world.cluster.take_name("f");
    let report = world.join().unwrap();
    assert!(report.left[0].why.contains("another file of this name"), "{:?}", report.left);
    let found = fs::metadata(world.at("a/f")).unwrap();
    assert_eq!((found.ino(), found.nlink(), found.mode() & 0o7777), (ino, 1, 0o640));
    let mut list = [0; 256];
    let bytes = rustix::fs::listxattr(world.at("a/f"), &mut list[..]).unwrap();
    assert!(!String::from_utf8_lossy(&list[..bytes]).contains("braid"), "its record is gone");
}

#[test]
fn a_forged_record_leads_to_no_other_file() {
    let world = World::new();
    for (path, bytes) in [("a/secret", "secret"), ("a/f", "shown"), ("b/f", "hidden")] {
        fs::write(world.at(path), bytes).unwrap();
    }
    assert!(!world.join().unwrap().finished, "a name stays");
    // A user gives a file of its own the record of the object.
    let mut record = vec![0; 4096];
    let object = world.object("secret").unwrap();
    let bytes = rustix::fs::getxattr(&object, RECORD_XATTR, &mut record[..]).unwrap();
    fs::write(world.at("a/forged"), "forged").unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(world.at("a/forged"), RECORD_XATTR, &record[..bytes], flags).unwrap();
    assert!(world.join_as(JoinOptions { leave: true, ..World::options() }).unwrap().finished);
    let find = |name: &str| world.cluster.find(name).unwrap().0;
    assert_ne!(find("secret"), find("forged"));
    assert_eq!(fs::read(world.object("forged").unwrap()).unwrap(), b"forged");
    assert_eq!(fs::read(object).unwrap(), b"secret");
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let (world, files) = World::with_tree();
    let options = JoinOptions { dry_run: true, ..World::options() };
    let report = world.join_as(options).unwrap();
    assert_eq!((report.names, report.files, report.directories), (7, 6, 4));
    assert!(!report.finished && world.cluster.imports() == 0);
    for (path, bytes) in files {
        assert_eq!(fs::read(world.at(path)).unwrap(), bytes);
    }
    assert!(world.pool().join_state().unwrap().is_none());
    Union::open(&world.pool()).unwrap();
}

#[test]
fn many_files_take_few_calls_of_the_metadata_server() {
    let world = World::new();
    for n in 0..2000 {
        fs::create_dir_all(world.at(&format!("a/{}", n % 100))).unwrap();
        fs::write(world.at(&format!("a/{}/{n}", n % 100)), n.to_string()).unwrap();
    }
    symlink("nowhere", world.at("a/0/link")).unwrap();
    assert!(world.join().unwrap().finished);
    assert!(world.cluster.imports() <= 6, "{}", world.cluster.imports());
    assert_eq!(fs::read(world.object("99/1999").unwrap()).unwrap(), b"1999");
}
