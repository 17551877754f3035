//! What a few calls of programs do that other tests reach by `braid-vfs` only: files without a name, groups, the layout's attribute.
#![cfg(target_os = "linux")]

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, MetadataExt, PermissionsExt, chown},
    },
    path::Path,
    process::{Command, Stdio},
    thread,
};

use crate::support::{Cluster, Mount, can_mount};
use rustix::{
    fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, XattrFlags, copy_file_range, fallocate},
    io::Errno,
    process::Uid,
};

const OTHER: u32 = 54_321;
const GROUP: u32 = 54_322;

fn unnamed(directory: &Path, flags: OFlags) -> File {
    let flags = OFlags::TMPFILE | OFlags::RDWR | flags;
    rustix::fs::open(directory, flags, Mode::from(0o640)).unwrap().into()
}

fn give_name(file: &File, name: &Path) -> Result<(), Errno> {
    let of_process = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, of_process, CWD, name, AtFlags::SYMLINK_FOLLOW)
}

/// Runs a shell's line as a user that is in one more group; whether it succeeded.
fn as_other(line: &str, directory: &Path) -> bool {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &OTHER.to_string(), "--regid", &OTHER.to_string(), "--groups", &GROUP.to_string()]);
    command.args(["sh", "-c", line]).current_dir(directory).stderr(Stdio::null());
    command.status().unwrap().success()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_file_without_a_name_is_seen_by_nobody_until_it_is_given_one() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let mut file = unnamed(&one.path("."), OFlags::empty());
    file.write_all(b"written before it had a name").unwrap();
    assert_eq!(fs::read_dir(two.path(".")).unwrap().count(), 0);
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    give_name(&file, &one.path("named")).unwrap();
    assert_eq!(fs::read(two.path("named")).unwrap(), b"written before it had a name");
    assert_eq!(mode(&two.path("named")), 0o640);

    let mut never = unnamed(&one.path("."), OFlags::EXCL);
    never.write_all(b"x").unwrap();
    assert_eq!(give_name(&never, &one.path("never")), Err(Errno::NOENT), "O_EXCL: it is to have no name");
    drop(never);
    assert_eq!(fs::read_dir(two.path(".")).unwrap().count(), 1);
}

#[test]
fn groups_sticky_directories_and_umask_are_as_on_any_file_system() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(1);
    let mount = Mount::new(&cluster);
    let directory = |name, owner, group, mode| {
        let path = mount.path(name);
        fs::create_dir(&path).unwrap();
        chown(&path, Some(owner), Some(group)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    fs::set_permissions(mount.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    // By the group that it is in besides its own, and by no other.
    let of_group = directory("group", 0, GROUP, 0o2770);
    assert!(as_other("umask 027; echo x > f; mkdir d", &of_group));
    assert_eq!(mode(&of_group.join("f")), 0o640);
    assert_eq!(mode(&of_group.join("d")), 0o2750, "setgid is inherited");
    for made in ["f", "d"] {
        let made = fs::metadata(of_group.join(made)).unwrap();
        assert_eq!((made.uid(), made.gid()), (OTHER, GROUP), "the group is the directory's");
    }
    let closed = directory("closed", 0, GROUP + 1, 0o770);
    assert!(!as_other("echo x > f", &closed) && !as_other("ls closed", &mount.path(".")));
    // In a sticky directory one removes only what is one's own.
    let sticky = directory("sticky", 0, 0, 0o1777);
    fs::write(sticky.join("root"), b"").unwrap();
    assert!(as_other("echo x > mine && rm mine", &sticky));
    assert!(!as_other("rm -f root", &sticky) && !as_other("mv root moved", &sticky));
    assert!(sticky.join("root").exists());
}

#[test]
fn the_layout_is_an_attribute_that_programs_read_and_set() {
    const NAME: &str = "user.braid.layout";
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let mount = Mount::new(&cluster);
    let layout = |path: &Path| {
        let mut value = [0; 4096];
        let bytes = rustix::fs::getxattr(path, NAME, &mut value[..]).unwrap();
        String::from_utf8(value[..bytes].to_vec()).unwrap()
    };
    let set = |path: &Path, value: &str| rustix::fs::setxattr(path, NAME, value.as_bytes(), XattrFlags::empty());
    let directory = mount.path("d");
    fs::create_dir(&directory).unwrap();
    set(&directory, "stripe-size=128K").unwrap();
    fs::write(directory.join("f"), b"bytes").unwrap();
    assert!(layout(&directory.join("f")).contains("131072"), "{}", layout(&directory.join("f")));
    let empty = mount.path("empty");
    File::create(&empty).unwrap();
    set(&empty, "single").unwrap();
    assert!(layout(&empty).contains("distribution=single"), "{}", layout(&empty));
    set(&empty, "stripe-size=262144").unwrap();
    assert!(layout(&empty).contains("262144"), "{}", layout(&empty));
    fs::write(&empty, b"no more").unwrap();
    assert!(set(&empty, "stripe-size=131072").is_err(), "it has bytes");
    let mut text = String::new();
    File::open(&empty).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "no more");
}

/// Does something as this user, in a thread of its own.
fn by(user: u32, work: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            if user != 0 {
                rustix::thread::set_thread_uid(Uid::from_raw(user)).unwrap();
            }
            work();
        });
        worker.join().unwrap();
    });
}

#[test]
fn setuid_and_setgid_go_with_what_others_than_root_write_copy_and_allocate() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    fs::set_permissions(one.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    let (path, from) = (one.path("f"), one.path("from"));
    for made in [&path, &from] {
        fs::write(made, [7; 8192]).unwrap();
        chown(made, Some(OTHER), Some(OTHER)).unwrap();
    }
    type Change = fn(&File, &File);
    const RESERVE: FallocateFlags = FallocateFlags::KEEP_SIZE;
    let changes: [(&str, Change); 5] = [
        ("write", |file, _| file.write_all_at(b"x", 0).unwrap()),
        ("copy", |file, from| assert_eq!(copy_file_range(from, Some(&mut 0), file, Some(&mut 0), 100), Ok(100))),
        ("reserve", |file, _| fallocate(file, RESERVE, 0, 16_384).unwrap()),
        ("punch", |file, _| fallocate(file, RESERVE | FallocateFlags::PUNCH_HOLE, 0, 4096).unwrap()),
        ("zero", |file, _| fallocate(file, RESERVE | FallocateFlags::ZERO_RANGE, 0, 4096).unwrap()),
    ];
    for (what, change) in changes {
        for (user, left) in [(0, 0o6755), (OTHER, 0o755)] {
            fs::set_permissions(two.path("f"), fs::Permissions::from_mode(0o6755)).unwrap();
            by(user, || {
                let file = File::options().read(true).write(true).open(&path).unwrap();
                change(&file, &File::open(&from).unwrap());
            });
            assert_eq!([mode(&path), mode(&two.path("f"))], [left; 2], "{what} by {user}");
        }
    }
}
