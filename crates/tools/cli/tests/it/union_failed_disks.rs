//! Disks fail, are missing and come back while a union is mounted.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{ErrorKind, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::io::Errno;

use crate::{
    harness::{braid, text},
    union::Mounted,
};

/// `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`: from now on the disk gives errors.
const SHUTDOWN: &str = "import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";

fn run(command: &str, arguments: &[&Path]) -> Result<(), String> {
    let words: Vec<&str> = command.split(' ').collect();
    let ran = Command::new(words[0]).args(&words[1..]).args(arguments).output();
    match ran {
        Ok(ran) if ran.status.success() => Ok(()),
        Ok(ran) => Err(text(&ran)),
        Err(error) => Err(format!("{}: {error}", words[0])),
    }
}

/// A file system in an image, which is unmounted at the end.
struct Disk<'p>(&'p Path);

impl<'p> Disk<'p> {
    fn make(image: &Path, point: &'p Path) -> Result<Self, String> {
        let file = fs::File::create(image).map_err(|error| error.to_string())?;
        file.set_len(32 << 20).map_err(|error| error.to_string())?;
        run("mkfs.ext4 -q -F", &[image])?;
        Self::mount(image, point)
    }

    fn mount(image: &Path, point: &'p Path) -> Result<Self, String> {
        run("mount -o loop", &[image, point])?;
        Ok(Self(point))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = run("umount -l", &[self.0]);
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn is_io_error(error: &std::io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::IO)
}

/// Waits until something holds, for a time that a slow machine needs.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} took a minute");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_disk_fails_under_load_and_comes_back() {
    let Some(union) = Mounted::start(&[]) else { return };
    let (image, point) = (union.at("image"), union.at("disk3"));
    fs::create_dir(&point).unwrap();
    let disk = match Disk::make(&image, &point) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped: no loop-mounted ext4: {why}"),
    };
    if let Err(why) = run("python3 --version", &[]) {
        return println!("skipped: {why}");
    }
    let (code, printed) = union.braid("add", &["disk3", "--min-free", "0"]);
    assert_eq!(code, 0, "{printed}");
    // Of a file system that is mounted for the first time.
    fs::remove_dir(union.at("mnt/lost+found")).unwrap();
    let dir = union.at("mnt/dir");
    let create = |name: &str| fs::write(dir.join(name), name);
    (0..30).for_each(|n| create(&n.to_string()).unwrap());
    let failing: Vec<u32> =
        (0..30).filter(|n| union.on(&format!("dir/{n}")) == ["disk3"]).collect();
    assert_eq!(failing.len(), 10, "round robin");
    let numbers: Vec<u64> =
        failing.iter().map(|n| fs::metadata(dir.join(n.to_string())).unwrap().ino()).collect();
    rustix::fs::syncfs(fs::File::open(&point).unwrap()).unwrap();
    let before = names(&dir);
    wait_for("saving the names", || union.at("meta/names-2").exists());

    let (over, others) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        // A program goes on with files of the other disks. It may see errors of the one that fails.
        scope.spawn(|| {
            let mut round = 0_u64;
            while !over.load(Ordering::Relaxed) {
                round += 1;
                let path = dir.join(format!("load-{}", round % 10));
                let done = fs::File::create(&path).and_then(|mut file| file.write_all(b"load"));
                match done.and_then(|()| fs::read(&path)) {
                    Ok(bytes) => {
                        assert_eq!(bytes, b"load");
                        others.fetch_add(1, Ordering::Relaxed);
                        let _ = fs::remove_file(&path);
                    }
                    Err(error) => assert!(
                        is_io_error(&error) || error.kind() == ErrorKind::NotFound,
                        "{error}"
                    ),
                }
            }
        });
        let ran = Command::new("python3").args(["-c", SHUTDOWN]).arg(&point).output().unwrap();
        assert!(ran.status.success(), "{}", text(&ran));
        wait_for("noticing the failure", || {
            let _ = create("probe").and_then(|()| fs::remove_file(dir.join("probe")));
            let (_, printed) = union.braid("status", &[]);
            printed.contains("Input/output error")
        });
        let before = others.load(Ordering::Relaxed);
        wait_for("the load", || others.load(Ordering::Relaxed) > before + 50);
        over.store(true, Ordering::Relaxed);
    });

    let listed: Vec<String> =
        names(&dir).into_iter().filter(|name| !name.starts_with("load")).collect();
    assert_eq!(listed, before, "the names of a failed disk stay");
    for n in 0..30 {
        let read = fs::read(dir.join(n.to_string()));
        match failing.contains(&n) {
            true => assert!(is_io_error(&read.unwrap_err()), "{n}"),
            false => assert_eq!(read.unwrap(), n.to_string().as_bytes()),
        }
    }
    assert!(is_io_error(&create(&failing[0].to_string()).unwrap_err()));
    (100..110).for_each(|n| create(&n.to_string()).unwrap());

    // The disk is attached again, at its place.
    drop(disk);
    let repaired = union.at("repaired");
    fs::copy(&image, &repaired).unwrap();
    let _disk = Disk::mount(&repaired, &point).unwrap();
    wait_for("using the disk again", || fs::read(dir.join(failing[0].to_string())).is_ok());
    for (n, number) in failing.iter().zip(numbers) {
        let path = dir.join(n.to_string());
        assert_eq!(fs::read_to_string(&path).unwrap(), n.to_string());
        assert_eq!(fs::metadata(&path).unwrap().ino(), number);
    }
    (120..130).for_each(|n| create(&n.to_string()).unwrap());
    assert!((120..130).any(|n| union.on(&format!("dir/{n}")) == ["disk3"]));
    let (_, printed) = union.braid("status", &[]);
    assert!(!printed.contains("error"), "{printed}");
}

