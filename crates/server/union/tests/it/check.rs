//! `fsck` and `dedup`.

use std::{
    fs,
    ops::ControlFlow,
    os::unix::fs::{PermissionsExt, symlink},
};

use braid_union::{CheckReport, DuplicateReport, Finding};
use rustix::fs::XattrFlags;

use crate::harness::{Fixture, union_over};

impl Fixture {
    fn check(&self, repair: bool) -> CheckReport {
        self.union.check(repair, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    fn deduplicate(&self, path: &str, remove: bool) -> DuplicateReport {
        let mut progress = |_: &_| ControlFlow::Continue(());
        self.union.deduplicate(path.as_bytes(), remove, &mut progress).unwrap()
    }
}

fn texts(report: &CheckReport) -> Vec<String> {
    report.findings.iter().map(Finding::to_string).collect()
}

#[test]
fn copies_of_a_directory_that_differ_are_found_and_repaired() {
    let union = union_over(3, "first", |disks| {
        for disk in disks {
            fs::create_dir_all(disk.join("a/b")).unwrap();
            fs::write(disk.join("a/b").join(disk.file_name().unwrap()), "1").unwrap();
        }
        fs::set_permissions(disks[0].join("a/b"), fs::Permissions::from_mode(0o750)).unwrap();
    });
    let [first, second, _] = &union.branches[..] else { panic!("three disks") };
    let set = |disk: &std::path::Path, value: &[u8]| {
        rustix::fs::setxattr(disk.join("a"), "user.color", value, XattrFlags::empty()).is_ok()
    };
    let has_xattrs = set(first, b"red") && set(second, b"blue");
    let found = union.check(false);
    // `a/b` on the second and the third, and the xattr of `a` there.
    let expected = if has_xattrs { 4 } else { 2 };
    assert_eq!((found.left, found.repaired), (expected, 0), "{:?}", texts(&found));
    let mode = |disk: &std::path::Path| {
        fs::metadata(disk.join("a/b")).unwrap().permissions().mode() & 0o7777
    };
    assert_eq!(mode(second), 0o755, "a check changes nothing");
    let repaired = union.check(true);
    assert_eq!((repaired.left, repaired.repaired), (0, expected), "{:?}", texts(&repaired));
    assert!(union.branches.iter().all(|disk| mode(disk) == 0o750));
    if has_xattrs {
        let mut value = [0; 16];
        let bytes = rustix::fs::getxattr(second.join("a"), "user.color", &mut value[..]).unwrap();
        assert_eq!(&value[..bytes], b"red");
    }
    assert_eq!(union.check(false).left, 0);
}

#[test]
fn names_that_several_disks_have_are_found_and_stay() {
    let union = union_over(3, "first", |disks| {
        for disk in disks {
            fs::create_dir(disk.join("d")).unwrap();
        }
        fs::write(disks[0].join("d/hidden"), "one").unwrap();
        fs::write(disks[2].join("d/hidden"), "two").unwrap();
        fs::write(disks[1].join("d/kinds"), "file").unwrap();
        fs::create_dir(disks[2].join("d/kinds")).unwrap();
        fs::write(disks[2].join("d/alone"), "").unwrap();
    });
    let found = union.check(true);
    let path = |disk: usize, name: &str| union.branches[disk].join(name).display().to_string();
    let mut texts = texts(&found);
    texts.sort();
    assert_eq!(
        texts,
        [
            format!("{} hides {}", path(0, "d/hidden"), path(2, "d/hidden")),
            format!("{} is of another kind than {}", path(1, "d/kinds"), path(2, "d/kinds")),
        ]
    );
    assert_eq!(fs::read_to_string(path(2, "d/hidden")).unwrap(), "two");
    assert!(fs::metadata(path(2, "d/kinds")).unwrap().is_dir());
}

#[test]
fn only_hidden_files_with_the_same_bytes_are_removed() {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let union = union_over(3, "first", |disks| {
        for disk in disks {
            fs::create_dir(disk.join("d")).unwrap();
            fs::write(disk.join("d/same"), &bytes).unwrap();
            fs::write(disk.join("d/empty"), "").unwrap();
        }
        let mut other = bytes.clone();
        *other.last_mut().unwrap() ^= 1;
        fs::write(disks[0].join("d/last_byte"), &bytes).unwrap();
        fs::write(disks[1].join("d/last_byte"), &other).unwrap();
        fs::write(disks[1].join("d/longer"), &bytes).unwrap();
        fs::write(disks[2].join("d/longer"), &bytes[1..]).unwrap();
        symlink("same", disks[0].join("d/link")).unwrap();
        symlink("same", disks[1].join("d/link")).unwrap();
        fs::write(disks[0].join("d/kinds"), "file").unwrap();
        symlink("same", disks[1].join("d/kinds")).unwrap();
    });
    let counted = union.deduplicate("", false);
    assert_eq!((counted.same, counted.stay), (4, 4), "{counted:?}");
    assert!(counted.bytes >= 2 * bytes.len() as u64 && counted.reasons.len() == 4);
    assert!(fs::exists(union.branches[2].join("d/same")).unwrap(), "it was only counted");
    let removed = union.deduplicate("d/same", true);
    assert_eq!((removed.same, removed.stay), (2, 0), "{removed:?}");
    let removed = union.deduplicate("", true);
    assert_eq!((removed.same, removed.stay), (2, 4), "{removed:?}");
    for name in ["same", "empty"] {
        assert_eq!(union.on(&format!("d/{name}")), [0], "{name}");
    }
    assert!(fs::read(union.branches[0].join("d/same")).unwrap() == bytes);
    for (name, branches) in [("last_byte", [0, 1]), ("longer", [1, 2]), ("link", [0, 1])] {
        assert_eq!(union.on(&format!("d/{name}")), branches, "{name}");
    }
    let because = |name: &str| {
        let end = format!("d/{name}");
        removed.reasons.iter().find(|(path, _)| path.ends_with(&end)).unwrap().1.clone()
    };
    assert_eq!(because("last_byte"), "it has other bytes");
    assert_eq!(because("link"), "it is no regular file");
    assert_eq!(because("kinds"), "it is of another kind than what is shown");
}

#[test]
fn a_hidden_file_on_a_disk_that_is_only_read_stays() {
    let union = union_over(2, "first", |disks| {
        disks.iter().for_each(|disk| fs::write(disk.join("file"), "same").unwrap());
    });
    union.union.set_mode(1, braid_union::BranchMode::Ro).unwrap();
    let report = union.deduplicate("", true);
    assert_eq!((report.same, report.stay), (0, 1), "{report:?}");
    assert_eq!(report.reasons[0].1, "its disk is read-only");
    assert_eq!(union.on("file"), [0, 1]);
    let nowhere = union.union.deduplicate(b"nowhere", true, &mut |_| ControlFlow::Continue(()));
    assert_eq!(nowhere, Err(rustix::io::Errno::NOENT));
}
