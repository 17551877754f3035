//! Notifications drop the kernel's caches; what else they affect, and what they wait for.
#![cfg(target_os = "linux")]

use crate::harness::{FILE, Fate, LONG, Memory, ROOT, SUB, TestMount};
use braid_fuse::kernel::abi::{fopen, notify, opcode};
use braid_fuse::kernel::{Expiry, INVALIDATORS_MAX, Operation};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A mount with cacheable names and attributes; `None` where the kernel is too old or cannot mount.
fn cached(open_flags: u32) -> Option<TestMount> {
    let mut memory = Memory::cached();
    memory.open_flags = open_flags;
    let mount = TestMount::new(memory)?;
    if !mount.mounted.kernel().expires_names() {
        println!("skipped: this kernel has no FUSE_EXPIRE_ONLY (7.38)");
        return None;
    }
    Some(mount)
}

#[test]
fn attributes_last_until_they_are_invalidated() {
    let Some(mount) = cached(0) else { return };
    let size = || fs::metadata(mount.path("file")).unwrap().len();
    assert_eq!(size(), 13);
    mount.memory.set_content(FILE, "longer than before");
    assert_eq!(size(), 13, "from the kernel's memory");
    mount.memory.notifier().inval_attributes(FILE).unwrap();
    assert_eq!(size(), 18);
    let asked = mount.memory.seen(opcode::GETATTR);
    assert_eq!((size(), mount.memory.seen(opcode::GETATTR)), (18, asked));
}

#[test]
fn pages_stay_cached_over_opens_until_they_are_invalidated() {
    let Some(mount) = cached(fopen::KEEP_CACHE) else { return };
    let content = || fs::read(mount.path("file")).unwrap();
    assert_eq!(content(), b"first content");
    mount.memory.set_content(FILE, "other content");
    assert_eq!(content(), b"first content", "from the kernel's memory");
    mount.memory.notifier().inval_attributes(FILE).unwrap();
    assert_eq!(content(), b"first content", "pages are not attributes");
    mount.memory.notifier().inval_inode(FILE, 0, 0).unwrap();
    assert_eq!(content(), b"other content");
}

/// Names in the root and their nodes.
fn expiry(names: &[&str], files: &[u64]) -> Expiry {
    let names = names.iter().map(|name| name.as_bytes().into()).collect();
    Expiry { directory: ROOT, names, files: files.to_vec(), not_before: None }
}

/// Expires names in the root, and waits for it.
fn expire(mount: &TestMount, names: &[&str]) {
    mount.memory.notifier().expire(expiry(names, &[])).wait_for(LONG).unwrap().unwrap();
}

#[test]
fn names_and_negative_entries_are_cached_until_they_are_expired() {
    let Some(mount) = cached(0) else { return };
    let there = |name: &str| fs::metadata(mount.path(name)).is_ok();
    assert_eq!((there("file"), there("renamed")), (true, false));
    mount.memory.set_name(FILE, "renamed");
    assert_eq!((there("file"), there("renamed")), (true, false), "from the kernel's memory");
    expire(&mount, &["file", "renamed"]);
    assert_eq!((there("file"), there("renamed")), (false, true));
    let asked = mount.memory.seen(opcode::LOOKUP);
    assert_eq!((there("file"), there("renamed")), (false, true));
    assert_eq!(mount.memory.seen(opcode::LOOKUP), asked, "and they are cached again");
}

/// Calls a function while a lookup of an expired name waits for its reply.
fn while_looked_up<R>(mount: &TestMount, name: &'static str, then: impl FnOnce() -> R) -> R {
    mount.memory.barrier.rule(move |request| match request.operation {
        Operation::Lookup { name: asked } if asked == name.as_bytes() => Fate::Hold,
        _ => Fate::Serve,
    });
    let path = mount.path(name);
    let looks = std::thread::spawn(move || fs::metadata(path).map(drop));
    mount.memory.barrier.wait_held(1);
    let result = then();
    mount.memory.barrier.open();
    looks.join().unwrap().unwrap();
    result
}

