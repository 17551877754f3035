//! Direct changes on the branches of a mounted union, while the kernel keeps what it knows.

use crate::union::UnionMount;
use braid_union::NoticedChanges;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Without a notice the kernel would use what it has for an hour.
const PROMPT: Duration = Duration::from_secs(20);
/// Longer than names are valid without notices.
const SHORT: Duration = Duration::from_millis(1300);

/// Each branch has `d/sub`; files are on branch 1.
fn tree(branches: &[PathBuf]) {
    for branch in branches {
        fs::create_dir_all(branch.join("d/sub")).unwrap();
        fs::create_dir_all(branch.join("e")).unwrap();
    }
    for name in ["a", "b", "c", "sub/x", "sub/y"] {
        fs::write(branches[1].join("d").join(name), name).unwrap();
    }
    fs::hard_link(branches[1].join("d/a"), branches[1].join("e/link")).unwrap();
}

/// Changes something in the directory of a branch by another process: this one is the union's.
fn directly(branch: &Path, script: &str) {
    let status = Command::new("sh").arg("-ec").arg(script).current_dir(branch).status().unwrap();
    assert!(status.success(), "{script}");
}

fn sees(what: &str, mut seen: impl FnMut() -> bool) {
    let start = Instant::now();
    while !seen() {
        assert!(start.elapsed() < PROMPT, "not seen: {what}");
        std::thread::yield_now();
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Walks as `find -size`: all names and attributes.
fn walk(directory: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            paths.extend(walk(&path));
        }
        paths.push(path);
    }
    paths.sort();
    paths
}

/// Walks as `find`: names and kinds.
fn walk_names(directory: &Path) -> usize {
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let below = entry.file_type().unwrap().is_dir();
        1 + if below { walk_names(&entry.path()) } else { 0 }
    };
    fs::read_dir(directory).unwrap().map(entry).sum()
}

/// Walks until the kernel answers without a request.
fn warm(mount: &UnionMount, mut walk: impl FnMut()) {
    sees("a walk without requests", || mount.all_requests(&mut walk) == 0);
}

#[test]
fn a_warm_walk_asks_nothing_for_longer_than_a_second() {
    let Some(mount) = UnionMount::noticing(tree) else { return };
    warm(&mount, || _ = walk(mount.root()));
    warm(&mount, || _ = walk_names(mount.root()));
    let start = Instant::now();
    let (asked, read) = (mount.union.names_asked(), mount.union.listings_read());
    let mut walks = 0;
    while start.elapsed() < SHORT || walks < 2 {
        let requests = mount.all_requests(|| {
            assert_eq!(walk(mount.root()).len(), 9);
            assert_eq!(walk_names(mount.root()), 9);
            assert!(!mount.path("d/absent").exists() || walks == 0);
        });
        assert!(requests == 0 || walks == 0, "{requests}");
        walks += 1;
    }
    assert!(mount.union.names_asked() - asked <= 4, "the absent name");
    assert_eq!(mount.union.listings_read(), read);
}

