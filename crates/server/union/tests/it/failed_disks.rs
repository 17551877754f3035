//! Disks that are missing, and that come back.

use std::{fs, path::Path};

use braid_union::{BranchMode, Pool, RenameMode, Union};
use rustix::{fs::OFlags, io::Errno};

use crate::harness::{Fixture, me, union_over};

/// Files on two disks; `both` is on both.
fn prepared() -> Fixture {
    union_over(2, "first", |disks| {
        for (disk, name) in [(0, "here"), (1, "there")] {
            fs::create_dir_all(disks[disk].join("both/deep")).unwrap();
            fs::write(disks[disk].join("both").join(name), name).unwrap();
            fs::write(disks[disk].join("both/deep").join(name), name).unwrap();
            fs::create_dir(disks[disk].join(format!("only-{name}"))).unwrap();
            fs::write(disks[disk].join(format!("only-{name}/file")), name).unwrap();
        }
    })
}

/// As if the disk were not mounted: an empty directory.
fn take_away(disk: &Path) {
    fs::rename(disk, disk.with_extension("away")).unwrap();
    fs::create_dir(disk).unwrap();
}

fn bring_back(disk: &Path) {
    fs::remove_dir(disk).unwrap();
    fs::rename(disk.with_extension("away"), disk).unwrap();
}

/// Opens the union again without its disk with a number.
fn without_disk(fixture: Fixture, missing: usize) -> Fixture {
    let Fixture { dir, union, branches } = fixture;
    drop(union);
    take_away(&branches[missing]);
    let pool = Pool::open(&dir.path().join("meta")).unwrap();
    let refused = Union::open(&pool).unwrap_err().to_string();
    assert!(refused.contains("is probably not mounted"), "{refused}");
    let union = Union::open_degraded(&pool).unwrap();
    Fixture { dir, union, branches }
}

fn saved(fixture: Fixture) -> Fixture {
    fixture.union.save_names(&|| false).unwrap();
    fixture
}

#[test]
fn names_of_a_missing_disk_are_listed_and_give_eio() {
    let fixture = without_disk(saved(prepared()), 1);
    assert_eq!(fixture.names("").unwrap(), ["both", "only-here", "only-there"]);
    assert_eq!(fixture.names("both").unwrap(), ["deep", "here", "there"]);
    assert_eq!(fixture.names("both/deep").unwrap(), ["here", "there"]);
    assert!(fixture.union.list(fixture.node("both").unwrap()).unwrap().failed.is_none());
    assert_eq!(fixture.read("both/deep/here").unwrap(), b"here");
    for path in ["both/there", "both/deep/there", "only-there", "only-there/file"] {
        assert_eq!(fixture.node(path), Err(Errno::IO), "{path}");
    }
    for result in [
        fixture.write("both/there", b"x"),
        fixture.unlink("both/there"),
        fixture.make_dir("only-there"),
        fixture.rename("both/here", "both/there"),
        fixture.rename("both", "renamed"),
        fixture.remove_dir("both/deep"),
        fixture.rename_by("both/here", "both/there", RenameMode::Exchange),
    ] {
        assert_eq!(result, Err(Errno::IO));
    }
    let status = fixture.union.branches();
    assert!(status[0].error.is_none());
    assert!(status[1].error.as_ref().unwrap().contains("not mounted"), "{status:?}");
}

#[test]
fn everything_else_goes_on_without_the_missing_disk() {
    let fixture = without_disk(saved(prepared()), 1);
    assert_eq!(fixture.node("both/new"), Err(Errno::NOENT));
    fixture.write("both/new", b"new").unwrap();
    fixture.make_dir("both/deep/more").unwrap();
    fixture.write("both/deep/more/file", b"more").unwrap();
    fixture.rename("both/here", "both/renamed").unwrap();
    fixture.link("both/renamed", "link").unwrap();
    fixture.unlink("both/deep/here").unwrap();
    let directory = fixture.node("both").unwrap();
    let new = braid_union::NewAttributes { mode: Some(0o700), ..Default::default() };
    assert_eq!(fixture.union.set_attributes(directory, &new).unwrap().mode & 0o777, 0o700);
    assert!(fixture.union.space().is_ok() && fixture.union.sync_all().is_ok());

    bring_back(&fixture.branches[1]);
    fixture.union.look_at_failed_disks();
    assert!(fixture.union.branches().iter().all(|branch| branch.error.is_none()));
    assert_eq!(fixture.names("both").unwrap(), ["deep", "new", "renamed", "there"]);
    assert_eq!(fixture.read("both/there").unwrap(), b"there");
    assert_eq!(fixture.read("only-there/file").unwrap(), b"there");
    assert_eq!(fixture.names("both/deep").unwrap(), ["more", "there"]);
    fixture.rename("both", "moved").unwrap();
    assert_eq!(fixture.on("moved/deep"), [0, 1]);
}

