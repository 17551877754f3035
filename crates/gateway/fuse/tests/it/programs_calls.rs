//! System calls of programs that other tests reach through `braid-vfs` only: files without a name,
//! groups, the layout's attribute.
#![cfg(target_os = "linux")]

use std::{
    ffi::CString,
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::{
            ffi::OsStrExt,
            fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown},
        },
    },
    path::{Path, PathBuf},
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

/// Runs a shell command as a user with one supplementary group. Whether it succeeded.
fn as_other(line: &str, directory: &Path) -> bool {
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid",
        &OTHER.to_string(),
        "--regid",
        &OTHER.to_string(),
        "--groups",
        &GROUP.to_string(),
    ]);
    command.args(["sh", "-c", line]).current_dir(directory).stderr(Stdio::null());
    command.status().unwrap().success()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_file_without_a_name_is_invisible_until_it_gets_one() {
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
    assert_eq!(
        give_name(&never, &one.path("never")),
        Err(Errno::NOENT),
        "O_EXCL: it must not get a name"
    );
    drop(never);
    assert_eq!(fs::read_dir(two.path(".")).unwrap().count(), 1);
}

#[test]
fn groups_sticky_directories_and_umask_work_as_on_local_disks() {
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
    // With the rights of its supplementary group, and of no other.
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
    // In a sticky directory a user removes only its own files.
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
    let set = |path: &Path, value: &str| {
        rustix::fs::setxattr(path, NAME, value.as_bytes(), XattrFlags::empty())
    };
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

/// Does something as this user, in a separate thread.
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

/// Changes of a file's bytes or owner: a name and a function.
type Change = fn(&Path, &File);

const RESERVE: FallocateFlags = FallocateFlags::KEEP_SIZE;

/// The path is that of the file; the other one is a source to copy from.
const CHANGES: [(&str, Change); 9] = [
    ("write", |path, _| writer(path).write_all_at(b"x", 0).unwrap()),
    ("append", |path, _| File::options().append(true).open(path).unwrap().write_all(b"x").unwrap()),
    ("direct write", |path, _| {
        let file = File::options()
            .write(true)
            .custom_flags(OFlags::DIRECT.bits().cast_signed())
            .open(path)
            .unwrap();
        file.write_all_at(&[7; 4096], 0).unwrap();
    }),
    ("copy", |path, from| {
        assert_eq!(copy_file_range(from, Some(&mut 0), writer(path), Some(&mut 0), 100), Ok(100));
    }),
    ("reserve", |path, _| fallocate(writer(path), RESERVE, 0, 16_384).unwrap()),
    ("punch", |path, _| {
        fallocate(writer(path), RESERVE | FallocateFlags::PUNCH_HOLE, 0, 4096).unwrap()
    }),
    ("zero", |path, _| {
        fallocate(writer(path), RESERVE | FallocateFlags::ZERO_RANGE, 0, 4096).unwrap()
    }),
    ("truncate", |path, _| writer(path).set_len(5000).unwrap()),
    ("truncate by name", |path, _| truncate(path, 6000)),
];

fn writer(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

fn truncate(path: &Path, bytes: i64) {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a string that ends with NUL.
    assert_eq!(unsafe { libc::truncate(name.as_ptr(), bytes) }, 0);
}

/// A file that this user owns on two mounts, and one to copy from.
fn owned_file(one: &Mount) -> (PathBuf, PathBuf) {
    fs::set_permissions(one.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    let (path, from) = (one.path("f"), one.path("from"));
    for made in [&path, &from] {
        fs::write(made, [7; 8192]).unwrap();
        chown(made, Some(OTHER), Some(OTHER)).unwrap();
    }
    (path, from)
}

#[test]
fn changes_by_unprivileged_users_clear_setuid_and_setgid() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let (path, from) = owned_file(&one);
    let from = File::open(from).unwrap();
    for (what, change) in CHANGES {
        for giver in [&one, &two] {
            for (user, left) in [(0, 0o6755), (OTHER, 0o755)] {
                fs::set_permissions(giver.path("f"), fs::Permissions::from_mode(0o6755)).unwrap();
                // The kernel caches the mode, and runs the program with it.
                assert_eq!([mode(&path), mode(&two.path("f"))], [0o6755; 2]);
                by(user, || change(&path, &from));
                assert_eq!([mode(&path), mode(&two.path("f"))], [left; 2], "{what} by {user}");
            }
        }
    }
}

#[test]
fn every_change_removes_file_capabilities() {
    const NAME: &str = "security.capability";
    /// Version 2, effective; `CAP_NET_RAW` permitted (capabilities(7)).
    const VALUE: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let (path, from) = owned_file(&one);
    let from = File::open(from).unwrap();
    let has = |mount: &Mount| rustix::fs::getxattr(mount.path("f"), NAME, &mut [0_u8; 64][..]);
    // Other attributes stay.
    rustix::fs::setxattr(&path, "user.kept", b"kept", XattrFlags::empty()).unwrap();
    for (what, change) in CHANGES {
        for giver in [&one, &two] {
            for user in [0, OTHER] {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
                rustix::fs::setxattr(giver.path("f"), NAME, &VALUE, XattrFlags::empty()).unwrap();
                assert_eq!([has(&one), has(&two)], [Ok(20); 2], "before {what} by {user}");
                by(user, || change(&path, &from));
                assert_eq!([has(&one), has(&two)], [Err(Errno::NODATA); 2], "{what} by {user}");
                assert_eq!(mode(&path) & 0o4000 != 0, user == 0, "root keeps setuid at {what}");
            }
        }
    }
    rustix::fs::setxattr(&path, NAME, &VALUE, XattrFlags::empty()).unwrap();
    chown(two.path("f"), Some(OTHER), Some(0)).unwrap();
    assert_eq!([has(&one), has(&two)], [Err(Errno::NODATA); 2], "another owner");
    assert_eq!(rustix::fs::getxattr(&path, "user.kept", &mut [0_u8; 64][..]), Ok(4));
}

#[test]
fn a_removed_directory_stays_usable_while_it_is_open() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(1);
    let mount = Mount::new(&cluster);
    let (removed, moved, replaced) =
        (mount.path("removed"), mount.path("moved"), mount.path("replaced"));
    [&removed, &moved, &replaced].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    fs::set_permissions(&replaced, fs::Permissions::from_mode(0o710)).unwrap();
    let open = [&removed, &replaced].map(|path| File::open(path).unwrap());
    let before = open.each_ref().map(|open| open.metadata().unwrap());
    fs::remove_dir(&removed).unwrap();
    fs::rename(&moved, &replaced).unwrap();
    for (open, before) in open.iter().zip(&before) {
        let after = open.metadata().unwrap();
        assert_eq!((after.nlink(), after.ino(), after.mode()), (0, before.ino(), before.mode()));
    }
    assert_eq!(fs::metadata(&replaced).unwrap().nlink(), 2, "it is another directory");
    // A working directory, as that of a shell.
    fs::create_dir(&removed).unwrap();
    let line = "cd removed && rmdir ../removed && stat -c %h . && cd ..";
    let output = Command::new("sh").args(["-c", line]).current_dir(mount.point()).output().unwrap();
    assert_eq!((output.status.success(), &*output.stdout), (true, &b"0\n"[..]), "{output:?}");
    assert!(File::open(&removed).is_err());
}

#[test]
fn a_listing_ends_although_listed_names_are_moved() {
    const NAMES: usize = 200;
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(1);
    let (mount, other) = (Mount::new(&cluster), Mount::new(&cluster));
    let directory = mount.path("d");
    fs::create_dir(&directory).unwrap();
    for number in 0..NAMES {
        // Names that take several requests of the kernel.
        File::create(directory.join(format!("{number:0>200}"))).unwrap();
    }
    for mover in [&mount, &other] {
        let mut found = Vec::new();
        for (turn, entry) in fs::read_dir(&directory).unwrap().enumerate() {
            assert!(turn < 2 * NAMES, "it does not end");
            let name = entry.unwrap().file_name().into_string().unwrap();
            let moved = format!("{}{turn:0>5}", &name[..195]);
            fs::rename(mover.path("d").join(&name), mover.path("d").join(&moved)).unwrap();
            found.push(name);
        }
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), NAMES);
        assert_eq!(
            fs::read_dir(&directory).unwrap().count(),
            NAMES,
            "a listing from the beginning shows the current state"
        );
    }
}