#[test]
fn direct_changes_of_all_kinds_are_seen() {
    let Some(mount) = UnionMount::noticing(tree) else { return };
    let (one, other) = (mount.branch(1), mount.branch(0));
    let path = |name: &str| mount.path(name);
    let stat = |name: &str| fs::symlink_metadata(path(name)).unwrap();
    let has = |name: &str| fs::symlink_metadata(path(name)).is_ok();
    let warm = || warm(&mount, || _ = (walk(mount.root()), has("d/new"), has("e/new")));
    let list = |directory: &str| names(&path(directory));
    warm();
    directly(&one, "echo 1 > d/new");
    sees("a new file", || has("d/new") && list("d").contains(&"new".to_owned()));
    warm();
    directly(&one, "rm d/new");
    sees("a removed file", || !has("d/new") && !list("d").contains(&"new".to_owned()));
    warm();
    directly(&one, "mv d/b d/new");
    sees("a rename", || has("d/new") && !has("d/b") && list("d") == ["a", "c", "new", "sub"]);
    warm();
    directly(&one, "mv d/new e/new");
    sees("a rename elsewhere", || has("e/new") && !has("d/new") && list("e") == ["link", "new"]);
    warm();
    directly(&one, "chmod 612 d/c");
    sees("a mode", || stat("d/c").mode() & 0o777 == 0o612);
    warm();
    directly(&one, "chown 12:34 d/c");
    sees("an owner", || (stat("d/c").uid(), stat("d/c").gid()) == (12, 34));
    warm();
    directly(&one, "truncate -s 7000 d/c");
    sees("a size", || stat("d/c").len() == 7000);
    warm();
    directly(&one, "echo more >> d/c");
    sees("an append", || stat("d/c").len() == 7005);
    warm();
    directly(&one, "touch -d 2001-01-01T00:00:00Z d/c");
    sees("a time", || stat("d/c").mtime() == 978_307_200);
    warm();
    directly(&one, "echo other > e/temporary; mv e/temporary d/c");
    sees("a replaced file", || {
        fs::read(path("d/c")).unwrap() == b"other\n" && stat("d/c").len() == 6
    });
    warm();
    directly(&one, "echo through the other link > e/link");
    sees("a change by another link", || stat("d/a").len() == 23 && stat("e/link").len() == 23);
    warm();
    directly(&one, "ln d/a d/third; rm e/link");
    sees("links", || {
        has("d/third") && stat("d/third").nlink() == 2 && stat("d/a").nlink() == 2 && !has("e/link")
    });
    warm();
    directly(&one, "chmod 700 d; mkdir d/new");
    sees("a directory", || has("d/new") && stat("d/new").is_dir());
    // The mode of the first branch is shown.
    directly(&other, "chmod 711 d; touch -d 2040-01-01 d");
    sees("a directory's mode", || stat("d").mode() & 0o777 == 0o711 && stat("d").mtime() > 1 << 31);
    warm();
    directly(&one, "rmdir d/new");
    sees("a removed directory", || !has("d/new"));
    warm();
    directly(&other, "echo hides > d/c");
    sees("a file that hides another", || {
        stat("d/c").len() == 6 && fs::read(path("d/c")).unwrap() == b"hides\n"
    });
}

#[test]
fn a_tree_that_is_moved_into_a_branch_or_out_is_seen() {
    let Some(mount) = UnionMount::noticing(|branches| {
        fs::create_dir_all(branches[1].join("t/deep/er")).unwrap();
        fs::write(branches[1].join("t/deep/er/old"), "old").unwrap();
    }) else {
        return;
    };
    let branch = mount.branch(0);
    let outside = branch.parent().unwrap().join("outside");
    fs::create_dir_all(outside.join("t/deep/er")).unwrap();
    fs::write(outside.join("t/deep/er/new"), "new").unwrap();
    fs::write(outside.join("t/deep/er/old"), "hides it").unwrap();
    let size = |name: &str| fs::metadata(mount.path(name)).map(|stat| stat.len()).ok();
    let deep = |name: &str| size(&format!("t/deep/er/{name}"));
    for _ in 0..3 {
        warm(&mount, || _ = (walk(mount.root()), deep("new")));
        assert_eq!((deep("old"), deep("new")), (Some(3), None));
        directly(&branch, "mv ../outside/t t");
        sees("a tree", || (deep("old"), deep("new")) == (Some(8), Some(3)));
        sees("its names", || names(&mount.path("t/deep/er")) == ["new", "old"]);
        warm(&mount, || _ = walk(mount.root()));
        directly(&branch, "echo 12345 > t/deep/er/new");
        sees("a change in it", || deep("new") == Some(6));
        directly(&branch, "printf new > t/deep/er/new; mv t ../outside/t");
        sees("a tree that is gone", || (deep("old"), deep("new")) == (Some(3), None));
        sees("names that are gone", || names(&mount.path("t/deep/er")) == ["old"]);
    }
    // An empty directory on another branch, and a file in it that comes later.
    warm(&mount, || _ = (walk(mount.root()), deep("later")));
    directly(&mount.branch(2), "mkdir -p t/deep/er");
    directly(&mount.branch(2), "echo 1 > t/deep/er/later");
    sees("a file in a new copy of a directory", || deep("later") == Some(2));
}

