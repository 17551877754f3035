//! Pools: what cannot be a branch is refused before anything is changed.

use std::fs;

use braid_union::{BRANCH_FILE, BranchMode, Pool, PoolError, Union};

use crate::harness::union_of;

#[test]
fn directories_that_cannot_be_branches_are_refused_and_stay_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["a", "a/inside", "b", "meta"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("file"), "").unwrap();
    std::os::unix::fs::symlink(at("a"), at("same")).unwrap();
    let create = |names: &[&str]| {
        let disks: Vec<_> = names.iter().map(|name| (at(name), BranchMode::Rw)).collect();
        Pool::create(&at("meta"), "p", &disks, None).map(drop).unwrap_err()
    };
    assert!(matches!(create(&[]), PoolError::None));
    assert!(matches!(create(&["a", "file"]), PoolError::NotADirectory { .. }));
    assert!(matches!(create(&["a", "missing"]), PoolError::NotADirectory { .. }));
    assert!(matches!(create(&["a", "same"]), PoolError::Twice { .. }));
    assert!(matches!(create(&["a", "a/inside"]), PoolError::Nested { .. }));
    assert!(matches!(create(&["a", "meta"]), PoolError::Twice { .. }));
    let other = union_of(1, "first");
    let disks = [(at("a"), BranchMode::Rw), (other.branches[0].clone(), BranchMode::Rw)];
    let refused = Pool::create(&at("meta"), "p", &disks, None).map(drop).unwrap_err();
    assert!(matches!(refused, PoolError::OtherPool { .. }), "{refused}");
    for name in ["a", "a/inside", "b", "meta"] {
        assert!(!at(name).join(BRANCH_FILE).exists(), "{name} was changed");
    }
    assert!(!at("meta/pool.toml").exists());
}

#[test]
fn a_pool_that_cannot_be_written_marks_no_directory() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    // The file cannot be replaced: a directory has the name of its new version.
    let meta = dir.path().join("meta");
    fs::create_dir_all(meta.join("pool.new")).unwrap();
    let disks = [(disk.clone(), BranchMode::Rw)];
    assert!(Pool::create(&meta, "p", &disks, None).is_err());
    assert!(!disk.join(BRANCH_FILE).exists());
    // A metadata directory in a branch is refused before it is created.
    assert!(Pool::create(&disk.join("deep/meta"), "p", &disks, None).is_err());
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0);
    fs::remove_dir(meta.join("pool.new")).unwrap();
    Pool::create(&meta, "p", &disks, None).unwrap();
}

#[test]
fn a_disk_that_is_not_mounted_or_another_one_is_noticed() {
    let union = union_of(2, "first");
    let (meta, branches) = (union.dir.path().join("meta"), union.branches.clone());
    drop(union.union);
    let open = || Union::open(&Pool::open(&meta).unwrap()).map(drop);
    let files: Vec<_> = branches.iter().map(|branch| branch.join(BRANCH_FILE)).collect();
    let text = fs::read(&files[0]).unwrap();
    fs::remove_file(&files[0]).unwrap();
    assert!(matches!(open(), Err(PoolError::Missing { .. })));
    fs::copy(&files[1], &files[0]).unwrap();
    assert!(matches!(open(), Err(PoolError::WrongBranch { .. })));
    fs::write(&files[0], &text[..text.len() / 2]).unwrap();
    assert!(matches!(open(), Err(PoolError::Identity { .. })));
    fs::write(&files[0], text).unwrap();
    open().unwrap();
}

#[test]
fn a_pool_is_used_by_one_process_at_a_time() {
    let union = union_of(1, "first");
    let pool = Pool::open(&union.dir.path().join("meta")).unwrap();
    let refused = Union::open(&pool).map(drop).unwrap_err();
    assert!(matches!(refused, PoolError::InUse { .. }), "{refused}");
    assert_eq!(Union::open_read_only(&pool).unwrap().branches().len(), 1);
}

#[test]
fn the_metadata_directory_is_found_from_any_working_directory() {
    let union = union_of(1, "first");
    let meta = union.dir.path().join("meta");
    let up: std::path::PathBuf =
        std::env::current_dir().unwrap().ancestors().skip(1).map(|_| "..").collect();
    let relative = up.join(meta.strip_prefix("/").unwrap());
    assert!(relative.is_relative());
    assert!(Pool::open(&relative).unwrap().meta().is_absolute());
}

#[test]
fn a_damaged_pool_file_is_refused() {
    let union = union_of(2, "first");
    let meta = union.dir.path().join("meta");
    let text = fs::read_to_string(meta.join("pool.toml")).unwrap();
    for (old, new) in [("format = 1", "format = 9"), ("number = 1", "number = 0"), ("next", "nxt")]
    {
        let damaged = text.replacen(old, new, 1);
        assert_ne!(damaged, text);
        fs::write(meta.join("pool.toml"), damaged).unwrap();
        assert!(matches!(Pool::open(&meta), Err(PoolError::Config { .. })), "{old} -> {new}");
    }
}

#[test]
fn branches_that_are_read_only_or_take_no_new_files_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let disks: Vec<_> = ["ro", "nc", "rw"].iter().map(|name| dir.path().join(name)).collect();
    for disk in &disks {
        fs::create_dir_all(disk.join("d")).unwrap();
        fs::write(disk.join("d").join(disk.file_name().unwrap()), "old").unwrap();
    }
    let modes = [BranchMode::Ro, BranchMode::Nc, BranchMode::Rw];
    let with_modes: Vec<_> = disks.iter().cloned().zip(modes).collect();
    let pool = Pool::create(&dir.path().join("meta"), "p", &with_modes, Some(0)).unwrap();
    let union =
        crate::harness::Fixture { union: Union::open(&pool).unwrap(), dir, branches: disks };
    assert_eq!(union.names("d").unwrap(), ["nc", "ro", "rw"]);
    (0..4).for_each(|n| union.write(&format!("d/{n}"), b"").unwrap());
    assert!((0..4).all(|n| union.on(&format!("d/{n}")) == [2]));
    assert_eq!(union.unlink("d/ro"), Err(rustix::io::Errno::ROFS));
    assert_eq!(union.unlink("d/nc"), Ok(()));
    assert_eq!(union.names("d").unwrap(), ["0", "1", "2", "3", "ro", "rw"]);
    assert!(!union.branches[0].join(BRANCH_FILE).exists(), "nothing is written to a ro branch");
}