#[test]
fn names_that_changed_after_they_were_saved_are_known_too() {
    let fixture = saved(prepared());
    let opened = |fixture: &Fixture, path: &str| {
        let (directory, name) = path.rsplit_once('/').unwrap();
        let directory = fixture.node(directory).unwrap();
        let created =
            fixture.union.create(directory, name.as_bytes(), OFlags::RDWR, (0o600, 0), me());
        fixture.union.close(&created.unwrap().1);
    };
    fixture.union.set_mode(0, BranchMode::Nc).unwrap();
    opened(&fixture, "both/created");
    opened(&fixture, "only-here/on-a-new-copy");
    fixture.make_dir("both/made").unwrap();
    fixture.rename("both/there", "both/renamed").unwrap();
    fixture.rename("only-there", "both/made/moved").unwrap();
    fixture.link("both/created", "both/link").unwrap();
    fixture.unlink("both/deep/there").unwrap();
    fixture.union.set_mode(0, BranchMode::Rw).unwrap();
    assert!(fixture.on("only-here/on-a-new-copy") == [1] && fixture.on("both/made") == [1]);

    let fixture = without_disk(fixture, 1);
    let both = ["created", "deep", "here", "link", "made", "renamed"];
    assert_eq!(fixture.names("both").unwrap(), both);
    assert_eq!(fixture.names("both/deep").unwrap(), ["here"]);
    assert_eq!(fixture.names("only-here").unwrap(), ["file", "on-a-new-copy"]);
    assert_eq!(fixture.names("").unwrap(), ["both", "only-here"]);
    assert_eq!(fixture.node("both/renamed"), Err(Errno::IO));
    assert_eq!(fixture.node("both/there"), Err(Errno::NOENT));
}

#[test]
fn names_of_moved_files_are_known_where_they_are_now() {
    let fixture = saved(prepared());
    std::thread::sleep(std::time::Duration::from_millis(50));
    let mut progress = |_: &braid_union::MoveReport| std::ops::ControlFlow::Continue(());
    let moved = fixture.union.move_to(b"both/here", 1, &mut progress).unwrap();
    assert_eq!((moved.files, moved.stayed), (1, 0), "{moved:?}");
    let moved = fixture.union.move_to(b"both/there", 0, &mut progress).unwrap();
    assert_eq!((moved.files, moved.stayed), (1, 0), "{moved:?}");
    let fixture = without_disk(fixture, 1);
    assert_eq!(fixture.names("both").unwrap(), ["deep", "here", "there"]);
    assert_eq!(fixture.node("both/here"), Err(Errno::IO));
    assert_eq!(fixture.read("both/there").unwrap(), b"there");
}

#[test]
fn without_saved_names_no_name_is_taken_for_absent() {
    let fixture = without_disk(prepared(), 1);
    // The root of the missing disk is not known: what it had there is not either.
    let listing = fixture.union.list(braid_union::NodeId::ROOT).unwrap();
    assert_eq!(listing.failed, Some(Errno::IO));
    assert_eq!(fixture.node("only-there"), Err(Errno::IO));
    assert_eq!(fixture.read("only-here/file").unwrap(), b"here");
    assert_eq!(fixture.read("both/here").unwrap(), b"here");
    let listing = fixture.union.list(fixture.node("both").unwrap()).unwrap();
    assert_eq!((listing.failed, listing.entries.len()), (Some(Errno::IO), 2));
    for path in ["new", "both/new", "both/deep/new"] {
        assert_eq!(fixture.write(path, b""), Err(Errno::IO), "{path}");
    }
    assert_eq!(fixture.rename("both", "renamed"), Err(Errno::IO));

    let fixture = saved(fixture.reopened_after_return());
    fs::write(fixture.dir.path().join("meta/names-1"), "damaged").unwrap();
    let fixture = without_disk(fixture, 1);
    assert_eq!(fixture.node("only-there"), Err(Errno::IO));
    assert_eq!(fixture.node("both/new"), Err(Errno::IO));
}

