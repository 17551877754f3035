//! Listings of a mounted union: what they cost, and that the kernel keeps no stale one.

use crate::union::{BRANCHES, UnionMount};
use braid_union::NodeId;
use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, RenameFlags};
use std::collections::HashSet;
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

const DIRECTORIES: u64 = 12;
const FILES: u64 = 40;
/// Longer than it takes until a listing may be kept.
const LONG: Duration = Duration::from_secs(30);

/// Directories `d0`, `d1`, … on all branches, with files on one each. `None`: this machine cannot
/// mount.
fn tree() -> Option<UnionMount> {
    UnionMount::over(|branches| {
        for directory in 0..DIRECTORIES {
            let path = |branch: u64| branches[branch as usize].join(format!("d{directory}"));
            (0..BRANCHES).for_each(|branch| fs::create_dir(path(branch)).unwrap());
            for file in 0..FILES {
                fs::write(path(file % BRANCHES).join(file.to_string()), "x").unwrap();
            }
        }
    })
}

/// Lists a tree as `find`: names and kinds alone.
fn walk(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut below = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => below.push(entry.path()),
            false => names.push(entry.file_name().into_string().unwrap()),
        }
    }
    names.extend(below.iter().flat_map(|path| walk(path)));
    names
}

/// Makes this thread one that wants names alone.
fn want_names(mount: &UnionMount) {
    (0..5).for_each(|number| _ = walk(&mount.path(&format!("d{number}"))));
}

/// The names in a directory that the kernel may have kept, sorted.
fn names(mount: &UnionMount, directory: &str) -> Vec<String> {
    let mut names = walk(&mount.path(directory));
    names.sort();
    names
}

/// Walks until the kernel has kept all listings of directories without subdirectories.
fn warm(mount: &UnionMount) {
    let start = Instant::now();
    loop {
        let (_, reads) = mount.requests(|| want_names(mount));
        if reads == 0 {
            return;
        }
        assert!(start.elapsed() < LONG, "the kernel still reads directories");
    }
}