/// The path of an open directory in /proc: it ends with " (deleted)" while its name is unhashed.
fn name_of(directory: &fs::File) -> std::path::PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(directory))).unwrap()
}

#[test]
fn files_in_use_keep_their_names_during_a_lookup_after_expiry() {
    let Some(mount) = cached(0) else { return };
    let inside = fs::File::open(mount.path("sub")).unwrap();
    expire(&mount, &["sub"]);
    let seen = while_looked_up(&mount, "sub", || name_of(&inside));
    assert_eq!((seen, name_of(&inside)), (mount.path("sub"), mount.path("sub")));
}

/// Why a recall does not use a new epoch.
#[test]
fn a_lookup_after_a_new_epoch_shows_files_in_use_as_deleted() {
    let Some(mount) = cached(0) else { return };
    if mount.mounted.kernel().minor < 44 {
        println!("skipped: this kernel has no FUSE_NOTIFY_INC_EPOCH (7.44)");
        return;
    }
    let inside = fs::File::open(mount.path("sub")).unwrap();
    mount.memory.notifier().send(notify::INC_EPOCH, &[]).unwrap();
    let seen = while_looked_up(&mount, "sub", || name_of(&inside));
    assert!(seen.ends_with("sub (deleted)"), "{}: the design may use epochs", seen.display());
    assert_eq!(name_of(&inside), mount.path("sub"), "only for that moment");
}

/// Whether a mount below a name survives another lookup of the name. `None`, and the reason
/// printed, where nothing may be mounted.
fn mounted_below(end: impl FnOnce(&TestMount)) -> Option<bool> {
    let mount = cached(0)?;
    let (below, elsewhere) = (mount.path("sub"), tempfile::tempdir().unwrap());
    fs::write(elsewhere.path().join("mark"), "").unwrap();
    if let Err(error) = rustix::mount::mount_bind(elsewhere.path(), &below) {
        println!("skipped: nothing may be mounted here: {error}");
        return None;
    }
    end(&mount);
    fs::metadata(&below).unwrap();
    let stays = below.join("mark").exists();
    let _ = rustix::mount::unmount(&below, rustix::mount::UnmountFlags::DETACH);
    Some(stays)
}

#[test]
fn an_expired_name_keeps_mounts_below_it_and_a_new_epoch_does_not() {
    let Some(stays) = mounted_below(|mount| expire(mount, &["sub"])) else { return };
    assert!(stays, "the mount below an expired name is gone");
    let stays =
        mounted_below(|mount| _ = mount.memory.notifier().send(notify::INC_EPOCH, &[])).unwrap();
    assert!(!stays, "a new epoch unmounts nothing: the design may use it");
}

#[test]
fn notifications_for_unknown_nodes_are_no_error() {
    let Some(mount) = cached(0) else { return };
    mount.memory.notifier().inval_inode(4711, 0, 0).unwrap();
    mount.memory.notifier().inval_attributes(4711).unwrap();
}

/// Runs a notification on a thread, which reports its kernel id, and later that it has returned.
fn beside(work: impl FnOnce() + Send + 'static) -> (u32, Receiver<()>) {
    let ((id, ids), (done, waiting)) = (channel(), channel());
    std::thread::spawn(move || {
        id.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        work();
        let _ = done.send(());
    });
    (ids.recv().unwrap(), waiting)
}

/// Whether a thread is in an uninterruptible sleep (D).
fn is_deep(thread: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('D'))
}

