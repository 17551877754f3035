//! Files that the kernel reads and writes by itself.

mod directory;

use crate::harness::LONG;
use crate::mappings::Mapping;
use braid_fuse::kernel::abi::{fopen, opcode};
use braid_fuse::kernel::{BackingError, Features, Validity};
use directory::{FROM_HANDLER, OnOpen, PassingMount};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

const PAGE: usize = 4096;

/// A mount with one file `file` of one page, or `None` where there is no passthrough.
fn one_file() -> Option<PassingMount> {
    let mount = PassingMount::new()?;
    fs::write(mount.handler.backing_path("file"), [b'a'; PAGE]).unwrap();
    Some(mount)
}

fn bytes_at(file: &File, at: u64) -> [u8; 8] {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at).unwrap();
    bytes
}

/// No READ or WRITE came to the handler.
#[track_caller]
fn assert_all_passed(mount: &PassingMount) {
    let [reads, writes] = [opcode::READ, opcode::WRITE].map(|code| mount.handler.seen(code));
    assert_eq!((reads, writes), (0, 0), "requests to the handler");
}

#[test]
fn reads_and_writes_go_to_the_backing_file() {
    let Some(mount) = one_file() else { return };
    let backing =
        OpenOptions::new().read(true).write(true).open(mount.handler.backing_path("file")).unwrap();
    let passed = mount.open("file").unwrap();
    assert_eq!(bytes_at(&passed, 8), [b'a'; 8]);
    passed.write_all_at(b"by mount", 16).unwrap();
    assert_eq!(&bytes_at(&backing, 16), b"by mount");
    backing.write_all_at(b"directly", 24).unwrap();
    assert_eq!(&bytes_at(&passed, 24), b"directly");

    let mut appending = OpenOptions::new().append(true).open(mount.path("file")).unwrap();
    appending.write_all(b"appended").unwrap();
    assert_eq!(&bytes_at(&backing, PAGE as u64), b"appended");
    assert_eq!(passed.metadata().unwrap().len(), PAGE as u64 + 8);

    let mut at = 16;
    let copy = tempfile::tempfile().unwrap();
    assert_eq!(rustix::fs::sendfile(&copy, &passed, Some(&mut at), 16).unwrap(), 16);
    assert_eq!((&bytes_at(&copy, 0), &bytes_at(&copy, 8)), (b"by mount", b"directly"));
    assert_all_passed(&mount);
}

#[test]
fn stores_through_a_mapping_go_to_the_backing_file() {
    let Some(mount) = one_file() else { return };
    let backing =
        OpenOptions::new().read(true).write(true).open(mount.handler.backing_path("file")).unwrap();
    let passed = mount.open("file").unwrap();
    let mapping = Mapping::of(&passed, PAGE);
    assert_eq!(mapping.load(0), u64::from_ne_bytes([b'a'; 8]));
    mapping.store(8, u64::from_ne_bytes(*b"mapping "));
    assert_eq!(&bytes_at(&backing, 8), b"mapping ");
    assert_eq!(&bytes_at(&passed, 8), b"mapping ");
    backing.write_all_at(b"directly", 16).unwrap();
    assert_eq!(mapping.load(16), u64::from_ne_bytes(*b"directly"));
    assert_all_passed(&mount);
}

#[test]
fn a_truncate_is_a_request_and_later_reads_see_it() {
    let Some(mount) = one_file() else { return };
    let passed = mount.open("file").unwrap();
    let before = mount.handler.seen(opcode::SETATTR);
    passed.set_len(5).unwrap();
    assert_eq!(mount.handler.seen(opcode::SETATTR), before + 1);
    assert_eq!(mount.handler.content("file"), b"aaaaa");
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"aaaaa");
    passed.write_all_at(b"b", 7).unwrap();
    assert_eq!(mount.handler.content("file"), b"aaaaa\0\0b");
    assert_eq!(passed.metadata().unwrap().len(), 8);
    assert_all_passed(&mount);
}

#[test]
fn a_created_file_is_passed_through() {
    let Some(mount) = PassingMount::new() else { return };
    let mut created = File::create(mount.path("new")).unwrap();
    assert_eq!(mount.handler.seen(opcode::CREATE), 1);
    created.write_all(b"content").unwrap();
    assert_eq!(mount.handler.content("new"), b"content");
    assert_eq!(fs::read(mount.path("new")).unwrap(), b"content");
    assert_all_passed(&mount);
}

