//! Changes of directories: an NFS client finds those of a mount in the change attribute and in
//! READDIR, and a mount that has cached names and attributes finds those of an NFS client.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
};

use super::{Mixed, Nfs};

const TURNS: u32 = 20;

/// The names that a mount and an NFS client list, which must be these.
#[track_caller]
fn both_list(dir: &Path, nfs: &mut Nfs, expected: &[&str]) {
    let names = fs::read_dir(dir).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut of_mount: Vec<_> = names.collect();
    let mut of_nfs = nfs.mount.list(&nfs.dir).unwrap();
    of_mount.sort();
    of_nfs.sort();
    assert_eq!(of_mount, expected, "on the mount");
    assert_eq!(of_nfs, expected, "by NFS");
}

#[test]
fn nfs_sees_each_change_of_a_directory_by_a_mount() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("changed-by-mount");
    let at = |name: &str| dir.join(name);
    type Step<'a> = (&'a str, &'a dyn Fn() -> std::io::Result<()>, &'a [&'a str]);
    let steps: [Step<'_>; 8] = [
        ("create", &|| fs::write(at("a"), "content"), &["a"]),
        ("mkdir", &|| fs::create_dir(at("b")), &["a", "b"]),
        ("symlink", &|| symlink("a", at("c")), &["a", "b", "c"]),
        ("link", &|| fs::hard_link(at("a"), at("d")), &["a", "b", "c", "d"]),
        ("rename", &|| fs::rename(at("d"), at("e")), &["a", "b", "c", "e"]),
        ("replace", &|| fs::rename(at("e"), at("c")), &["a", "b", "c"]),
        ("unlink", &|| fs::remove_file(at("a")), &["b", "c"]),
        ("rmdir", &|| fs::remove_dir(at("b")), &["c"]),
    ];
    let mut change = nfs.mount.change(&nfs.dir).unwrap();
    for (what, step, names) in steps {
        step().unwrap();
        let now = nfs.mount.change(&nfs.dir).unwrap();
        assert!(now > change, "{what}: {now} after {change}");
        change = now;
        both_list(&dir, &mut nfs, names);
    }
    // What changes nothing in the directory does not change its attribute: a client's cache stays.
    fs::write(at("c"), "more").unwrap();
    fs::read_dir(&dir).unwrap().count();
    assert_eq!(nfs.mount.change(&nfs.dir).unwrap(), change);
}

#[test]
fn a_mount_sees_each_change_of_a_directory_by_nfs() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("changed-by-nfs");
    let path = dir.join("f");
    let mut ctime = (0, 0);
    for turn in 0..TURNS {
        // Each look fills the mount's cache with what the next call of the client changes.
        assert!(fs::metadata(&path).is_err(), "turn {turn}: the name does not exist");
        both_list(&dir, &mut nfs, &[]);
        nfs.create("f", b"content");
        both_list(&dir, &mut nfs, &["f"]);
        assert_eq!(fs::metadata(&path).unwrap().len(), 7, "turn {turn}");
        let handle = nfs.mount.look_up(&nfs.dir, "f").unwrap();
        for mode in [0o600, 0o644] {
            nfs.mount.set_mode(&handle, mode).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode, "turn {turn}");
        }
        nfs.mount.rename(&nfs.dir, "f", "g").unwrap();
        assert!(fs::metadata(&path).is_err(), "turn {turn}: the old name");
        both_list(&dir, &mut nfs, &["g"]);
        nfs.mount.remove(&nfs.dir, "g").unwrap();
        assert!(fs::metadata(dir.join("g")).is_err(), "turn {turn}: the removed name");
        let known = fs::metadata(&dir).unwrap();
        let now = (known.ctime(), known.ctime_nsec());
        assert!(now > ctime, "turn {turn}: {now:?} after {ctime:?}");
        ctime = now;
    }
}

#[test]
fn attributes_that_one_sets_are_those_that_the_other_gets() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("attributes");
    let path = dir.join("f");
    let handle = nfs.create("f", b"content");
    let mut change = nfs.mount.change(&handle).unwrap();
    for turn in 0..TURNS {
        let mode = if turn % 2 == 0 { 0o640 } else { 0o604 };
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let now = nfs.mount.attributes(&handle, &[braid_nfs_wire::nfs4::attribute::MODE]).unwrap();
        assert_eq!(now.mode, Some(mode), "turn {turn}");
        let now = nfs.mount.change(&handle).unwrap();
        assert!(now > change, "turn {turn}: {now} after {change}");
        change = now;
        nfs.mount.set_mode(&handle, 0o600 + turn % 8).unwrap();
        let found = fs::metadata(&path).unwrap().mode() & 0o7777;
        assert_eq!(found, 0o600 + turn % 8, "turn {turn}");
        change = nfs.mount.change(&handle).unwrap().max(change);
    }
}
