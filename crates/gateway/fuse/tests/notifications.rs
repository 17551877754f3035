//! What the kernel keeps is dropped when it is told, and telling it takes no directory's lock.
#![cfg(target_os = "linux")]

mod harness;

use braid_fuse::kernel::abi::{fopen, notify, opcode};
use braid_fuse::kernel::{INVALIDATORS_MAX, Operation};
use harness::{FILE, Fate, LONG, Memory, ROOT, SUB, TestMount};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// With names and attributes that last; `None` where the kernel is too old or cannot mount.
fn cached(open_flags: u32) -> Option<TestMount> {
    let mut memory = Memory::cached();
    memory.open_flags = open_flags;
    let mount = TestMount::new(memory)?;
    if !mount.mounted.kernel().inc_epoch() {
        println!("skipped: this kernel has no FUSE_NOTIFY_INC_EPOCH (7.44)");
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
fn pages_last_over_opens_until_they_are_invalidated() {
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

#[test]
fn names_and_absent_names_last_until_the_epoch_rises() {
    let Some(mount) = cached(0) else { return };
    let there = |name: &str| fs::metadata(mount.path(name)).is_ok();
    assert_eq!((there("file"), there("renamed")), (true, false));
    mount.memory.set_name(FILE, "renamed");
    assert_eq!((there("file"), there("renamed")), (true, false), "from the kernel's memory");
    mount.memory.notifier().inc_epoch().unwrap();
    assert_eq!((there("file"), there("renamed")), (false, true));
    let asked = mount.memory.seen(opcode::LOOKUP);
    assert_eq!((there("file"), there("renamed")), (false, true));
    assert_eq!(mount.memory.seen(opcode::LOOKUP), asked, "and they last again");
}

#[test]
fn a_directory_in_use_stays_the_same_over_a_new_epoch() {
    let Some(mount) = cached(0) else { return };
    fs::write(mount.path("sub/leaf"), "leaf").unwrap();
    let inside = fs::File::open(mount.path("sub")).unwrap();
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&inside));
    mount.memory.notifier().inc_epoch().unwrap();
    assert!(fs::metadata(mount.path("sub/leaf")).is_ok());
    assert_eq!(fs::read(format!("{link}/leaf")).unwrap(), b"leaf");
    assert_eq!(fs::read_link(link).unwrap(), mount.path("sub"), "not marked as deleted");
}

#[test]
fn notifications_for_what_the_kernel_does_not_have_are_no_error() {
    let Some(mount) = cached(0) else { return };
    mount.memory.notifier().inval_inode(4711, 0, 0).unwrap();
    mount.memory.notifier().inval_attributes(4711).unwrap();
}

/// Runs a notification on a thread; its kernel id first, then a word when it has returned.
fn beside(work: impl FnOnce() + Send + 'static) -> (u32, Receiver<()>) {
    let ((id, ids), (done, waiting)) = (channel(), channel());
    std::thread::spawn(move || {
        id.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        work();
        let _ = done.send(());
    });
    (ids.recv().unwrap(), waiting)
}

/// Whether it sleeps where nothing but what it waits for ends it.
fn is_deep(thread: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('D'))
}

/// Whether the thread is seen to sleep for good inside the kernel (D) before it is done.
fn is_stuck(thread: u32, done: &Receiver<()>) -> bool {
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        if done.try_recv().is_ok() {
            return false;
        }
        if is_deep(thread) {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// INVAL_ENTRY takes the directory's lock, which a create in this kernel holds while its answer is
/// waited for. A recall that did so would wait for a create that waits for another machine's recall.
#[test]
fn a_create_that_waits_stops_inval_entry_and_neither_inc_epoch_nor_inval_inode() {
    let Some(mount) = cached(0) else { return };
    assert!(fs::metadata(mount.path("sub")).is_ok());
    mount.memory.gate.rule(|request| match request.operation {
        Operation::Create { .. } => Fate::Hold,
        _ => Fate::Serve,
    });
    let path = mount.path("new");
    let create = std::thread::spawn(move || fs::File::create(path).map(drop));
    mount.memory.gate.wait_held(1);

    let notifier = mount.memory.notifier().clone();
    notifier.inc_epoch().unwrap();
    notifier.inval_attributes(ROOT).unwrap();
    notifier.inval_inode(ROOT, 0, 0).unwrap();
    notifier.inval_attributes(SUB).unwrap();
    assert_eq!(mount.memory.gate.held(), 1, "the create still waits");

    // fuse_notify_inval_entry_out: parent, length of the name, flags; the name with NUL.
    let mut payload = ROOT.to_ne_bytes().to_vec();
    payload.extend(3u32.to_ne_bytes().into_iter().chain([0; 4]).chain(*b"sub\0"));
    let (thread, done) = beside(move || notifier.send(notify::INVAL_ENTRY, &payload).unwrap_or_default());
    assert!(is_stuck(thread, &done), "INVAL_ENTRY went on beside a create: the design may use it");
    mount.memory.gate.open();
    done.recv_timeout(LONG).unwrap();
    create.join().unwrap().unwrap();
}

#[test]
fn invalidating_pages_waits_for_a_read_under_way_and_attributes_do_not() {
    let Some(mount) = cached(fopen::KEEP_CACHE) else { return };
    mount.memory.gate.rule(|request| match request.operation {
        Operation::Read { .. } => Fate::Hold,
        _ => Fate::Serve,
    });
    let file = fs::File::open(mount.path("file")).unwrap();
    let read = std::thread::spawn(move || file.read_at(&mut [0; 4], 0).unwrap());
    mount.memory.gate.wait_held(1);
    let notifier = mount.memory.notifier().clone();
    notifier.inval_attributes(FILE).unwrap();
    let (thread, done) = beside(move || notifier.inval_inode(FILE, 0, 0).unwrap());
    assert!(is_stuck(thread, &done), "pages were dropped beside a read of them");
    mount.memory.gate.open();
    done.recv_timeout(LONG).unwrap();
    assert_eq!(read.join().unwrap(), 4);
}

#[test]
fn pages_are_dropped_for_any_thread_and_one_that_is_held_stops_no_other() {
    let Some(mount) = cached(fopen::KEEP_CACHE) else { return };
    fs::write(mount.path("other"), "first content").unwrap();
    let (open, other) = (fs::File::open(mount.path("file")).unwrap(), fs::File::open(mount.path("other")).unwrap());
    let node = other.metadata().unwrap().ino();
    assert_eq!(other.read_at(&mut [0; 13], 0).unwrap(), 13);
    mount.memory.set_content(node, "other content");
    mount.memory.gate.rule(|request| match request.operation {
        Operation::Read { .. } if request.header.node == FILE => Fate::Hold,
        _ => Fate::Serve,
    });
    let read = std::thread::spawn(move || open.read_at(&mut [0; 4], 0).unwrap());
    mount.memory.gate.wait_held(1);

    // Enough to hold every thread but one, and then one more that is let through.
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
        assert!(!is_deep(*thread), "who asks for it can be killed");
    }
    mount.memory.gate.open();
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
