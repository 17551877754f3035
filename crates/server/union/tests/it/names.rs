//! Names over several branches.

use std::fs;

use braid_union::{NodeId, SetXattr};
use rustix::io::Errno;

use crate::harness::{union_of, union_over};

#[test]
fn adopted_files_are_seen_and_nothing_is_written_to_them() {
    let union = union_over(2, "first", |disks| {
        fs::create_dir_all(disks[0].join("films")).unwrap();
        fs::create_dir_all(disks[1].join("films/old")).unwrap();
        fs::write(disks[0].join("films/a"), "one").unwrap();
        fs::write(disks[1].join("films/b"), "two").unwrap();
    });
    assert_eq!(union.names("").unwrap(), ["films"]);
    assert_eq!(union.names("films").unwrap(), ["a", "b", "old"]);
    assert_eq!(union.read("films/b").unwrap(), b"two");
    let in_root: Vec<_> = fs::read_dir(&union.branches[1]).unwrap().map(|e| e.unwrap()).collect();
    assert_eq!(in_root.len(), 2, "films and .braid-branch: {in_root:?}");
}

#[test]
fn files_of_one_directory_are_on_several_disks_and_readable_there() {
    let union = union_of(3, "round-robin");
    union.make_dir("d").unwrap();
    (0..6).for_each(|n| union.write(&format!("d/{n}"), b"bytes").unwrap());
    let places: Vec<Vec<usize>> = (0..6).map(|n| union.on(&format!("d/{n}"))).collect();
    assert!(places.iter().all(|place| place.len() == 1), "each on one disk: {places:?}");
    assert_eq!(union.on("d"), [0, 1, 2]);
    let direct = union.branches[places[0][0]].join("d/0");
    assert_eq!(fs::read(direct).unwrap(), b"bytes");
}

#[test]
fn of_one_name_on_two_disks_the_first_shows_and_none_is_lost() {
    let union = union_over(2, "first", |disks| {
        disks.iter().for_each(|disk| {
            fs::write(disk.join("x"), disk.as_os_str().as_encoded_bytes()).unwrap()
        });
    });
    let first = union.branches[0].as_os_str().as_encoded_bytes().to_vec();
    assert_eq!(union.read("x").unwrap(), first);
    let places = union.union.xattr(union.node("x").unwrap(), b"user.mergerfs.allpaths").unwrap();
    assert_eq!(places.split(|byte| *byte == 0).count(), 2);
    union.rename("x", "y").unwrap();
    assert_eq!((union.on("x"), union.on("y")), (vec![], vec![0, 1]), "the hidden one goes along");
    assert_eq!(union.read("y").unwrap(), first);
    assert_eq!(union.names("").unwrap(), ["y"]);
}

#[test]
fn the_files_of_the_union_itself_are_hidden() {
    let union = union_of(2, "first");
    assert_eq!(union.names("").unwrap(), [""; 0]);
    assert_eq!(union.read(".braid-branch"), Err(Errno::NOENT));
    assert_eq!(union.write(".braid-branch", b""), Err(Errno::NOENT));
    assert_eq!(union.unlink(".braid-branch"), Err(Errno::NOENT));
}

#[test]
fn a_new_copy_of_a_directory_has_its_owner_mode_xattrs_and_number() {
    let union = union_of(2, "round-robin");
    union.make_dir("d").unwrap();
    let d = union.node("d").unwrap();
    let mode = braid_union::NewAttributes { mode: Some(0o2751), ..Default::default() };
    union.union.set_attributes(d, &mode).unwrap();
    union.union.set_xattr(d, b"user.colour", b"red", SetXattr::Any).unwrap();
    let number = union.union.attributes(d).unwrap().index;
    (0..4).for_each(|n| union.write(&format!("d/{n}"), b"").unwrap());
    assert_eq!(union.on("d"), [0, 1]);
    for branch in &union.branches {
        use std::os::unix::fs::PermissionsExt;
        let copy = branch.join("d");
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o7777, 0o2751);
        let mut value = [0; 8];
        assert_eq!(rustix::fs::getxattr(&copy, "user.colour", &mut value[..]), Ok(3));
    }
    let union = union.reopened(|_| {});
    let d = union.node("d").unwrap();
    assert_eq!(union.union.attributes(d).unwrap().index, number);
}

