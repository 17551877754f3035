//! Renames over several branches, and their completion after a process was killed in the middle.

use std::fs;

use braid_union::RenameMode;
use rustix::io::Errno;

use crate::harness::{Fixture, union_of, union_over};

/// `a` on the first disk, `b` on the second.
fn two_files() -> Fixture {
    union_over(2, "first", |disks| {
        fs::write(disks[0].join("a"), "a").unwrap();
        fs::write(disks[1].join("b"), "b").unwrap();
    })
}

#[test]
fn a_file_replaces_one_on_another_disk() {
    for (from, to, disk) in [("a", "b", 0), ("b", "a", 1)] {
        let union = two_files();
        union.rename(from, to).unwrap();
        assert_eq!(union.names("").unwrap(), [to]);
        assert_eq!(union.read(to).unwrap(), from.as_bytes());
        assert_eq!(union.on(to), [disk], "the file stays on its disk, the other one is gone");
    }
}

#[test]
fn a_rename_into_a_directory_of_another_disk_is_not_exdev() {
    let union = union_over(2, "first", |disks| {
        fs::write(disks[0].join("a"), "a").unwrap();
        fs::create_dir_all(disks[1].join("deep/er")).unwrap();
    });
    union.rename("a", "deep/er/a").unwrap();
    assert_eq!(union.on("deep/er/a"), [0]);
    union.link("deep/er/a", "again").unwrap();
    assert_eq!(union.on("again"), [0], "links stay on the disk of the file");
}

#[test]
fn a_directory_on_several_disks_is_renamed_on_all() {
    let union = union_of(3, "round-robin");
    union.make_dir("d").unwrap();
    (0..6).for_each(|n| union.write(&format!("d/{n}"), b"").unwrap());
    union.make_dir("empty").unwrap();
    union.rename("d", "empty").unwrap();
    assert_eq!(union.names("").unwrap(), ["empty"]);
    assert_eq!(union.names("empty").unwrap().len(), 6);
    assert_eq!((union.on("d"), union.on("empty")), (vec![], vec![0, 1, 2]));
    union.write("x", b"").unwrap();
    assert_eq!(union.rename("empty", "x"), Err(Errno::NOTDIR));
    assert_eq!(union.rename("x", "empty"), Err(Errno::ISDIR));
    union.make_dir("other").unwrap();
    assert_eq!(union.rename("other", "empty"), Err(Errno::NOTEMPTY));
}

#[test]
fn two_files_change_places_wherever_they_are() {
    let union = two_files();
    union.rename_by("a", "b", RenameMode::Exchange).unwrap();
    assert_eq!((union.read("a").unwrap(), union.read("b").unwrap()), (b"b".into(), b"a".into()));
    assert_eq!((union.on("a"), union.on("b")), (vec![1], vec![0]));
    assert_eq!(union.rename_by("a", "b", RenameMode::NoReplace), Err(Errno::EXIST));
    assert_eq!(union.rename_by("a", "none", RenameMode::Exchange), Err(Errno::NOENT));
}

/// The steps that a process wrote down, as it would write them.
fn intent(steps: &serde_json::Value) -> String {
    steps.to_string()
}

#[test]
fn a_rename_that_a_killed_process_left_is_finished_at_the_next_start() {
    // After each number of steps that the process may have done.
    for done in 0..=2 {
        let union = two_files();
        let disks = union.branches.clone();
        let inode = |path: &std::path::Path| {
            use std::os::unix::fs::MetadataExt;
            fs::metadata(path).unwrap().ino()
        };
        let (new, old) = (inode(&disks[1].join("b")), inode(&disks[0].join("a")));
        let steps = serde_json::json!([
            {"Rename": {"branch": 1, "inode": new, "from": b"b", "to": b"a"}},
            {"Unlink": {"branch": 0, "inode": old, "path": b"a"}},
        ]);
        let union = union.reopened(|meta| {
            if done >= 1 {
                fs::rename(disks[1].join("b"), disks[1].join("a")).unwrap();
            }
            if done >= 2 {
                fs::remove_file(disks[0].join("a")).unwrap();
            }
            fs::write(meta.join("renames/1-0"), intent(&steps)).unwrap();
            fs::write(meta.join("renames/1-1.new"), "torn").unwrap();
        });
        assert_eq!(union.names("").unwrap(), ["a"], "after {done} steps");
        assert_eq!(union.read("a").unwrap(), b"b");
        let left = fs::read_dir(union.dir.path().join("meta/renames")).unwrap().count();
        assert_eq!(left, 0);
    }
}

#[test]
fn a_finished_intent_removes_no_file_that_came_later() {
    let union = two_files();
    let disks = union.branches.clone();
    // The intent names an inode that is not there any more.
    let steps = serde_json::json!([{"Unlink": {"branch": 0, "inode": 1, "path": b"a"}}]);
    let union = union.reopened(|meta| {
        fs::write(meta.join("renames/1-0"), intent(&steps)).unwrap();
    });
    assert_eq!(union.read("a").unwrap(), b"a");
    assert!(disks[0].join("a").exists());
}

#[test]
fn a_rename_that_failed_leaves_no_intent() {
    let union = two_files();
    // The second disk has a directory of the name that is hidden by the file of the first.
    fs::create_dir(union.branches[1].join("a")).unwrap();
    assert_eq!(union.rename("a", "b"), Err(Errno::NOTDIR));
    let left = fs::read_dir(union.dir.path().join("meta/renames")).unwrap().count();
    assert_eq!(left, 0, "a later start must not finish it");
}

#[test]
fn a_damaged_intent_stops_the_start_and_says_where_it_is() {
    let union = two_files();
    let meta = union.dir.path().join("meta");
    drop(union.union);
    fs::write(meta.join("renames/7-7"), "{").unwrap();
    let pool = braid_union::Pool::open(&meta).unwrap();
    let why = braid_union::Union::open(&pool).map(drop).unwrap_err().to_string();
    assert!(why.contains("renames/7-7"), "{why}");
}