/// A file handle, name_to_handle_at(2).
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    handle: [u8; 128],
}

fn handle_of(path: &Path) -> Handle {
    let (name, mut mount_id) = (CString::new(path.as_os_str().as_bytes()).unwrap(), 0_i32);
    let mut handle = Handle { bytes: 128, kind: 0, handle: [0; 128] };
    // SAFETY: all pointers are valid for the call, and the handle has the size that it states.
    let done = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            name.as_ptr(),
            std::ptr::from_mut(&mut handle),
            std::ptr::from_mut(&mut mount_id),
            0,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    handle
}

fn open_by_handle(mount: &Mount, handle: &Handle, flags: OFlags) -> std::io::Result<File> {
    let at = File::open(mount.point()).unwrap();
    let flags = i64::from(flags.bits());
    // SAFETY: the handle is valid for the call.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            at.as_raw_fd(),
            std::ptr::from_ref(handle),
            flags,
        )
    };
    match i32::try_from(opened) {
        // SAFETY: a descriptor that the kernel has just returned.
        Ok(fd) if fd >= 0 => Ok(unsafe { File::from_raw_fd(fd) }),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[test]
fn a_file_that_the_kernel_has_forgotten_is_found_by_its_handle() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(1);
    let first = Mount::new(&cluster);
    fs::create_dir_all(first.path("a/b")).unwrap();
    fs::write(first.path("a/b/f"), b"bytes").unwrap();
    fs::write(first.path("gone"), b"").unwrap();
    let [file, directory, gone] = ["a/b/f", "a/b", "gone"].map(|name| handle_of(&first.path(name)));
    fs::rename(first.path("a/b/f"), first.path("moved")).unwrap();
    fs::remove_file(first.path("gone")).unwrap();
    // On another mount, whose kernel state has never seen them.
    let second = Mount::new(&cluster);
    let mut text = String::new();
    open_by_handle(&second, &file, OFlags::RDONLY).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "bytes");
    let directory =
        open_by_handle(&second, &directory, OFlags::RDONLY | OFlags::DIRECTORY).unwrap();
    let above = format!("/proc/self/fd/{}/..", directory.as_raw_fd());
    assert_eq!(fs::metadata(above).unwrap().ino(), fs::metadata(second.path("a")).unwrap().ino());
    for mount in [&first, &second] {
        let error = open_by_handle(mount, &gone, OFlags::RDONLY).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESTALE));
    }
}
