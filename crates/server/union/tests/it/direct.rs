//! Changes made directly on a branch, one case each. Each of these once gave a wrong result.

use std::{fs, os::unix::fs::MetadataExt};

use braid_union::{NewAttributes, NodeId, SetXattr};
use rustix::fs::{OFlags, XattrFlags};
use rustix::io::Errno;

use crate::harness::{Fixture, SmallDisk, me, union_of, union_over};

fn create(union: &Fixture, directory: NodeId, name: &str) -> Result<(), Errno> {
    let created = union.union.create(directory, name.as_bytes(), OFlags::RDWR, (0o644, 0), me());
    created.map(|(_, file)| union.union.close(&file))
}

#[test]
fn a_directory_that_was_replaced_on_a_disk_is_the_new_one() {
    let union = union_over(2, "first", |disks| {
        disks.iter().for_each(|disk| fs::create_dir(disk.join("d")).unwrap());
        fs::write(disks[1].join("d/x"), "old").unwrap();
    });
    let d = union.node("d").unwrap();
    assert_eq!(union.read("d/x").unwrap(), b"old");
    let disk = union.branches[1].clone();
    fs::rename(disk.join("d"), disk.join("aside")).unwrap();
    fs::create_dir(disk.join("d")).unwrap();
    fs::write(disk.join("d/x"), "new").unwrap();
    assert_eq!(union.node("d").unwrap(), d, "the other disk has the same directory");
    assert_eq!(union.read("d/x").unwrap(), b"new");
    union.unlink("d/x").unwrap();
    assert_eq!(fs::read(disk.join("aside/x")).unwrap(), b"old", "another directory's file");
    assert!(!disk.join("d/x").exists());
}

#[test]
fn a_file_in_the_place_of_a_directory_sends_new_files_to_another_disk() {
    let union = union_of(2, "round-robin");
    union.make_dir("d").unwrap();
    let d = union.node("d").unwrap();
    let other = &union.branches[1 - union.on("d")[0]];
    fs::write(other.join("d"), "a file").unwrap();
    (0..4).for_each(|n| create(&union, d, &n.to_string()).unwrap());
    assert_eq!(union.union.list(d).unwrap().entries.len(), 4);
    assert!(union.union.attributes(d).unwrap().is_directory());
    assert_eq!(fs::read(other.join("d")).unwrap(), b"a file");
}