#[test]
fn a_size_changed_directly_is_seen_when_attributes_are_dropped() {
    let Some(mount) = PassingMount::with(2, Validity::Always) else { return };
    let backing = File::create(mount.handler.backing_path("file")).unwrap();
    let passed = mount.open("file").unwrap();
    let size = || passed.metadata().unwrap().len();
    assert_eq!(size(), 0);
    backing.write_all_at(b"directly", 0).unwrap();
    assert_eq!(size(), 0, "the kernel has attributes without a time limit");
    mount.handler.notifier().inval_attributes(mount.handler.node("file")).unwrap();
    assert_eq!(size(), 8);
    // Passed writes and reads need no notification.
    passed.write_all_at(b"by mount", 8).unwrap();
    assert_eq!(size(), 16);
    backing.write_all_at(b"directly", 16).unwrap();
    assert_eq!(size(), 16);
    assert_eq!(&bytes_at(&passed, 16), b"directly");
    assert_eq!(size(), 24, "a read drops the access time, so that the kernel asks again");
    assert_all_passed(&mount);
}

#[test]
fn open_files_continue_to_work_after_their_id_is_closed() {
    let Some(mount) = one_file() else { return };
    let passed = mount.open("file").unwrap();
    mount.handler.close_id("file");
    passed.write_all_at(b"no more id", 0).unwrap();
    assert_eq!(&bytes_at(&passed, 0), b"no more ");
    assert!(mount.handler.content("file").starts_with(b"no more id"));
    // The handler registers the file again: that is another id.
    assert_eq!(mount.open_error("file"), Errno::IO);
    let released = mount.handler.seen(opcode::RELEASE);
    drop(passed);
    mount.handler.wait_seen(opcode::RELEASE, released + 1);
    assert_eq!(&bytes_at(&mount.open("file").unwrap(), 0), b"no more ");
    assert_all_passed(&mount);
}

#[test]
fn opens_that_break_the_rules_of_the_kernel_fail_with_eio() {
    let Some(mount) = one_file() else { return };
    let handler = &mount.handler;
    let passed = mount.open("file").unwrap();
    for (on_open, flags) in [
        (OnOpen::PassAnotherId, 0),
        (OnOpen::Serve, 0),
        (OnOpen::Serve, fopen::DIRECT_IO),
        (OnOpen::Pass, fopen::KEEP_CACHE),
        // Without an id.
        (OnOpen::Serve, fopen::PASSTHROUGH),
    ] {
        handler.on_open(on_open, flags);
        assert_eq!(mount.open_error("file"), Errno::IO, "{on_open:?} {flags}");
    }
    for flags in [0, fopen::DIRECT_IO, fopen::NOFLUSH] {
        handler.on_open(OnOpen::Pass, flags);
        drop(mount.open("file").unwrap());
    }
    // All opens that the handler has answered are released, those that failed too.
    drop(passed);
    handler.wait_seen(opcode::RELEASE, handler.seen(opcode::OPEN));
    handler.on_open(OnOpen::Serve, 0);
    let cached = mount.open("file").unwrap();
    handler.on_open(OnOpen::Pass, 0);
    assert_eq!(mount.open_error("file"), Errno::IO, "another open file uses the page cache");
    drop(cached);
    handler.wait_seen(opcode::RELEASE, handler.seen(opcode::OPEN));
    handler.on_open(OnOpen::Serve, fopen::DIRECT_IO);
    let direct = mount.open("file").unwrap();
    handler.on_open(OnOpen::Pass, 0);
    let passed = mount.open("file").unwrap();
    assert_eq!(&bytes_at(&direct, 0), b"from the", "before the file was passed through");
    assert_eq!(&bytes_at(&passed, 0), b"aaaaaaaa");
}