#[test]
fn a_union_starts_without_a_missing_disk_if_it_is_told_to() {
    let Some(mut union) = Mounted::start(&[]) else { return };
    fs::write(union.at("mnt/dir/new"), "new").unwrap();
    wait_for("saving the names", || {
        union.at("meta/names-0").exists() && union.at("meta/names-1").exists()
    });
    union.kill();
    fs::rename(union.at("disk2"), union.at("away")).unwrap();
    fs::create_dir(union.at("disk2")).unwrap();
    let refused = braid()
        .current_dir(union.dir.path())
        .args(["union", "up", "--foreground", "meta", "mnt"])
        .output()
        .unwrap();
    let printed = text(&refused);
    assert!(!refused.status.success() && printed.contains("--degraded"), "{printed}");

    union.start_again_with(&["--degraded"]);
    assert_eq!(names(&union.at("mnt/dir")), ["new", "older"]);
    assert_eq!(fs::read_to_string(union.at("mnt/old")).unwrap(), "old");
    assert!(is_io_error(&fs::read(union.at("mnt/dir/older")).unwrap_err()));
    let (_, printed) = union.braid("status", &[]);
    assert!(printed.contains("missing"), "{printed}");
    let old = union.at("mnt/old");
    for (call, arguments) in [
        ("drain", &["disk2"][..]),
        ("remove", &["disk2"]),
        ("drain", &["disk1", "--to", "disk2"]),
        ("move", &[old.to_str().unwrap(), "--to", "disk2"]),
    ] {
        let (code, printed) = union.braid(call, arguments);
        assert!(code != 0 && printed.contains("its disk is missing"), "{call}: {printed}");
        assert!(printed.contains("--with-files"), "{call}: {printed}");
    }
    let modes = fs::read_to_string(union.at("meta/pool.toml")).unwrap();
    assert!(!modes.contains("\"nc\""), "a refused drain changes no mode: {modes}");
    fs::remove_dir(union.at("disk2")).unwrap();
    fs::rename(union.at("away"), union.at("disk2")).unwrap();
    wait_for("using the disk", || fs::read(union.at("mnt/dir/older")).is_ok());
}