#[test]
fn numbers_of_files_are_the_same_after_a_restart() {
    let union = union_of(3, "round-robin");
    (0..9).for_each(|n| union.write(&n.to_string(), b"").unwrap());
    let numbers = |union: &crate::harness::Fixture| -> Vec<u64> {
        let number =
            |n: i32| union.union.attributes(union.node(&n.to_string()).unwrap()).unwrap().index;
        (0..9).map(number).collect()
    };
    let before = numbers(&union);
    let distinct: std::collections::HashSet<_> = before.iter().collect();
    assert_eq!(distinct.len(), 9);
    assert_eq!(numbers(&union.reopened(|_| {})), before);
}

#[test]
fn a_change_on_a_disk_is_seen_by_the_next_lookup() {
    let union = union_of(2, "first");
    union.write("x", b"old").unwrap();
    let old = union.node("x").unwrap();
    fs::write(union.branches[0].join("new"), "new").unwrap();
    fs::rename(union.branches[0].join("new"), union.branches[0].join("x")).unwrap();
    assert_eq!(union.read("x").unwrap(), b"new");
    assert_ne!(union.node("x").unwrap(), old, "another file is another node");
    assert_eq!(union.union.attributes(old), Err(Errno::STALE));
    fs::create_dir(union.branches[1].join("d")).unwrap();
    fs::write(union.branches[1].join("d/f"), "f").unwrap();
    assert_eq!(union.read("d/f").unwrap(), b"f");
}

#[test]
fn a_removed_file_that_is_open_can_be_used() {
    let union = union_of(2, "round-robin");
    union.write("x", b"bytes").unwrap();
    let node = union.node("x").unwrap();
    let file = union.union.open_file(node, rustix::fs::OFlags::RDWR).unwrap();
    union.unlink("x").unwrap();
    assert_eq!(union.read("x"), Err(Errno::NOENT));
    let found = union.union.attributes(node).unwrap();
    assert_eq!((found.size, found.links), (5, 0));
    let size = braid_union::NewAttributes { size: Some(2), ..Default::default() };
    assert_eq!(union.union.set_attributes(node, &size).unwrap().size, 2);
    union.union.close(&file);
    assert_eq!(union.union.attributes(node), Err(Errno::STALE));
}

#[test]
fn forgotten_nodes_take_no_memory() {
    let union = union_of(2, "round-robin");
    (0..50).for_each(|n| union.write(&n.to_string(), b"").unwrap());
    let known = union.union.nodes();
    assert_eq!(known, 51);
    for n in 0..50 {
        let node = union.node(&n.to_string()).unwrap();
        union.union.forget(node, 2);
        assert_eq!(union.union.attributes(node), Err(Errno::STALE));
    }
    assert_eq!(union.union.nodes(), 1);
    union.union.forget(NodeId::ROOT, 1_000);
    assert!(union.union.attributes(NodeId::ROOT).is_ok(), "the root stays");
}

#[test]
fn wrong_names_are_refused() {
    let union = union_of(1, "first");
    let look_up = |name: &[u8]| union.union.look_up(NodeId::ROOT, name).map(drop);
    for wrong in [&b""[..], b".", b"..", b"a/b", b"../disk0"] {
        assert_eq!(look_up(wrong), Err(Errno::INVAL));
    }
    assert_eq!(look_up(&[b'x'; 256]), Err(Errno::NAMETOOLONG));
    assert_eq!(union.union.look_up(NodeId(77), b"x").map(drop), Err(Errno::STALE));
}

#[test]
fn a_directory_that_gets_a_copy_keeps_the_time_of_its_last_change() {
    let union = union_of(3, "round-robin");
    union.make_dir("above").unwrap();
    union.make_dir("above/below").unwrap();
    let modified = |path: &str| union.union.attributes(union.node(path).unwrap()).unwrap().modified;
    std::thread::sleep(std::time::Duration::from_millis(20));
    let before = (modified("above"), modified(""));
    // Each on another disk, which has none of the directories yet.
    (0..3).for_each(|n| union.write(&format!("above/below/{n}"), b"").unwrap());
    assert_eq!(union.on("above/below"), [0, 1, 2]);
    assert_eq!((modified("above"), modified("")), before);
}