#[test]
fn a_directory_removed_on_a_disk_does_not_stop_calls_on_the_others() {
    let union = union_over(2, "round-robin", |disks| {
        disks.iter().for_each(|disk| fs::create_dir_all(disk.join("p/d")).unwrap());
        fs::write(disks[0].join("p/d/x"), "").unwrap();
    });
    // As a program's working directory: nobody looks it up again.
    let d = union.node("p/d").unwrap();
    assert_eq!(union.union.list(d).unwrap().entries.len(), 1);
    fs::remove_dir_all(union.branches[1].join("p")).unwrap();
    assert_eq!(union.union.list(d).unwrap().entries.len(), 1);
    assert!(union.union.attributes(d).is_ok());
    let mode = NewAttributes { mode: Some(0o700), ..Default::default() };
    assert!(union.union.set_attributes(d, &mode).is_ok());
    assert!(union.union.set_xattr(d, b"user.a", b"b", SetXattr::Any).is_ok());
    assert!(union.union.sync_directory(d).is_ok());
    (0..4).for_each(|n| create(&union, d, &n.to_string()).unwrap());
    assert_eq!(union.names("p/d").unwrap(), ["0", "1", "2", "3", "x"]);
    assert_eq!(fs::metadata(union.branches[1].join("p/d")).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn a_removed_file_shows_the_directory_that_it_hid_and_nothing_else_goes() {
    let union = union_over(3, "first", |disks| {
        fs::write(disks[0].join("x"), "shown").unwrap();
        fs::create_dir(disks[1].join("x")).unwrap();
        fs::write(disks[1].join("x/in"), "in").unwrap();
        fs::write(disks[2].join("x"), "hidden").unwrap();
    });
    union.unlink("x").unwrap();
    assert_eq!(union.read("x/in").unwrap(), b"in");
    assert_eq!(union.on("x"), [1], "both files are removed");
    let union = union_over(2, "first", |disks| {
        fs::create_dir(disks[0].join("x")).unwrap();
        fs::write(disks[1].join("x"), "hidden").unwrap();
    });
    union.remove_dir("x").unwrap();
    assert_eq!(union.read("x").unwrap(), b"hidden");
}

#[test]
fn whatever_is_hidden_goes_along_with_a_rename() {
    let union = union_over(2, "first", |disks| {
        fs::create_dir(disks[0].join("x")).unwrap();
        fs::write(disks[1].join("x"), "hidden").unwrap();
    });
    union.rename("x", "y").unwrap();
    assert_eq!(union.names("").unwrap(), ["y"]);
    assert_eq!((union.on("x"), union.on("y")), (vec![], vec![0, 1]));
    union.write("z", b"z").unwrap();
    union.rename_by("y", "z", braid_union::RenameMode::Exchange).unwrap();
    assert_eq!((union.on("y"), union.on("z")), (vec![0], vec![0, 1]));
}

#[test]
fn a_rename_over_a_name_of_two_kinds_is_refused_before_any_step() {
    // Each line: what the three disks have under `from` and `to`: `f`, `d` or nothing.
    for (from, to, why) in [
        ("f  ", " fd", Errno::ISDIR),
        ("  f", "fd ", Errno::ISDIR),
        ("d  ", "df ", Errno::NOTEMPTY),
        ("  d", "df ", Errno::NOTEMPTY),
        ("df ", "df ", Errno::NOTEMPTY),
        ("fd ", " f ", Errno::NOTDIR),
        ("df ", " d ", Errno::ISDIR),
    ] {
        let union = union_over(3, "first", |disks| {
            for (name, kinds) in [("from", from), ("to", to)] {
                for (disk, kind) in disks.iter().zip(kinds.chars()) {
                    match kind {
                        'f' => fs::write(disk.join(name), name).unwrap(),
                        'd' => fs::create_dir(disk.join(name)).unwrap(),
                        _ => {}
                    }
                }
            }
        });
        let before = (union.on("from"), union.on("to"));
        assert_eq!(union.rename("from", "to"), Err(why), "{from}|{to}");
        assert_eq!((union.on("from"), union.on("to")), before, "{from}|{to}");
    }
}

#[test]
fn two_links_of_a_hidden_file_do_not_bring_back_the_old_name() {
    let union = union_over(2, "first", |disks| {
        fs::write(disks[0].join("a"), "shown").unwrap();
        fs::write(disks[1].join("a"), "hidden").unwrap();
        fs::hard_link(disks[1].join("a"), disks[1].join("b")).unwrap();
    });
    union.rename("a", "b").unwrap();
    assert_eq!(union.names("").unwrap(), ["b"]);
    assert_eq!(union.read("b").unwrap(), b"shown");
    assert_eq!(fs::read(union.branches[1].join("b")).unwrap(), b"hidden");
}

#[test]
fn where_a_file_is_follows_a_direct_rename() {
    let union = union_of(2, "first");
    union.write("x", b"1").unwrap();
    let disk = &union.branches[0];
    fs::rename(disk.join("x"), disk.join("y")).unwrap();
    fs::write(disk.join("x"), "another").unwrap();
    let y = union.node("y").unwrap();
    let path = union.union.xattr(y, b"user.mergerfs.fullpath").unwrap();
    assert_eq!(path, disk.join("y").as_os_str().as_encoded_bytes());
}

#[test]
fn a_tree_deeper_than_a_stack_can_be_used() {
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(use_deep_tree);
    // Its removal here has a larger stack.
    drop(thread.unwrap().join().unwrap());
}

fn use_deep_tree() -> Fixture {
    const DEPTH: u32 = 1_000;
    let union = union_of(2, "first");
    let mut at = NodeId::ROOT;
    for _ in 0..DEPTH {
        at = union.union.create_directory(at, b"d", (0o755, 0), me()).unwrap().node;
    }
    // On the second disk, nothing of it is there yet.
    union.union.set_mode(0, braid_union::BranchMode::Nc).unwrap();
    create(&union, at, "file").unwrap();
    // Other directories take the place of those that are open.
    (0..1_500).for_each(|n| union.make_dir(&format!("other{n}")).unwrap());
    (0..1_500).for_each(|n| assert!(union.names(&format!("other{n}")).unwrap().is_empty()));
    assert_eq!(union.union.list(at).unwrap().entries.len(), 1);
    union
}

#[test]
fn directories_that_change_places_on_a_disk_are_no_loop() {
    let union = union_over(1, "first", |disks| fs::create_dir_all(disks[0].join("a/b")).unwrap());
    let disk = &union.branches[0];
    let b = union.node("a/b").unwrap();
    assert!(union.names("a/b").unwrap().is_empty(), "it is open now");
    fs::rename(disk.join("a/b"), disk.join("b")).unwrap();
    fs::rename(disk.join("a"), disk.join("b/a")).unwrap();
    // From a program whose working directory it is.
    let a = union.union.look_up(b, b"a").unwrap().node;
    for node in [a, b] {
        let path = union.union.xattr(node, b"user.mergerfs.relpath");
        assert!(matches!(path, Ok(_) | Err(Errno::STALE)), "{path:?}");
    }
    assert!(union.node("b/a").is_ok());
    assert_eq!(union.union.xattr(a, b"user.mergerfs.relpath").unwrap(), b"/b/a");
}

/// A rename that a killed process left, and a file that somebody then put in the place of another.
#[test]
fn what_came_after_a_kill_is_not_replaced_by_the_rename_that_was_left() {
    let union = union_over(2, "first", |disks| {
        fs::write(disks[0].join("a"), "old").unwrap();
        fs::write(disks[1].join("b"), "new").unwrap();
    });
    let disks = union.branches.clone();
    let inode = |path: std::path::PathBuf| fs::metadata(path).unwrap().ino();
    let then = |inode: u64| serde_json::json!([inode, 1, 1]);
    let (old, new) = (inode(disks[0].join("a")), inode(disks[1].join("b")));
    let text = |path: &str| serde_json::to_value(path.as_bytes()).unwrap();
    let steps = serde_json::json!([
        {"Rename": {"branch": 1, "inode": new, "from": text("b"), "to": text("a"),
            "replaced": "Nothing"}},
        {"Unlink": {"branch": 0, "inode": old, "path": text("a")}},
    ]);
    // The name that the rename would take.
    let union = union.reopened(|meta| {
        fs::write(disks[1].join("a"), "direct").unwrap();
        fs::write(meta.join("renames/1-0"), steps.to_string()).unwrap();
    });
    assert_eq!(fs::read(disks[1].join("a")).unwrap(), b"direct");
    assert_eq!(fs::read(disks[1].join("b")).unwrap(), b"new");
    assert_eq!(fs::read(disks[0].join("a")).unwrap(), b"old", "nothing is removed then");
    // The number of a removed file, which a new one has got: it was created at another time.
    let steps = serde_json::json!([
        {"Unlink": {"branch": 0, "inode": then(old), "path": text("a")}},
    ]);
    let union = union.reopened(|meta| {
        fs::write(meta.join("renames/1-0"), steps.to_string()).unwrap();
    });
    assert_eq!(union.read("a").unwrap(), b"old");
    let left = fs::read_dir(union.dir.path().join("meta/renames")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn a_rename_that_was_left_does_not_follow_a_symbolic_link() {
    let union = union_over(1, "first", |disks| fs::create_dir(disks[0].join("d")).unwrap());
    let disk = union.branches[0].clone();
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("x");
    fs::write(&file, "outside").unwrap();
    let text = |path: &str| serde_json::to_value(path.as_bytes()).unwrap();
    let inode = fs::metadata(&file).unwrap().ino();
    let steps = serde_json::json!([
        {"Unlink": {"branch": 0, "inode": inode, "path": text("d/x")}},
    ]);
    let _union = union.reopened(|meta| {
        fs::remove_dir(disk.join("d")).unwrap();
        std::os::unix::fs::symlink(outside.path(), disk.join("d")).unwrap();
        fs::write(meta.join("renames/1-0"), steps.to_string()).unwrap();
    });
    assert!(file.exists());
}

#[test]
fn a_directory_copied_to_another_disk_with_all_xattrs_has_its_own_number() {
    let mut small = None;
    let union = union_over(3, "first", |disks| {
        small = SmallDisk::mount(&disks[1], 1 << 20)
            .and_then(|one| SmallDisk::mount(&disks[2], 1 << 20).map(|other| [one, other]));
    });
    if small.is_none() {
        return;
    }
    let disks = union.branches.clone();
    union.make_dir("d").unwrap();
    union.union.set_mode(0, braid_union::BranchMode::Nc).unwrap();
    union.write("d/x", b"").unwrap();
    let copy = disks[1].join("d");
    // New file systems give the same inode numbers in the same order.
    let mut tries = 0;
    let twin = loop {
        let twin = disks[2].join(format!("twin{tries}"));
        fs::create_dir(&twin).unwrap();
        if fs::metadata(&twin).unwrap().ino() == fs::metadata(&copy).unwrap().ino() {
            break twin;
        }
        tries += 1;
        assert!(tries < 100, "no directory with the same inode number");
    };
    let name = "trusted.braid.index";
    let mut value = [0; 256];
    let bytes = rustix::fs::getxattr(&copy, name, &mut value[..]).unwrap();
    rustix::fs::setxattr(&twin, name, &value[..bytes], XattrFlags::empty()).unwrap();
    let union = union.reopened(|_| {});
    let number = |path: &str| union.union.attributes(union.node(path).unwrap()).unwrap().index;
    assert_ne!(number("d"), number(&format!("twin{tries}")));
    drop(union);
}
