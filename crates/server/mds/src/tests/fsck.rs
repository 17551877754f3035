//! The online check of names: damage of the store is reported, and repaired on request. Nothing
//! else is changed.

use std::sync::atomic::{AtomicBool, Ordering};

use braid_meta::{Batch, MetaStore};
use braid_types::FileIndex;
use braid_wire::message::mds::*;

use super::world::{Client, World, at};

/// Every shard checked.
fn fsck(world: &mut World, mend: bool) -> Vec<FsckProblem> {
    let admin = world.admin();
    let shards = admin.call(FsckShards {}).unwrap();
    shards
        .into_iter()
        .flat_map(|shard| admin.call(FsckNamespace { shard, mend }).unwrap().problems)
        .collect()
}

/// Writes a wrong count into the store.
fn plant_links(world: &World, client: &Client, path: &str, links: u32) {
    let found = client.stat(path).unwrap();
    let root = braid_meta::Identity::root();
    let call = braid_meta::Call { who: &root, now: Default::default(), replay: None };
    let change = world.core.namespace.getattr(found.file).unwrap().change;
    world.core.namespace.mend_links(&call, found.file, links, change).unwrap();
}

/// Removes the name of a file from the store and leaves the file: both keys of the entry, as in
/// docs/format-meta.md.
fn plant_lost_name(world: &World, client: &Client, directory: FileIndex, name: &str) {
    let list =
        ReadDirectory { dir: directory, cookie: 0, bytes_max: 65_536, with_attributes: false };
    let entries = client.call(list).unwrap().entries;
    let cookie = entries.iter().find(|entry| entry.name == name.as_bytes()).unwrap().cookie;
    let key = |letter: u8, rest: &[u8]| {
        let mut key = directory.shard().0.to_be_bytes().to_vec();
        key.push(letter);
        key.extend_from_slice(&directory.0.to_be_bytes());
        key.extend_from_slice(rest);
        key
    };
    let mut batch = Batch::new();
    batch.remove(key(b'E', name.as_bytes()));
    batch.remove(key(b'C', &cookie.to_be_bytes()));
    world.store.commit(batch, world.store.fence()).unwrap();
}

#[test]
fn a_wrong_link_count_is_reported_and_repaired_only_on_request() {
    let mut world = World::new(1);
    let client = world.client();
    client.call(MakeDirectory { at: at("d"), mode: 0o755, umask: 0 }).unwrap();
    client.close(&client.create("d/f"));
    client.call(MakeLink { from: at("d/f"), to: at("again") }).unwrap();
    plant_links(&world, &client, "d/f", 7);
    plant_links(&world, &client, "d", 9);
    for _ in 0..2 {
        let mut problems = fsck(&mut world, false);
        problems.sort_by_key(|problem| problem.detail.clone());
        let kinds: Vec<_> = problems.iter().map(|problem| (problem.kind, problem.mended)).collect();
        assert_eq!(kinds, [(FsckProblemKind::LinkCount, false); 2]);
        assert!(
            problems[0].detail.starts_with("/d (file") && problems[0].detail.contains("records 9"),
            "{}",
            problems[0].detail
        );
        assert!(
            problems[1].detail.contains("records 7 links; names that lead to it: 2"),
            "{}",
            problems[1].detail
        );
    }
    assert_eq!(client.stat("d/f").unwrap().links, 7, "a check alone changes nothing");
    assert!(fsck(&mut world, true).iter().all(|problem| problem.mended));
    assert_eq!((client.stat("d/f").unwrap().links, client.stat("d").unwrap().links), (2, 2));
    assert_eq!(fsck(&mut world, false), []);
    world.restart();
    let client = world.client();
    assert_eq!(client.stat("d/f").unwrap().links, 2);
}

