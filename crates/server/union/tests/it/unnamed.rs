//! Files without a name (`O_TMPFILE`).

use std::{fs, ops::ControlFlow, os::unix::fs::MetadataExt, sync::Arc};

use braid_union::{BranchMode, NodeId, OpenFile, SetXattr, User};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::harness::{Fixture, me, union_of};

fn create(
    union: &Fixture,
    directory: &str,
    mode: (u32, u32),
    user: User,
) -> Result<(NodeId, Arc<OpenFile>), Errno> {
    let directory = union.node(directory)?;
    let created = union.union.create_unnamed(directory, OFlags::RDWR, mode, user);
    created.map(|(found, file)| (found.node, file))
}

fn names_on_disks(union: &Fixture, path: &str) -> usize {
    let count = |branch: &std::path::PathBuf| fs::read_dir(branch.join(path)).unwrap().count();
    union.branches.iter().map(count).sum()
}

#[test]
fn a_file_without_a_name_gets_one_on_the_same_disk() {
    let union = union_of(2, "first");
    union.make_dir("d").unwrap();
    union.make_dir("e").unwrap();
    union.union.set_mode(0, BranchMode::Nc).unwrap();
    let (node, file) = create(&union, "d", (0o666, 0o027), me()).unwrap();
    assert_eq!(union.on("d"), [0, 1], "the directory is where the file is");
    assert_eq!(union.union.write(&file, 0, b"bytes", false), Ok(5));
    let found = union.union.attributes(node).unwrap();
    assert_eq!((found.links, found.size, found.mode & 0o7777), (0, 5, 0o640));
    assert!(union.names("d").unwrap().is_empty());
    let linked = union.union.link(node, union.node("e").unwrap(), b"x").unwrap();
    assert_eq!((linked.node, linked.attributes.index), (node, found.index));
    assert_eq!(union.on("e/x"), [1]);
    assert_eq!(union.read("e/x").unwrap(), b"bytes");
    union.union.close(&file);
    assert_eq!(union.union.attributes(node).unwrap().links, 1);
    assert_eq!(union.union.link(node, NodeId::ROOT, b"again").map(|found| found.node), Ok(node));
}

#[test]
fn a_file_that_never_got_a_name_leaves_nothing() {
    let union = union_of(2, "round-robin");
    union.make_dir("d").unwrap();
    let (node, file) = create(&union, "d", (0o600, 0), me()).unwrap();
    let known = union.union.nodes();
    union.union.write(&file, 0, &[1; 1000], false).unwrap();
    union.union.close(&file);
    assert_eq!(union.union.attributes(node), Err(Errno::STALE));
    union.union.forget(node, 1);
    assert_eq!(union.union.nodes(), known - 1);
    let (_, open) = create(&union, "d", (0o600, 0), me()).unwrap();
    let union = union.reopened(|_| drop(open));
    assert_eq!(names_on_disks(&union, ""), 2 + union.on("d").len(), ".braid-branch and d");
}

#[test]
fn a_new_file_belongs_to_its_user_and_has_the_acl_of_the_directory() {
    if me().uid != 0 {
        println!("skipped: acting as another user needs root");
        return;
    }
    let union = union_of(1, "first");
    union.make_dir("d").unwrap();
    // Version 2; rwx for the owner, r-x for the group, --- for others.
    let entry = |tag: u16, rights: u16| [tag.to_le_bytes(), rights.to_le_bytes()].concat();
    let whole = |tag, rights| [entry(tag, rights), vec![0xff; 4]].concat();
    let acl = [vec![2, 0, 0, 0], whole(1, 7), whole(4, 5), whole(32, 0)].concat();
    let d = union.node("d").unwrap();
    let name = b"system.posix_acl_default";
    match union.union.set_xattr(d, name, &acl, SetXattr::Any) {
        Err(Errno::OPNOTSUPP) => return println!("skipped: the file system has no ACLs"),
        set => set.unwrap(),
    }
    assert_eq!(union.union.xattr(d, name).unwrap(), acl);
    let user = User { uid: 4711, gid: 4712 };
    // The ACL takes the place of the umask.
    let (node, file) = create(&union, "d", (0o666, 0o077), user).unwrap();
    let found = union.union.attributes(node).unwrap();
    assert_eq!((found.uid, found.gid, found.mode & 0o7777), (4711, 4712, 0o640));
    union.union.close(&file);
    let named = union.union.create(d, b"named", OFlags::RDWR, (0o666, 0o077), user);
    assert_eq!(named.unwrap().0.attributes.mode & 0o7777, 0o640);
}

#[test]
fn a_drain_and_a_full_disk_leave_a_file_without_a_name_where_it_is() {
    let union = union_of(2, "first");
    union.make_dir("d").unwrap();
    let (node, file) = create(&union, "d", (0o600, 0), me()).unwrap();
    union.union.write(&file, 0, b"bytes", false).unwrap();
    let report = union.union.drain(0, None, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.files, report.stayed), (0, 0), "{report:?}");
    assert_eq!(union.on("d"), [1], "the directory had no name in it");
    let d = union.node("d").unwrap();
    union.union.link(node, d, b"x").unwrap();
    assert_eq!(union.on("d/x"), [0], "on its disk, in a new copy of the directory");
    assert_eq!(union.read("d/x").unwrap(), b"bytes");
    union.union.close(&file);
}

#[test]
fn in_a_directory_of_striped_files_it_is_a_plain_file() {
    let union = union_of(2, "first");
    union.make_dir("d").unwrap();
    let d = union.node("d").unwrap();
    let choice = braid_union::STRIPE_XATTR.as_bytes();
    if union.union.set_xattr(d, choice, b"unit=65536 branches=2", SetXattr::Any).is_err() {
        println!("skipped: striped files need root");
        return;
    }
    let (node, file) = create(&union, "d", (0o600, 0), me()).unwrap();
    assert!(!file.is_striped());
    union.union.write(&file, 0, b"plain", false).unwrap();
    union.union.link(node, d, b"x").unwrap();
    union.union.close(&file);
    let disk = &union.branches[union.on("d/x")[0]];
    assert_eq!(fs::read(disk.join("d/x")).unwrap(), b"plain");
    assert_eq!(fs::metadata(disk.join("d/x")).unwrap().nlink(), 1);
    assert_eq!(union.read("d/x").unwrap(), b"plain");
}