#[test]
fn with_direct_io_calls_are_requests_and_mappings_are_passed() {
    let Some(mount) = one_file() else { return };
    mount.handler.on_open(OnOpen::Pass, fopen::DIRECT_IO);
    let file = mount.open("file").unwrap();
    let mut bytes = [0; FROM_HANDLER.len()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!((&bytes[..], mount.handler.seen(opcode::READ)), (FROM_HANDLER, 1));
    file.write_all_at(b"to the handler", 0).unwrap();
    assert_eq!(mount.handler.written(), b"to the handler");
    assert_eq!(mount.handler.content("file"), [b'a'; PAGE]);

    let mapping = Mapping::of(&file, PAGE);
    assert_eq!(mapping.load(0), u64::from_ne_bytes([b'a'; 8]));
    mapping.store(0, u64::from_ne_bytes(*b"mapping "));
    assert!(mount.handler.content("file").starts_with(b"mapping aaaaaaaa"));
    let requests = [opcode::READ, opcode::WRITE].map(|code| mount.handler.seen(code));
    assert_eq!(requests, [1, 1], "the mapping made requests");
}

/// The reply to OPEN alone decides about access: why a handler must check it.
#[test]
fn a_file_registered_without_write_access_can_be_written() {
    let Some(mount) = one_file() else { return };
    let path = mount.handler.backing_path("file");
    let read_only = mount.backing().register(File::open(&path).unwrap()).unwrap();
    let without_access = rustix::fs::openat(CWD, &path, OFlags::PATH, Mode::empty()).unwrap();
    match mount.backing().register(&without_access) {
        Ok(other) => assert_ne!(other.id(), read_only.id(), "each registration has its own id"),
        Err(error) => assert_eq!(error, BackingError::Failed(Errno::BADF), "an older kernel"),
    }
    mount.handler.pass_with("file", read_only);
    mount.open("file").unwrap().write_all_at(b"written", 0).unwrap();
    assert!(mount.handler.content("file").starts_with(b"written"));
    assert_all_passed(&mount);
}

#[test]
fn files_that_are_not_regular_are_refused() {
    let Some(mount) = one_file() else { return };
    let directory = File::open(std::env::temp_dir()).unwrap();
    let device = File::open("/dev/null").unwrap();
    for file in [directory, device] {
        let refused = mount.backing().register(&file).unwrap_err();
        assert_eq!(refused, BackingError::NotRegularFile, "{file:?}");
    }
}

#[test]
fn a_thread_without_the_capability_registers_nothing() {
    let Some(mount) = one_file() else { return };
    let file = File::open(mount.handler.backing_path("file")).unwrap();
    let register = || {
        // Of this thread alone.
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::SYS_ADMIN);
        set_capabilities(None, sets).unwrap();
        mount.backing().register(&file).map(drop)
    };
    let refused = std::thread::scope(|scope| scope.spawn(register).join().unwrap());
    assert_eq!(refused, Err(BackingError::NotAllowed));
    mount.backing().register(&file).unwrap();
}

#[test]
fn a_backing_file_on_a_mount_with_passthrough_needs_depth_two() {
    let Some(below) = PassingMount::with(1, Validity::Never) else { return };
    fs::write(below.handler.backing_path("file"), [b'a'; PAGE]).unwrap();
    below.handler.on_open(OnOpen::Serve, fopen::DIRECT_IO);
    let file = below.open("file").unwrap();

    let one = PassingMount::with(1, Validity::Never).unwrap();
    assert_eq!(one.backing().register(&file).unwrap_err(), BackingError::TooDeep);
    let two = PassingMount::with(2, Validity::Never).unwrap();
    fs::write(two.handler.backing_path("file"), "").unwrap();
    two.handler.pass_with("file", two.backing().register(&file).unwrap());
    assert_eq!(&bytes_at(&two.open("file").unwrap(), 0), b"from the");
    assert_all_passed(&two);
    // The mount below cannot end while the one above uses its file.
    two.mounted.end();
    assert!(two.mounted.wait_for(LONG));
}

#[test]
fn without_passthrough_at_init_there_are_no_backing_files() {
    let write_back = Features::PASSTHROUGH | Features::WRITEBACK_CACHE;
    for (features, depth) in [(Features::default(), 1), (Features::PASSTHROUGH, 0), (write_back, 1)]
    {
        let Some(mount) = PassingMount::negotiated(features, depth, Validity::Never) else {
            return;
        };
        assert!(!mount.mounted.features().contains(Features::PASSTHROUGH), "{features}");
        assert!(mount.handler.notifier().backing_files().is_none(), "{features}");
        mount.handler.on_open(OnOpen::Serve, fopen::DIRECT_IO);
        fs::write(mount.handler.backing_path("file"), "").unwrap();
        let file = File::open(mount.path("file")).unwrap();
        assert_eq!(&bytes_at(&file, 0), b"from the");
    }
}