#[test]
fn changes_through_the_mount_stay_right_while_the_kernel_keeps_names() {
    let Some(mount) = UnionMount::noticing(tree) else { return };
    let path = |name: &str| mount.path(name);
    warm(&mount, || _ = walk(mount.root()));
    let list = || names(&path("d"));
    fs::write(path("d/new"), "12345").unwrap();
    assert_eq!((list().len(), fs::metadata(path("d/new")).unwrap().len()), (5, 5));
    warm(&mount, || _ = walk(mount.root()));
    fs::rename(path("d/new"), path("e/new")).unwrap();
    assert_eq!((list().len(), names(&path("e"))), (4, vec!["link".into(), "new".into()]));
    fs::remove_file(path("e/new")).unwrap();
    assert_eq!(names(&path("e")), ["link"]);
    fs::remove_file(path("e/link")).unwrap();
    assert_eq!(fs::metadata(path("d/a")).unwrap().nlink(), 1);
    for n in 0..50 {
        let name = path(&format!("d/{n}"));
        assert!(!name.exists());
        fs::write(&name, "x").unwrap();
        assert_eq!(list().len(), 5);
        fs::remove_file(&name).unwrap();
        assert_eq!(list().len(), 4);
    }
    fs::create_dir(path("d/dir")).unwrap();
    assert_eq!(list(), ["a", "b", "c", "dir", "sub"]);
    fs::remove_dir(path("d/dir")).unwrap();
    assert_eq!(list(), ["a", "b", "c", "sub"]);
}

#[test]
fn a_change_that_meets_the_answers_of_lookups_is_not_lost() {
    const CHANGES: u64 = 150;
    let Some(mount) = UnionMount::noticing(tree) else { return };
    let ended = AtomicBool::new(false);
    let branch = mount.branch(1);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let _ = fs::metadata(mount.path("d/grows"));
                    let _ = fs::metadata(mount.path("d/moves"));
                    let _ = names(&mount.path("d"));
                }
            });
        }
        let size = |name: &str| fs::metadata(mount.path(name)).map(|stat| stat.len()).ok();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 1..=CHANGES {
                // Sizes and names change back and forth: each answer but the last is a wrong one.
                directly(
                    &branch,
                    &format!(
                        "printf x >> d/grows; mv d/grows d/moves; mv d/moves d/grows; \
                         truncate -s {number} d/grows; rm -f d/moves; \
                         [ {} = 0 ] || echo > d/moves",
                        number % 2
                    ),
                );
                let moves = (number % 2 == 1).then_some(1);
                sees("the last of several changes", || {
                    (size("d/grows"), size("d/moves")) == (Some(number), moves)
                        && names(&mount.path("d")).contains(&"moves".to_owned()) == moves.is_some()
                });
            }
        }));
        ended.store(true, Ordering::Relaxed);
        done.unwrap();
    });
    // And it stays so: no late answer brought an old one back.
    let start = Instant::now();
    while start.elapsed() < SHORT {
        assert_eq!(fs::metadata(mount.path("d/grows")).unwrap().len(), CHANGES);
    }
}

#[test]
fn too_many_changes_for_the_queue_are_seen_nevertheless() {
    let Some(mut mount) = UnionMount::over(tree) else { return };
    let blocked = Arc::new(Mutex::new(()));
    let (gate, served) = (Arc::clone(&blocked), Arc::downgrade(mount.served()));
    mount.union.set_on_notice(move |changes: &NoticedChanges| {
        drop(gate.lock().unwrap());
        served.upgrade().is_some_and(|served| served.notice(changes))
    });
    if mount.notice().is_none() {
        return;
    }
    warm(&mount, || _ = (walk(mount.root()), mount.path("d/late").exists()));
    let limit = fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events").unwrap();
    let limit: u64 = limit.trim().parse().unwrap();
    if limit > 100_000 {
        return println!("skipped: the queue has space for {limit} events");
    }
    let closed = blocked.lock().unwrap();
    let branch = mount.branch(1);
    directly(&branch, "touch d/first");
    directly(&branch, &format!("mkdir many; cd many; seq 1 {limit} | xargs touch"));
    // Their events are lost.
    directly(&branch, "echo 1 > d/late; rm d/a; truncate -s 99 d/b");
    assert!(fs::metadata(mount.path("d/a")).is_ok(), "nothing was notified yet");
    drop(closed);
    sees("what came after the overflow", || {
        mount.path("d/late").exists()
            && !mount.path("d/a").exists()
            && fs::metadata(mount.path("d/b")).unwrap().len() == 99
            && names(&mount.path("d")) == ["b", "c", "first", "late", "sub"]
    });
}

