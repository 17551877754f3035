//! How often branches are asked, and that fewer questions give no wrong answer when calls meet.

use std::{
    fs,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use braid_union::NodeId;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::harness::{Fixture, me, union_of, union_over};

/// The questions that `call` costs.
fn asked(union: &Fixture, call: impl FnOnce()) -> u64 {
    let before = union.union.names_asked();
    call();
    union.union.names_asked() - before
}

fn create(union: &Fixture, directory: NodeId, name: &str) -> Result<(), Errno> {
    let (found, file) =
        union.union.create(directory, name.as_bytes(), OFlags::RDWR, (0o644, 0), me())?;
    union.union.close(&file);
    union.union.forget(found.node, 1);
    Ok(())
}

#[test]
fn a_create_after_a_lookup_asks_no_branch_again() {
    let union = union_of(8, "round-robin");
    let root = NodeId::ROOT;
    let look_up = || assert_eq!(union.union.look_up(root, b"x").map(drop), Err(Errno::NOENT));
    assert_eq!(asked(&union, look_up), 8);
    assert_eq!(asked(&union, || create(&union, root, "x").unwrap()), 0);
    assert_eq!(asked(&union, || create(&union, root, "y").unwrap()), 8, "without a lookup");
    assert_eq!(create(&union, root, "x"), Err(Errno::EXIST));
}

#[test]
fn an_answer_is_not_used_after_the_name_came_by_another_call() {
    let union = union_of(3, "round-robin");
    let absent = |name: &[u8]| union.union.look_up(NodeId::ROOT, name) == Err(Errno::NOENT);
    create(&union, NodeId::ROOT, "a").unwrap();
    assert!(absent(b"b"));
    union.rename("a", "b").unwrap();
    assert_eq!(create(&union, NodeId::ROOT, "b"), Err(Errno::EXIST));
    assert!(absent(b"c"));
    union.link("b", "c").unwrap();
    assert_eq!(create(&union, NodeId::ROOT, "c"), Err(Errno::EXIST));
    assert!(absent(b"d"));
    union.make_dir("d").unwrap();
    assert_eq!(create(&union, NodeId::ROOT, "d"), Err(Errno::EXIST));
}

#[test]
fn of_several_threads_that_create_one_name_one_succeeds() {
    const THREADS: usize = 4;
    const NAMES: usize = 300;
    let union = union_of(4, "round-robin");
    let (start, union_ref) = (Barrier::new(THREADS), &union);
    let one = || {
        let created = |name: &usize| {
            start.wait();
            let name = name.to_string();
            // As the kernel does, but without its lock of the directory.
            let _ = union_ref.union.look_up(NodeId::ROOT, name.as_bytes());
            match create(union_ref, NodeId::ROOT, &name) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => panic!("{error}"),
            }
        };
        (0..NAMES).filter(created).count()
    };
    let created: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(created, NAMES);
    (0..NAMES).for_each(|name| assert_eq!(union.on(&name.to_string()).len(), 1, "{name}"));
}

#[test]
fn a_lookup_at_the_same_time_loses_no_copy_of_a_directory() {
    const DIRECTORIES: usize = 150;
    let union = union_of(6, "round-robin");
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    (0..DIRECTORIES).for_each(|at| _ = union.node(&at.to_string()));
                }
            });
        }
        let lost = (0..DIRECTORIES).find(|at| {
            let directory = at.to_string();
            union.make_dir(&directory).unwrap();
            let node = union.node(&directory).unwrap();
            let files: Vec<String> = (0..6).map(|n| n.to_string()).collect();
            // Each on another branch, where the directory is created for it.
            files.iter().for_each(|name| create(&union, node, name).unwrap());
            files.iter().any(|name| union.union.look_up(node, name.as_bytes()).is_err())
        });
        ended.store(true, Ordering::Relaxed);
        assert_eq!(lost, None);
    });
}

#[test]
fn a_listed_name_is_asked_for_only_where_it_is() {
    let union = union_over(8, "first", |disks| {
        disks.iter().for_each(|disk| fs::create_dir(disk.join("d")).unwrap());
        fs::write(disks[7].join("d/file"), "").unwrap();
        [2, 5].iter().for_each(|at| fs::create_dir(disks[*at].join("d/sub")).unwrap());
    });
    let d = union.node("d").unwrap();
    let listing = union.union.list(d).unwrap();
    let entry = |name: &[u8]| listing.entries.iter().find(|entry| *entry.name == *name).unwrap();
    let look_up = |name: &[u8]| union.union.look_up_listed(d, &listing, entry(name));
    assert_eq!(asked(&union, || _ = look_up(b"file").unwrap()), 1);
    assert_eq!(asked(&union, || _ = look_up(b"sub").unwrap()), 2);
    // The file is hidden by one that came later on an earlier branch by another call.
    create(&union, d, "other").unwrap();
    assert_eq!(asked(&union, || _ = look_up(b"file").unwrap()), 8);
    fs::rename(union.branches[7].join("d/file"), union.branches[0].join("d/file")).unwrap();
    let moved = union.union.list(d).unwrap();
    let place = moved.entries.iter().position(|entry| *entry.name == *b"file").unwrap();
    fs::remove_file(union.branches[0].join("d/file")).unwrap();
    fs::write(union.branches[3].join("d/file"), "new").unwrap();
    let found = union.union.look_up_listed(d, &moved, &moved.entries[place]).unwrap();
    assert_eq!(found.attributes.size, 3, "where it was listed it is not any more");
}

/// Lookups of absent names until the directory is indexed.
fn make_busy(union: &Fixture, directory: NodeId) {
    for n in 0..50 {
        let _ = union.union.look_up(directory, format!("absent {n}").as_bytes());
    }
}