/// Whether the thread stays in an uninterruptible sleep (D) and does not finish.
fn is_stuck(thread: u32, done: &Receiver<()>) -> bool {
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        if done.try_recv().is_ok() {
            return false;
        }
        if is_deep(thread) {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    false
}

/// Expiring a name takes the directory's lock, which a create in this kernel holds until its reply.
/// So a recall waits for it no longer than it chooses.
#[test]
fn a_pending_create_delays_only_the_expiry_of_names() {
    let Some(mount) = cached(0) else { return };
    assert!(fs::metadata(mount.path("sub")).is_ok());
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Create { .. } => Fate::Hold,
        _ => Fate::Serve,
    });
    let path = mount.path("new");
    let create = std::thread::spawn(move || fs::File::create(path).map(drop));
    mount.memory.barrier.wait_held(1);

    let notifier = mount.memory.notifier().clone();
    notifier.inval_attributes(ROOT).unwrap();
    notifier.inval_inode(ROOT, 0, 0).unwrap();
    notifier.inval_attributes(SUB).unwrap();
    let expiring = notifier.expire(expiry(&["sub"], &[]));
    assert!(
        expiring.wait_for(Duration::from_millis(100)).is_none(),
        "it did not wait for a create: the design may wait"
    );
    assert_eq!(mount.memory.barrier.held(), 1, "the create still waits");
    let asked = mount.memory.seen(opcode::LOOKUP);
    mount.memory.barrier.open();
    expiring.wait_for(LONG).unwrap().unwrap();
    create.join().unwrap().unwrap();
    assert!(fs::metadata(mount.path("sub")).is_ok());
    assert_eq!(mount.memory.seen(opcode::LOOKUP), asked + 1, "it is done once the create is");
}

/// The attributes in the reply to a create belong to a node that the kernel does not have before.
/// Dropping them in between has no effect. They are dropped once more when the directory's lock is
/// free, when the node exists.
#[test]
fn attributes_of_a_file_being_created_are_dropped_once_it_exists() {
    for names in [vec!["new"], vec![]] {
        let Some(mount) = cached(0) else { return };
        mount.memory.barrier.rule(|request| match request.operation {
            Operation::Create { .. } => Fate::Hold,
            _ => Fate::Serve,
        });
        let path = mount.path("new");
        let create = std::thread::spawn(move || fs::File::create(path).unwrap());
        mount.memory.barrier.wait_held(1);
        let (notifier, node) = (mount.memory.notifier().clone(), SUB.max(FILE) + 1);
        notifier.inval_attributes(node).unwrap();
        let expiring = notifier.expire(expiry(&names, &[node]));
        assert!(expiring.wait_for(Duration::from_millis(50)).is_none());
        assert_eq!(expiring.sent(), 0);
        mount.memory.barrier.open();
        let made = create.join().unwrap();
        expiring.wait_for(LONG).unwrap().unwrap();
        mount.memory.set_content(node, "written by another");
        assert_eq!(made.metadata().unwrap().len(), 18, "{names:?}");
    }
}

/// As a recall does while many programs each create a file in their own directory.
#[test]
fn locked_directories_do_not_delay_the_expiry_of_others() {
    const HELD: usize = 24;
    let Some(mount) = cached(0) else { return };
    let directories: Vec<_> =
        (0..HELD).map(|number| mount.path(&format!("held{number}"))).collect();
    let nodes: Vec<u64> = directories
        .iter()
        .map(|directory| {
            fs::create_dir(directory).unwrap();
            fs::metadata(directory).unwrap().ino()
        })
        .collect();
    assert!(fs::metadata(mount.path("sub")).is_ok());
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Create { .. } => Fate::Hold,
        _ => Fate::Serve,
    });
    let creates: Vec<_> = directories
        .iter()
        .map(|directory| {
            let path = directory.join("new");
            std::thread::spawn(move || fs::File::create(path).map(drop))
        })
        .collect();
    mount.memory.barrier.wait_held(HELD);
    let notifier = mount.memory.notifier().clone();
    let held: Vec<_> = nodes
        .iter()
        .map(|node| notifier.expire(Expiry { directory: *node, ..expiry(&["a"], &[]) }))
        .collect();
    expire(&mount, &["sub"]);
    let asked = mount.memory.seen(opcode::LOOKUP);
    assert!(fs::metadata(mount.path("sub")).is_ok());
    assert_eq!(mount.memory.seen(opcode::LOOKUP), asked + 1);
    assert!(
        held.iter().all(|one| one.wait_for(Duration::ZERO).is_none()),
        "the design may wait for them"
    );
    mount.memory.barrier.open();
    creates.into_iter().for_each(|create| create.join().unwrap().unwrap());
    held.iter().for_each(|one| one.wait_for(LONG).unwrap().unwrap());
}