#[test]
fn stores_through_a_mapping_are_seen_in_a_second() {
    let Some(mount) = UnionMount::noticing(tree) else { return };
    let path = mount.path("d/c");
    warm(&mount, || _ = walk(mount.root()));
    let mtime = || fs::metadata(&path).unwrap().mtime();
    File::open(mount.branch(1).join("d/c")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    directly(&mount.branch(1), "touch -d 1970-01-01T00:00:00Z d/c");
    sees("the old time", || mtime() == 0);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    assert_eq!(mtime(), 0);
    // SAFETY: a new mapping of a page, which nothing else uses.
    unsafe {
        use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let page = mmap(std::ptr::null_mut(), 4096, access, MapFlags::SHARED, &file, 0).unwrap();
        page.cast::<u8>().write_volatile(b'X');
        msync(page, 4096, MsyncFlags::SYNC).unwrap();
        sees("the time of a store", || mtime() > 0);
        munmap(page, 4096).unwrap();
    }
}

#[test]
fn a_file_system_that_tells_nothing_is_asked_every_second() {
    let dir = tempfile::tempdir().unwrap();
    let made = ["lower", "upper", "work", "merged"].map(|name| dir.path().join(name));
    made.iter().for_each(|path| fs::create_dir(path).unwrap());
    let [lower, upper, work, merged] = made;
    let (l, u, w) = (lower.display(), upper.display(), work.display());
    let options = format!("lowerdir={l},upperdir={u},workdir={w}");
    let mount = |merged: &Path| {
        let mut mount = Command::new("mount");
        mount.args(["-t", "overlay", "-o", &options, "overlay"]).arg(merged).status()
    };
    if !mount(&merged).is_ok_and(|status| status.success()) {
        return println!("skipped: no overlayfs on this machine");
    }
    let done = std::panic::catch_unwind(|| overlay_is_asked(&merged));
    let status = Command::new("umount").arg(&merged).status().unwrap();
    assert!(status.success());
    done.unwrap();
}

/// `branch`: on overlayfs.
fn overlay_is_asked(branch: &Path) {
    let Some(mut mount) = UnionMount::over(tree) else { return };
    let disks = [(branch.to_owned(), braid_union::BranchMode::Rw)];
    mount.union.add_branches(&disks, Some(0)).unwrap();
    if mount.notice().is_none() {
        return;
    }
    let why = mount.union.branches().pop().unwrap().not_noticed.unwrap();
    assert!(why.contains("file system"), "{why}");
    let seen = |name: &str| mount.path(name).exists();
    assert!(!seen("new"));
    directly(branch, "touch new");
    sees("a new file", || seen("new"));
    // What only the others have is known for long.
    walk(&mount.path("d"));
    let requests = |call: &dyn Fn()| mount.all_requests(call);
    sees("a directory without requests", || {
        let start = Instant::now();
        let none = requests(&|| _ = walk_names(&mount.path("d/sub"))) == 0;
        none && start.elapsed() < SHORT
    });
    directly(branch, "mkdir -p d/sub; touch d/sub/new");
    sees("a file in a directory that the branch got", || seen("d/sub/new"));
    let error = fs::metadata(mount.path("absent")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_file_system_that_is_mounted_below_a_branch_is_seen() {
    let Some(mount) = UnionMount::noticing(tree) else { return };
    let below = mount.branch(1).join("e");
    let list = || names(&mount.path("e"));
    warm(&mount, || _ = (walk(mount.root()), mount.path("e/there").exists()));
    let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&below).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return println!("skipped: no tmpfs can be mounted on this machine");
    }
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        sees("an empty file system", || list().is_empty());
        assert!(!mount.path("e/there").exists());
        // Its changes come without events.
        directly(&below, "touch there");
        sees("a file in it", || mount.path("e/there").exists() && list() == ["there"]);
    }));
    // The union has the directory open.
    let status = Command::new("umount").arg("-l").arg(&below).status().unwrap();
    assert!(status.success());
    done.unwrap();
    sees("what it hid", || list() == ["link"] && !mount.path("e/there").exists());
}