#[test]
fn an_unreachable_directory_comes_back_whole_under_lost_and_found() {
    let mut world = World::new(1);
    let client = world.client();
    client.call(MakeDirectory { at: at("d"), mode: 0o755, umask: 0 }).unwrap();
    client.call(MakeDirectory { at: at("d/sub"), mode: 0o700, umask: 0 }).unwrap();
    client.close(&client.create("d/sub/f"));
    let (lost, file) = (client.stat("d").unwrap().file, client.stat("d/sub/f").unwrap().file);
    plant_lost_name(&world, &client, FileIndex::ROOT, "d");
    // The running server still has the path in its cache.
    world.restart();
    let client = world.client();
    assert!(client.stat("d").is_err());
    let problems = fsck(&mut world, false);
    let kinds: Vec<_> =
        problems.iter().map(|problem| (problem.file, problem.kind, problem.mended)).collect();
    // The root still counts it.
    let root = (FileIndex::ROOT, FsckProblemKind::LinkCount, false);
    assert_eq!(kinds.len(), 2, "{problems:?}");
    assert!(
        kinds.contains(&(lost, FsckProblemKind::Unreachable, false)) && kinds.contains(&root),
        "{problems:?}"
    );
    assert!(client.stat("lost+found").is_err(), "a check alone changes nothing");
    while !fsck(&mut world, true).is_empty() {}
    let back = format!("lost+found/file-{lost}");
    assert_eq!(client.stat(&back).unwrap().file, lost);
    assert_eq!(client.stat(&format!("{back}/sub/f")).unwrap().file, file);
    assert_eq!(client.stat("lost+found").unwrap().mode, 0o700, "only root looks there");
    assert_eq!(fsck(&mut world, false), []);
}

#[test]
fn an_unreachable_file_comes_back_and_a_named_one_is_left_alone() {
    let mut world = World::new(1);
    let client = world.client();
    let opened = client.create("f");
    let file = opened.attributes.file;
    let bring_back = || FsckMendFile { file, mend: FsckMend { bytes: None, existing_parts: None } };
    assert!(world.admin().call(bring_back()).unwrap_err().detail.contains("not lost"));
    plant_lost_name(&world, &client, FileIndex::ROOT, "f");
    world.admin().call(bring_back()).unwrap();
    let back = client.stat(&format!("lost+found/file-{file}")).unwrap();
    assert_eq!((back.file, back.links), (file, 1));
}

#[test]
fn a_file_that_is_open_and_has_lost_its_last_name_is_no_problem() {
    let mut world = World::new(1);
    let client = world.client();
    let _opened = client.create("f");
    client.call(Unlink { at: at("f") }).unwrap();
    assert_eq!(fsck(&mut world, false), []);
}

#[test]
fn names_that_change_during_the_check_are_no_problem_and_not_repaired() {
    let mut world = World::new(1);
    let client = world.client();
    for name in ["a", "b"] {
        client.call(MakeDirectory { at: at(name), mode: 0o755, umask: 0 }).unwrap();
        (0..50).for_each(|n| client.close(&client.create(&format!("{name}/{n}"))));
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..50).cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                let (from, other) = (format!("a/{n}"), format!("b/again{n}"));
                client.call(MakeLink { from: at(&from), to: at(&other) }).unwrap();
                client.call(Unlink { at: at(&from) }).unwrap();
                let mode = RenameMode::Replace;
                client.call(Rename { from: at(&other), to: at(&from), mode }).unwrap();
                client.call(MakeDirectory { at: at("a/sub"), mode: 0o755, umask: 0 }).unwrap();
                client.call(RemoveDirectory { at: at("a/sub") }).unwrap();
                client.close(&client.create("b/new"));
                client.call(Unlink { at: at("b/new") }).unwrap();
            }
        });
        let problems: Vec<_> = (0..50).flat_map(|_| fsck(&mut world, true)).collect();
        done.store(true, Ordering::Relaxed);
        assert_eq!(problems, []);
    });
    assert!((0..50).all(|n| client.stat(&format!("a/{n}")).unwrap().links == 1));
}