#[test]
fn invalidating_pages_waits_for_a_running_read_and_attributes_do_not() {
    let Some(mount) = cached(fopen::KEEP_CACHE) else { return };
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Read { .. } => Fate::Hold,
        _ => Fate::Serve,
    });
    let file = fs::File::open(mount.path("file")).unwrap();
    let read = std::thread::spawn(move || file.read_at(&mut [0; 4], 0).unwrap());
    mount.memory.barrier.wait_held(1);
    let notifier = mount.memory.notifier().clone();
    notifier.inval_attributes(FILE).unwrap();
    let (thread, done) = beside(move || notifier.inval_inode(FILE, 0, 0).unwrap());
    assert!(is_stuck(thread, &done), "pages were dropped beside a read of them");
    mount.memory.barrier.open();
    done.recv_timeout(LONG).unwrap();
    assert_eq!(read.join().unwrap(), 4);
}

#[test]
fn a_blocked_drop_of_pages_delays_no_other() {
    let Some(mount) = cached(fopen::KEEP_CACHE) else { return };
    fs::write(mount.path("other"), "first content").unwrap();
    let (open, other) =
        (fs::File::open(mount.path("file")).unwrap(), fs::File::open(mount.path("other")).unwrap());
    let node = other.metadata().unwrap().ino();
    assert_eq!(other.read_at(&mut [0; 13], 0).unwrap(), 13);
    mount.memory.set_content(node, "other content");
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Read { .. } if request.header.node == FILE => Fate::Hold,
        _ => Fate::Serve,
    });
    let read = std::thread::spawn(move || open.read_at(&mut [0; 4], 0).unwrap());
    mount.memory.barrier.wait_held(1);

    // Enough to block all threads but one, and then one more that is released.
    let held: Vec<_> = (1..INVALIDATORS_MAX)
        .map(|_| {
            let notifier = mount.memory.notifier().clone();
            beside(move || notifier.drop_pages(FILE, 0, 0).unwrap())
        })
        .collect();
    mount.memory.notifier().drop_pages(node, 0, 0).unwrap();
    let mut content = [0; 13];
    other.read_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"other content");
    for (thread, done) in &held {
        assert!(done.try_recv().is_err(), "pages were dropped beside a read of them");
        assert!(!is_deep(*thread), "the calling thread can be killed");
    }
    mount.memory.barrier.open();
    held.iter().for_each(|(_, done)| done.recv_timeout(LONG).unwrap());
    assert_eq!(read.join().unwrap(), 4);
}

#[test]
fn a_range_of_pages_is_dropped_and_the_others_stay() {
    const PAGE: u64 = 4096;
    let Some(mount) = cached(fopen::KEEP_CACHE) else { return };
    let file = fs::File::options().read(true).write(true).open(mount.path("file")).unwrap();
    let pages = |byte: u8| vec![byte; 3 * PAGE as usize];
    file.write_at(&pages(b'1'), 0).unwrap();
    let seen = || {
        let byte = |page: u64| {
            let mut byte = [0];
            file.read_at(&mut byte, page * PAGE).unwrap();
            byte[0] as char
        };
        [byte(0), byte(1), byte(2)]
    };
    assert_eq!(seen(), ['1', '1', '1']);
    mount.memory.set_content(FILE, pages(b'2'));
    mount.memory.notifier().drop_pages(FILE, PAGE, PAGE).unwrap();
    assert_eq!(seen(), ['1', '2', '1']);
    mount.memory.notifier().drop_pages(FILE, u64::MAX, 1).unwrap();
    assert_eq!(seen(), ['1', '2', '1'], "behind every file");
    mount.memory.notifier().drop_pages(FILE, 2 * PAGE, u64::MAX).unwrap();
    assert_eq!(seen(), ['1', '2', '2']);
}