trait AfterReturn {
    fn reopened_after_return(self) -> Self;
}

impl AfterReturn for Fixture {
    fn reopened_after_return(self) -> Self {
        bring_back(&self.branches[1]);
        self.reopened(|_| {})
    }
}

#[test]
fn the_first_disk_may_be_missing_and_hides_what_it_would_hide() {
    let fixture = union_over(2, "first", |disks| {
        for disk in disks {
            fs::write(disk.join("twice"), disk.to_str().unwrap()).unwrap();
        }
        fs::create_dir(disks[0].join("mixed")).unwrap();
        fs::write(disks[1].join("mixed"), "a file").unwrap();
        fs::write(disks[1].join("other"), "other").unwrap();
    });
    let fixture = without_disk(saved(fixture), 0);
    assert_eq!(fixture.names("").unwrap(), ["mixed", "other", "twice"]);
    // The file that was shown is missing, and another one must not take its place.
    assert_eq!(fixture.read("twice"), Err(Errno::IO));
    assert_eq!(fixture.read("mixed"), Err(Errno::IO));
    assert_eq!(fixture.read("other").unwrap(), b"other");
    fixture.unlink("other").unwrap();
}

#[test]
fn all_disks_missing_is_an_error() {
    let fixture = saved(prepared());
    let Fixture { dir, union, branches } = fixture;
    drop(union);
    branches.iter().for_each(|disk| take_away(disk));
    let pool = Pool::open(&dir.path().join("meta")).unwrap();
    assert!(Union::open_degraded(&pool).unwrap_err().to_string().contains("disk0"));
}

#[test]
fn a_wrong_disk_in_its_place_is_not_used() {
    let fixture = without_disk(saved(prepared()), 1);
    let identity = fs::read(fixture.branches[0].join(".braid-branch")).unwrap();
    fs::write(fixture.branches[1].join(".braid-branch"), identity).unwrap();
    fixture.union.look_at_failed_disks();
    let error = fixture.union.branches()[1].error.clone().unwrap();
    assert!(error.contains("another branch"), "{error}");
    assert_eq!(fixture.node("only-there"), Err(Errno::IO));
}

#[test]
fn a_rename_that_was_not_finished_waits_for_its_disk() {
    let fixture = saved(prepared());
    let inode = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).unwrap().ino()
    };
    let steps = serde_json::json!([
        { "Rename": { "branch": 0, "inode": inode(&fixture.branches[0].join("both")),
            "from": b"both", "to": b"done" } },
        { "Rename": { "branch": 1, "inode": inode(&fixture.branches[1].join("both")),
            "from": b"both", "to": b"done" } },
    ]);
    let Fixture { dir, union, branches } = fixture;
    drop(union);
    // The process was killed after the first step, with a number that the next one has too.
    fs::rename(branches[0].join("both"), branches[0].join("done")).unwrap();
    let path = dir.path().join(format!("meta/renames/{}-0", std::process::id()));
    fs::write(path, steps.to_string()).unwrap();
    let union = {
        take_away(&branches[1]);
        Union::open_degraded(&Pool::open(&dir.path().join("meta")).unwrap()).unwrap()
    };
    let fixture = Fixture { dir, union, branches };
    // New renames do not replace what waits.
    fixture.make_dir("x").unwrap();
    fixture.rename("x", "y").unwrap();
    bring_back(&fixture.branches[1]);
    fixture.union.look_at_failed_disks();
    assert_eq!(fixture.on("done"), [0, 1]);
    assert_eq!(fixture.names("done").unwrap(), ["deep", "here", "there"]);
    assert_eq!(fs::read_dir(fixture.dir.path().join("meta/renames")).unwrap().count(), 0);
}

#[test]
fn a_missing_disk_can_leave_the_pool() {
    let fixture = without_disk(saved(prepared()), 1);
    assert!(fixture.union.remove_branch(1, false).is_err());
    fixture.union.remove_branch(1, true).unwrap();
    assert_eq!(fixture.names("").unwrap(), ["both", "only-here"]);
    assert_eq!(fixture.names("both").unwrap(), ["deep", "here"]);
    fixture.rename("both", "renamed").unwrap();
    assert!(!fixture.dir.path().join("meta/names-1").exists());
}