/// Waits until the listing of a directory may be kept. The kernel reads nothing.
fn settle(mount: &UnionMount, directory: &str) {
    let node = mount.union.look_up(NodeId::ROOT, directory.as_bytes()).unwrap().node;
    let start = Instant::now();
    while mount.union.list(node).unwrap().id.is_none() {
        assert!(start.elapsed() < LONG, "{directory} changes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_walk_for_names_asks_for_no_files() {
    let Some(mount) = tree() else { return };
    let walked = || assert_eq!(walk(mount.root()).len() as u64, DIRECTORIES * FILES);
    let asked = mount.asked(walked);
    // The files of the first directory, which shows that nobody wants attributes.
    let (directories, files) = (DIRECTORIES * BRANCHES, FILES);
    assert!(asked <= 2 * directories + files, "{asked}");
}

#[test]
fn a_walk_for_attributes_asks_for_each_file_once() {
    let Some(mount) = tree() else { return };
    let stat = |directory: &Path| {
        let mut entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
        assert!(entries.all(|entry| entry.metadata().unwrap().len() > 0));
    };
    let directories: Vec<_> = (0..DIRECTORIES).map(|n| mount.path(&format!("d{n}"))).collect();
    directories.iter().for_each(|directory| _ = directory.metadata().unwrap());
    let (lookups, _) = mount.requests(|| directories.iter().for_each(|path| stat(path)));
    // The probes, and once more the directories if this took a second.
    assert!(lookups <= DIRECTORIES / 2 + DIRECTORIES, "{lookups}");
    let asked = mount.asked(|| directories.iter().for_each(|path| stat(path)));
    assert!(asked <= DIRECTORIES * FILES + 3 * DIRECTORIES * BRANCHES, "{asked}");
}

#[test]
fn names_without_attributes_have_them_when_they_are_wanted() {
    let Some(mount) = tree() else { return };
    want_names(&mount);
    for file in fs::read_dir(mount.path("d7")).unwrap() {
        let file = file.unwrap();
        assert!(file.file_type().unwrap().is_file());
        assert_eq!(file.metadata().unwrap().len(), 1);
        let ino = |entry: &fs::DirEntry| std::os::unix::fs::DirEntryExt::ino(entry);
        let stat = std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
        assert_eq!(ino(&file), stat);
    }
}

#[test]
fn a_directory_that_the_kernel_keeps_shows_changes_on_a_branch() {
    let Some(mount) = tree() else { return };
    // The time that the mount shows is the latest of all copies: the kernel sees no other one.
    for directory in ["d3", "d4"] {
        let future = SystemTime::now() + Duration::from_secs(1 << 20);
        File::open(mount.branch(0).join(directory)).unwrap().set_modified(future).unwrap();
    }
    warm(&mount);
    let branch = mount.branch(2);
    let has = |name: &str| {
        want_names(&mount);
        names(&mount, "d3").contains(&name.to_owned())
    };
    fs::write(branch.join("d3/direct"), "").unwrap();
    assert!(has("direct"));
    warm(&mount);
    // Not read until the changed listing could be kept, too.
    fs::rename(branch.join("d3/direct"), branch.join("d3/renamed")).unwrap();
    settle(&mount, "d3");
    assert!(has("renamed") && !has("direct"));
    warm(&mount);
    fs::rename(branch.join("d3/renamed"), branch.join("d4/renamed")).unwrap();
    settle(&mount, "d3");
    assert!(!has("renamed") && names(&mount, "d4").contains(&"renamed".to_owned()));
    warm(&mount);
    fs::remove_file(branch.join("d4/renamed")).unwrap();
    settle(&mount, "d4");
    want_names(&mount);
    assert_eq!(names(&mount, "d4").len() as u64, FILES);
    // Twice in one tick of the clock, and listed between.
    for number in 0..20 {
        let name = format!("fast{number}");
        fs::write(branch.join("d3").join(&name), "").unwrap();
        assert!(has(&name));
        fs::remove_file(branch.join("d3").join(&name)).unwrap();
        assert!(!has(&name));
    }
}

#[test]
fn a_file_that_moved_to_another_branch_is_listed_once() {
    let Some(mount) = tree() else { return };
    warm(&mount);
    let before = names(&mount, "d3");
    for name in 0..8 {
        let (from, to) = (mount.branch(name % BRANCHES), mount.branch((name + 1) % BRANCHES));
        fs::rename(from.join(format!("d3/{name}")), to.join(format!("d3/{name}"))).unwrap();
        assert_eq!(names(&mount, "d3"), before);
    }
    warm(&mount);
    // Hidden by one on an earlier branch: still one name.
    fs::write(mount.branch(0).join("d3/7"), "other").unwrap();
    assert_eq!(names(&mount, "d3"), before);
    fs::remove_dir_all(mount.branch(3).join("d3")).unwrap();
    assert!(names(&mount, "d3").len() < before.len());
}

#[test]
fn a_directory_that_the_kernel_keeps_shows_changes_through_the_mount() {
    let Some(mount) = tree() else { return };
    let path = |name: &str| mount.path(&format!("d3/{name}"));
    let run = |program: &str, names: &[&str]| {
        let status = Command::new(program).args(names.iter().map(|name| path(name))).status();
        assert!(status.unwrap().success());
    };
    let has = |name: &str| names(&mount, "d3").contains(&name.to_owned());
    warm(&mount);
    File::create_new(path("new")).unwrap();
    assert!(has("new"));
    warm(&mount);
    fs::rename(path("new"), path("renamed")).unwrap();
    assert!(has("renamed") && !has("new"));
    warm(&mount);
    run("mv", &["renamed", "by another"]);
    assert!(has("by another") && !has("renamed"));
    warm(&mount);
    run("rm", &["by another"]);
    assert!(!has("by another"));
    warm(&mount);
    run("touch", &["touched"]);
    assert!(has("touched"));
    warm(&mount);
    fs::create_dir(path("sub")).unwrap();
    File::create_new(path("sub/deep")).unwrap();
    assert!(has("deep"));
    let (one, other) = (path("0"), path("sub"));
    rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
    assert!(has("deep") && has("sub"));
    assert!(path("0").is_dir() && path("sub").is_file());
}

/// Reads on in an open directory, in small steps. Adds the names of files.
fn read_on(
    fd: &rustix::fd::OwnedFd,
    buffer: &mut [MaybeUninit<u8>],
    seen: &mut Vec<String>,
) -> bool {
    let mut step = RawDir::new(fd, buffer);
    let mut any = false;
    while let Some(entry) = step.next() {
        let entry = entry.unwrap();
        any = true;
        if entry.file_type() == FileType::RegularFile {
            seen.push(entry.file_name().to_str().unwrap().to_owned());
        }
        if step.is_buffer_empty() {
            break;
        }
    }
    any
}

#[test]
fn a_reader_gets_each_name_once_while_others_remove_and_list() {
    let Some(mount) = tree() else { return };
    warm(&mount);
    want_names(&mount);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let open = || rustix::fs::open(mount.path("d3"), flags, Mode::empty()).unwrap();
    // Both use what the kernel has kept.
    let (reader, other) = (open(), open());
    let mut buffer = [MaybeUninit::uninit(); 512];
    let mut seen = Vec::new();
    assert!(read_on(&reader, &mut buffer, &mut seen));
    assert!((4..FILES as usize).contains(&seen.len()), "{}", seen.len());
    // The kernel then drops it, and keeps what the other one reads.
    seen.iter().for_each(|name| fs::remove_file(mount.path("d3").join(name)).unwrap());
    let mut left = Vec::new();
    while read_on(&other, &mut buffer, &mut left) {}
    assert_eq!(left.len() + seen.len(), FILES as usize);
    while read_on(&reader, &mut buffer, &mut seen) {}
    let once: HashSet<_> = seen.iter().collect();
    assert_eq!((once.len(), seen.len()), (FILES as usize, FILES as usize), "{seen:?}");
    // Of two readings nothing is kept, nor of names that were removed.
    drop((reader, other));
    settle(&mount, "d3");
    want_names(&mount);
    left.sort();
    assert_eq!(names(&mount, "d3"), left);
}
