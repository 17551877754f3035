//! Placement of new files for each directory, and labels of branches.

use std::{ops::ControlFlow, time::Duration};

use braid_union::{Label, MoveTarget, NodeId, PLACEMENT_XATTR, SetXattr};
use rustix::io::Errno;

use crate::harness::{Fixture, union_of};

impl Fixture {
    fn label(&self, branch: u8, labels: &[&str]) {
        let labels = labels.iter().map(|label| label.parse().unwrap()).collect();
        self.union.set_labels(branch, labels).unwrap();
    }

    fn place(&self, directory: &str, placement: &str) -> Result<(), Errno> {
        let (node, name) = (self.node(directory)?, PLACEMENT_XATTR.as_bytes());
        self.union.set_xattr(node, name, placement.as_bytes(), SetXattr::Any)
    }

    /// Whether the directories of this test can say where their files are.
    fn has_xattrs(&self) -> bool {
        let kept = self.place("", "first") != Err(Errno::OPNOTSUPP);
        if kept {
            self.union.remove_xattr(NodeId::ROOT, PLACEMENT_XATTR.as_bytes()).unwrap();
        } else {
            println!("skipped: the directory of temporary files keeps no xattrs");
        }
        kept
    }
}

#[test]
fn a_directory_and_those_below_it_have_a_placement_of_their_own() {
    let union = union_of(3, "first");
    if !union.has_xattrs() {
        return;
    }
    union.label(1, &["raid", "slow"]);
    union.label(2, &["ssd"]);
    for directory in ["safe", "safe/deep", "safe/deep/fast", "plain"] {
        union.make_dir(directory).unwrap();
    }
    union.place("safe", "on=raid").unwrap();
    union.place("safe/deep/fast", "on=ssd,first").unwrap();
    for (path, branch) in [
        ("file", 0),
        ("plain/file", 0),
        ("safe/file", 1),
        ("safe/deep/file", 1),
        ("safe/deep/fast/file", 2),
    ] {
        union.write(path, b"content").unwrap();
        assert_eq!(union.on(path), [branch], "{path}");
    }
    union.union.remove_xattr(union.node("safe").unwrap(), PLACEMENT_XATTR.as_bytes()).unwrap();
    union.write("safe/deep/later", b"content").unwrap();
    assert_eq!(union.on("safe/deep/later"), [0], "a change above is seen by the next create");
    let union = union.reopened(|_| {});
    union.write("safe/deep/fast/later", b"content").unwrap();
    assert_eq!(union.on("safe/deep/fast/later"), [2], "after a restart too");
}

#[test]
fn a_renamed_directory_has_the_placement_of_its_new_place() {
    let union = union_of(2, "first");
    if !union.has_xattrs() {
        return;
    }
    union.make_dir("second").unwrap();
    union.make_dir("moved").unwrap();
    union.label(1, &["b"]);
    union.place("second", "on=b").unwrap();
    union.write("moved/before", b"1").unwrap();
    union.rename("moved", "second/moved").unwrap();
    union.write("second/moved/after", b"2").unwrap();
    assert_eq!(union.on("second/moved/before"), [0]);
    assert_eq!(union.on("second/moved/after"), [1]);
    let moved = union.union.enforce(b"second", &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((moved.files, moved.stayed), (1, 0), "{moved:?}");
    assert_eq!(union.on("second/moved/before"), [1]);
    assert_eq!(union.read("second/moved/before").unwrap(), b"1");
}

#[test]
fn new_files_go_to_no_disk_without_the_label() {
    let union = union_of(2, "first");
    union.label(1, &["b"]);
    union.union.set_placement("on=b,first".parse().unwrap()).unwrap();
    union.write("file", b"1").unwrap();
    assert_eq!(union.on("file"), [1]);
    union.union.set_mode(1, braid_union::BranchMode::Nc).unwrap();
    assert_eq!(union.write("other", b"2"), Err(Errno::NOSPC));
    let drained = union.union.drain(1, None, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((drained.files, drained.stayed), (0, 1), "{drained:?}");
    assert_eq!(drained.reasons[0].1, "no other disk has space for it");
}

#[test]
fn labels_and_placements_that_name_nothing_are_refused() {
    let union = union_of(2, "first");
    union.label(1, &["b"]);
    let refused = |placement: &str| {
        union.union.set_placement(placement.parse().unwrap()).unwrap_err().to_string()
    };
    assert!(refused("on=c,first").contains("no branch has it"), "{}", refused("on=c"));
    if union.has_xattrs() {
        union.make_dir("d").unwrap();
        union.write("d/file", b"1").unwrap();
        for (path, placement) in [("d", "on=c"), ("d", "fastest"), ("d", ""), ("d/file", "first")] {
            assert_eq!(union.place(path, placement), Err(Errno::INVAL), "{path} {placement}");
        }
    }
    union.union.set_placement("on=b,first".parse().unwrap()).unwrap();
    let kept = union.union.set_labels(1, Vec::new()).unwrap_err().to_string();
    assert!(kept.contains("taking the label b from its last branch"), "{kept}");
    assert!(union.union.remove_branch(1, true).is_err());
    union.write("file", b"1").unwrap();
    assert_eq!(union.on("file"), [1], "nothing has changed");
}

#[test]
fn files_that_nobody_uses_are_moved_to_a_disk_with_a_label() {
    let union = union_of(3, "first");
    union.label(1, &["archive"]);
    union.label(2, &["archive"]);
    union.make_dir("d").unwrap();
    for path in ["d/one", "d/two"] {
        union.write(path, b"content").unwrap();
    }
    let archive = MoveTarget::Label("archive".parse::<Label>().unwrap());
    let moved = |unused_for| {
        let mut progress = |_: &_| ControlFlow::Continue(());
        union.union.move_files(b"", &archive, Some(unused_for), &mut progress).unwrap()
    };
    assert_eq!(moved(Duration::from_secs(60)).files, 0);
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(moved(Duration::from_secs(1)).files, 2);
    assert!(union.on("d/one")[0] > 0 && union.on("d/two")[0] > 0);
    assert_eq!(moved(Duration::ZERO).files, 0, "they are there");
    let none = MoveTarget::Label("tape".parse::<Label>().unwrap());
    let mut progress = |_: &_| ControlFlow::Continue(());
    assert_eq!(union.union.move_files(b"", &none, None, &mut progress), Err(Errno::NODEV));
}
