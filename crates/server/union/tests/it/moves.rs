//! Moves between branches: by name, by draining a branch, and by balancing.

use std::{fs, ops::ControlFlow, os::unix::fs::MetadataExt};

use braid_union::MoveReport;
use rustix::{
    fs::{OFlags, XattrFlags},
    io::Errno,
};

use crate::harness::{Fixture, SmallDisk, union_of, union_over};

impl Fixture {
    fn index(&self, path: &str) -> u64 {
        self.union.attributes(self.node(path).unwrap()).unwrap().index
    }

    fn move_to(&self, path: &str, branch: u8) -> MoveReport {
        self.union.move_to(path.as_bytes(), branch, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    fn drain(&self, branch: u8) -> MoveReport {
        self.union.drain(branch, None, &mut |_| ControlFlow::Continue(())).unwrap()
    }
}

/// Why the only file that stayed did so.
fn reason(report: &MoveReport) -> &str {
    assert_eq!((report.files, report.stayed), (0, 1), "{report:?}");
    &report.reasons[0].1
}

#[test]
fn a_moved_file_is_the_same_in_every_attribute() {
    let union = union_of(2, "first");
    union.make_dir("d").unwrap();
    union.write("d/file", b"content").unwrap();
    let old = union.branches[0].join("d/file");
    let set = |name: &str, value: &[u8]| {
        rustix::fs::setxattr(&old, name, value, XattrFlags::empty()).is_ok()
    };
    let kept = set("user.color", b"red");
    rustix::fs::chmod(&old, rustix::fs::Mode::from_raw_mode(0o4751)).unwrap();
    let before = union.union.attributes(union.node("d/file").unwrap()).unwrap();
    let report = union.move_to("d/file", 1);
    assert_eq!((report.files, report.bytes, report.stayed), (1, 7, 0), "{report:?}");
    assert_eq!(union.on("d/file"), [1]);
    let after = union.union.attributes(union.node("d/file").unwrap()).unwrap();
    assert_eq!((after.index, after.mode, after.size), (before.index, before.mode, before.size));
    assert_eq!((after.uid, after.gid, after.links), (before.uid, before.gid, before.links));
    assert_eq!((after.modified, after.accessed), (before.modified, before.accessed));
    assert_eq!(union.read("d/file").unwrap(), b"content");
    if kept {
        let value = union.union.xattr(union.node("d/file").unwrap(), b"user.color").unwrap();
        assert_eq!(value, b"red");
    }
    let union = union.reopened(|_| {});
    assert_eq!(union.index("d/file"), before.index);
    let listed = union.union.list(union.node("d").unwrap()).unwrap();
    assert_eq!(listed.entries[0].index, before.index);
}

#[test]
fn a_new_file_with_the_inode_of_a_moved_one_has_another_number() {
    // The file system gives a freed inode to a new file at some time; here the record shows it.
    let union = union_of(2, "first");
    union.write("old", b"1").unwrap();
    let number = union.index("old");
    assert_eq!(union.move_to("old", 1).files, 1);
    let mut seen = vec![number];
    for round in 0..200 {
        let name = format!("new{round}");
        union.write(&name, b"2").unwrap();
        let number = union.index(&name);
        assert!(!seen.contains(&number), "{name} has the number of another file");
        seen.push(number);
    }
    assert_eq!(union.index("old"), number);
}

#[test]
fn holes_links_and_other_kinds_are_moved_as_they_are() {
    let union = union_of(2, "first");
    union.make_dir("d").unwrap();
    let disk = union.branches[0].clone();
    let sparse = fs::File::create(disk.join("d/sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 64 << 20).unwrap();
    sparse.set_len(100 << 20).unwrap();
    drop(sparse);
    fs::hard_link(disk.join("d/sparse"), disk.join("link")).unwrap();
    std::os::unix::fs::symlink("d/sparse", disk.join("symlink")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        disk.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let report = union.move_to("", 1);
    assert_eq!((report.files, report.stayed), (3, 0), "{report:?}");
    let new = &union.branches[1];
    let (file, link) = (new.join("d/sparse").metadata(), new.join("link").metadata());
    let (file, link) = (file.unwrap(), link.unwrap());
    assert_eq!((file.ino(), file.nlink(), file.len()), (link.ino(), 2, 100 << 20));
    assert!(file.blocks() * 512 < 1 << 20, "holes were filled: {} blocks", file.blocks());
    assert_eq!(fs::read_link(new.join("symlink")).unwrap().to_str(), Some("d/sparse"));
    use std::os::unix::fs::FileTypeExt;
    assert!(new.join("fifo").symlink_metadata().unwrap().file_type().is_fifo());
    assert_eq!(union.index("d/sparse"), union.index("link"));
    assert_eq!(union.on("link"), [1]);
}

#[test]
fn an_open_file_stays_until_it_is_closed() {
    let union = union_of(2, "first");
    union.write("file", b"content").unwrap();
    let node = union.node("file").unwrap();
    let file = union.union.open_file(node, OFlags::RDONLY).unwrap();
    assert_eq!(reason(&union.move_to("file", 1)), "a program has it open");
    assert_eq!(union.on("file"), [0]);
    union.union.close(&file);
    assert_eq!(union.move_to("file", 1).files, 1);
    // The node that the kernel knew before is the moved file.
    assert_eq!(union.union.attributes(node).unwrap().size, 7);
    let file = union.union.open_file(node, OFlags::RDWR).unwrap();
    assert_eq!(union.union.write(&file, 0, b"CONTENT", false), Ok(7));
    union.union.close(&file);
    assert_eq!(fs::read(union.branches[1].join("file")).unwrap(), b"CONTENT");
}

#[test]
fn a_move_never_changes_which_of_two_files_is_shown() {
    let prepare = |disks: &[std::path::PathBuf]| {
        for (disk, content) in disks.iter().zip(["first", "second", ""]) {
            if !content.is_empty() {
                fs::write(disk.join("same"), content).unwrap();
            }
        }
    };
    let union = union_over(3, "first", prepare);
    // The first one would be hidden by the second.
    assert!(reason(&union.move_to("same", 2)).starts_with("another branch has a file"));
    assert!(reason(&union.move_to("same", 1)).contains("has another file of this name"));
    assert_eq!(union.on("same"), [0, 1]);
    assert_eq!(union.read("same").unwrap(), b"first");
    // The hidden one may go behind.
    let report = union.drain(1);
    assert_eq!((report.files, report.stayed), (1, 0), "{report:?}");
    assert_eq!(union.on("same"), [0, 2]);
    assert_eq!(fs::read(union.branches[2].join("same")).unwrap(), b"second");
}

#[test]
fn a_drained_branch_is_empty_and_everything_is_elsewhere() {
    let union = union_of(3, "round-robin");
    for dir in ["a", "a/b", "empty", "a/deep", "a/deep/er"] {
        union.make_dir(dir).unwrap();
    }
    let names: Vec<String> =
        (0..150).map(|n| format!("{}/file{n}", ["a", "a/b", "a/deep/er"][n % 3])).collect();
    names.iter().for_each(|name| union.write(name, name.as_bytes()).unwrap());
    let numbers: Vec<u64> = names.iter().map(|name| union.index(name)).collect();
    let mut calls = 0;
    let report = union
        .union
        .drain(0, None, &mut |_| {
            calls += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((report.files, report.stayed), (50, 0), "{report:?}");
    assert!(calls >= 1);
    let left: Vec<_> = fs::read_dir(&union.branches[0]).unwrap().map(|e| e.unwrap()).collect();
    assert_eq!(left.len(), 1, "only .braid-branch is left: {left:?}");
    let check = |union: &Fixture| {
        for (name, number) in names.iter().zip(&numbers) {
            assert_eq!(union.read(name).unwrap(), name.as_bytes());
            assert_eq!(union.index(name), *number, "{name}");
        }
        assert_eq!(union.names("").unwrap(), ["a", "empty"]);
        assert!(union.names("empty").unwrap().is_empty());
    };
    check(&union);
    check(&union.reopened(|_| {}));
}

#[test]
fn moves_end_early_when_nobody_wants_them_any_more() {
    let union = union_of(2, "first");
    (0..200).for_each(|n| union.write(&format!("file{n}"), b"x").unwrap());
    let report = union.union.drain(0, None, &mut |_| ControlFlow::Break(())).unwrap();
    assert!(report.files > 0 && report.files < 200, "{report:?}");
    assert_eq!(union.names("").unwrap().len(), 200);
}

#[test]
fn a_name_that_the_new_disk_has_is_not_replaced() {
    let union = union_of(2, "first");
    union.write("file", b"content").unwrap();
    fs::create_dir(union.branches[1].join("file")).unwrap();
    assert!(reason(&union.move_to("file", 1)).contains("has another file of this name"));
    assert_eq!(union.read("file").unwrap(), b"content");
    let missing =
        union.union.move_to(b"nowhere", 1, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(missing, Errno::NOENT);
}

#[test]
fn a_file_moves_when_its_disk_is_full_in_the_middle_of_a_write() {
    let mut small = None;
    let union = union_over(2, "first", |disks| small = SmallDisk::mount(&disks[0], 1 << 20));
    if small.is_none() {
        return;
    }
    union.make_dir("d").unwrap();
    union.write("d/film", b"").unwrap();
    union.link("d/film", "link").unwrap();
    let node = union.node("d/film").unwrap();
    let number = union.index("d/film");
    let open = |flags| union.union.open_file(node, flags).unwrap();
    let (writer, reader) = (open(OFlags::WRONLY), open(OFlags::RDONLY));
    let block: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    for round in 0..30 {
        let at = round * block.len() as u64;
        assert_eq!(union.union.write(&writer, at, &block, false), Ok(block.len()), "{round}");
        let mut bytes = vec![0; block.len()];
        assert_eq!(union.union.read(&reader, at, &mut bytes), Ok(block.len()));
        assert_eq!(bytes, block, "round {round}");
    }
    assert_eq!((union.on("d/film"), union.on("link")), (vec![1], vec![1]));
    assert_eq!((union.index("d/film"), union.index("link")), (number, number));
    union.union.sync(&writer, false).unwrap();
    union.union.close(&writer);
    union.union.close(&reader);
    let moved = fs::read(union.branches[1].join("link")).unwrap();
    assert_eq!(moved.len(), 3_000_000);
    assert!(moved.chunks(block.len()).all(|chunk| chunk == block));
    // The small disk has its space back.
    let space = rustix::fs::statvfs(&union.branches[0]).unwrap();
    assert!(space.f_bavail * space.f_frsize > 900_000);
    drop(union);
}

#[test]
fn a_full_disk_is_an_error_when_no_other_has_space() {
    let mut small = None;
    let union = union_over(2, "first", |disks| {
        small = SmallDisk::mount(&disks[0], 1 << 20)
            .and_then(|first| SmallDisk::mount(&disks[1], 1 << 20).map(|other| [first, other]));
    });
    if small.is_none() {
        return;
    }
    union.write("file", b"").unwrap();
    let file = union.union.open_file(union.node("file").unwrap(), OFlags::WRONLY).unwrap();
    let mut at = 0;
    let why = loop {
        match union.union.write(&file, at, &[7; 50_000], false) {
            Ok(bytes) => at += bytes as u64,
            Err(why) => break why,
        }
    };
    assert_eq!(why, Errno::NOSPC);
    assert!(at > 900_000, "{at} bytes fit");
    let preallocated = union.union.allocate(&file, 0, 0, 10 << 20);
    assert_eq!(preallocated, Err(Errno::NOSPC));
    union.union.close(&file);
    let bytes = fs::read(union.branches[0].join("file")).unwrap();
    assert!(bytes.len() as u64 >= at && bytes.iter().all(|byte| *byte == 7 || *byte == 0));
    assert_eq!(union.on("file"), [0]);
}

#[test]
fn what_a_walk_cannot_read_is_reported_and_keeps_the_branch() {
    let union = union_of(2, "first");
    union.write("file", b"is moved").unwrap();
    // A path that is longer than the kernel takes in one call.
    let mut path = String::new();
    for _ in 0..20 {
        path = format!("{path}{}/", "d".repeat(250));
        union.make_dir(path.trim_end_matches('/')).unwrap();
    }
    union.write(&format!("{path}deep"), b"stays").unwrap();
    let report = union.union.drain(0, None, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.files, report.stayed), (1, 1), "{report:?}");
    assert!(report.reasons[0].1.contains("cannot be read"), "{report:?}");
    assert!(union.union.remove_branch(0, false).is_err());
    assert_eq!(union.read(&format!("{path}deep")).unwrap(), b"stays");
}