#[test]
fn in_a_busy_directory_only_branches_with_the_name_are_asked() {
    let union = union_of(8, "round-robin");
    (0..8).for_each(|n| create(&union, NodeId::ROOT, &n.to_string()).unwrap());
    let root = NodeId::ROOT;
    let look_up = |name: &str| union.union.look_up(root, name.as_bytes()).map(drop);
    // On a machine that stops for half a second between two calls, again.
    let asks_few = (0..50).any(|n| {
        make_busy(&union, root);
        let absent = asked(&union, || assert_eq!(look_up("absent"), Err(Errno::NOENT)));
        let on_one = asked(&union, || look_up("7").unwrap());
        let name = format!("new {n}");
        let new = asked(&union, || {
            assert_eq!(look_up(&name), Err(Errno::NOENT));
            create(&union, root, &name).unwrap();
            look_up(&name).unwrap();
        });
        (absent, on_one, new) == (0, 1, 1)
    });
    assert!(asks_few);
}

#[test]
fn in_a_busy_directory_names_that_came_by_any_call_are_found() {
    let union = union_of(4, "round-robin");
    union.make_dir("d").unwrap();
    let d = union.node("d").unwrap();
    (0..4).for_each(|n| create(&union, d, &format!("file {n}")).unwrap());
    make_busy(&union, d);
    create(&union, d, "created").unwrap();
    union.link("d/created", "d/linked").unwrap();
    create(&union, NodeId::ROOT, "x").unwrap();
    union.rename("x", "d/renamed").unwrap();
    union.rename_by("d/file 0", "d/file 1", braid_union::RenameMode::Exchange).unwrap();
    union.make_dir("d/sub").unwrap();
    // Each on another branch: the subdirectory gets a copy there.
    (0..4).for_each(|n| union.write(&format!("d/sub/{n}"), b"").unwrap());
    for name in ["created", "linked", "renamed", "file 0", "file 1", "sub/0", "sub/3"] {
        assert!(union.node(&format!("d/{name}")).is_ok(), "{name}");
    }
    // Moved to another branch by somebody else.
    let from = union.on("d/renamed")[0];
    let to = (from + 1) % 4;
    let path = |branch: usize| union.branches[branch].join("d/renamed");
    fs::rename(path(from), path(to)).unwrap();
    assert!(union.node("d/renamed").is_ok());
    assert_eq!(create(&union, d, "renamed"), Err(Errno::EXIST));
}

#[test]
fn in_a_busy_directory_direct_changes_are_seen_in_a_second() {
    let union = union_of(2, "first");
    create(&union, NodeId::ROOT, "x").unwrap();
    make_busy(&union, NodeId::ROOT);
    fs::write(union.branches[1].join("new"), "").unwrap();
    let start = std::time::Instant::now();
    while union.node("new").is_err() {
        assert!(start.elapsed() < braid_union::NAMES_VALID, "not seen");
        thread::yield_now();
    }
}

/// How often names of directories are read in `call`.
fn read(union: &Fixture, call: impl FnOnce()) -> u64 {
    let before = union.union.listings_read();
    call();
    union.union.listings_read() - before
}

/// Lists a directory until the listing is kept: then it is not read again.
fn settle(union: &Fixture, directory: NodeId) {
    let start = std::time::Instant::now();
    while union.union.list(directory).unwrap().id.is_none() {
        assert!(start.elapsed() < std::time::Duration::from_secs(30), "not kept");
        thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_directory_that_has_not_changed_is_read_once() {
    let union = union_over(3, "first", |disks| {
        disks.iter().for_each(|disk| fs::create_dir(disk.join("d")).unwrap());
        (0..3).for_each(|at| fs::write(disks[at].join(format!("d/{at}")), "").unwrap());
    });
    let d = union.node("d").unwrap();
    assert_eq!(union.union.list(d).unwrap().id, None, "just made");
    settle(&union, d);
    let first = union.union.list(d).unwrap();
    assert_eq!(read(&union, || assert_eq!(union.names("d").unwrap(), ["0", "1", "2"])), 0);
    assert_eq!(union.union.list(d).unwrap().id, first.id);
    // A file's content is no change of the directory.
    fs::write(union.branches[1].join("d/1"), "content").unwrap();
    assert_eq!(read(&union, || _ = union.names("d").unwrap()), 0);
    assert!(first.age() > union.union.list(d).unwrap().age(), "it was found to be right now");
}

#[test]
fn a_kept_listing_is_read_again_after_any_change() {
    let union = union_over(3, "first", |disks| {
        disks.iter().for_each(|disk| fs::create_dir(disk.join("d")).unwrap());
        fs::write(disks[1].join("d/x"), "").unwrap();
    });
    let d = union.node("d").unwrap();
    let on = |branch: usize, name: &str| union.branches[branch].join("d").join(name);
    let after = |change: &dyn Fn(), names: &[&str]| {
        settle(&union, d);
        change();
        assert_eq!(read(&union, || assert_eq!(union.names("d").unwrap(), names)), 1, "{names:?}");
    };
    after(&|| fs::write(on(2, "y"), "").unwrap(), &["x", "y"]);
    after(&|| fs::rename(on(2, "y"), on(0, "y")).unwrap(), &["x", "y"]);
    after(&|| fs::rename(on(0, "y"), on(0, "z")).unwrap(), &["x", "z"]);
    after(&|| create(&union, d, "new").unwrap(), &["new", "x", "z"]);
    after(&|| union.unlink("d/x").unwrap(), &["new", "z"]);
    let gone = || {
        fs::remove_dir(union.branches[2].join("d")).unwrap();
        // The kernel looks up names every second.
        union.node("d").unwrap();
    };
    after(&gone, &["new", "z"]);
}
