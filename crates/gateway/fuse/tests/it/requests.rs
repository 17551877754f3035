//! A mount continues to serve whatever happens to single requests: the pool, lost replies, panics,
//! the end.
#![cfg(target_os = "linux")]

use crate::harness::{FILE, Fate, Memory, SUB, TestMount, ended, process};
use braid_fuse::kernel::abi::{fopen, opcode};
use braid_fuse::kernel::mount::{
    MountError, MountOptions, Mounted, Unmount, UnmountError, unmount,
};
use braid_fuse::kernel::uring::IoUring;
use braid_fuse::kernel::{Features, Operation, PoolOptions};
use rustix::io::Errno;
use std::fs;
use std::sync::Arc;

fn errno<T>(result: std::io::Result<T>) -> Option<Errno> {
    result.err().and_then(|error| Errno::from_io_error(&error))
}

#[test]
fn files_are_made_written_read_and_listed() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    let large: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    fs::write(mount.path("large"), &large).unwrap();
    assert_eq!(fs::read(mount.path("large")).unwrap(), large);
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"first content");
    let mut names: Vec<_> =
        fs::read_dir(mount.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file", "large", "sub"]);
    assert_eq!(errno(fs::read(mount.path("none"))), Some(Errno::NOENT));
}

#[test]
fn requests_of_a_mebibyte_are_agreed_on() {
    let mut memory = Memory::new();
    memory.open_flags = fopen::DIRECT_IO;
    let Some(mount) = TestMount::new(memory) else { return };
    mount.memory.set_content(FILE, vec![1; 1 << 20]);
    assert_eq!(fs::read(mount.path("file")).unwrap().len(), 1 << 20);
    // One read of the content, and at most two that find the end.
    assert!(
        mount.memory.seen(opcode::READ) <= 3,
        "{} reads of 1 MiB",
        mount.memory.seen(opcode::READ)
    );
    assert!(mount.mounted.features().contains(Features::MAX_PAGES | Features::SETXATTR_EXT));
}

#[test]
fn with_a_hundred_waiting_requests_the_next_one_is_served() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Lookup { name } if name.starts_with(b"wait") => Fate::Hold,
        _ => Fate::Serve,
    });
    let paths: Vec<_> = (0..100).map(|n| mount.path(&format!("wait{n}"))).collect();
    std::thread::scope(|scope| {
        for path in &paths {
            scope.spawn(move || assert_eq!(errno(fs::metadata(path)), Some(Errno::NOENT)));
        }
        mount.memory.barrier.wait_held(100);
        assert!(mount.mounted.workers() > 100, "{} workers", mount.mounted.workers());
        assert_eq!(fs::read(mount.path("file")).unwrap(), b"first content");
        mount.memory.barrier.open();
    });
}

#[test]
fn at_the_limit_requests_wait_in_the_kernel_and_are_served_later() {
    let pool = PoolOptions { workers_max: 3, ..PoolOptions::default() };
    // Over io_uring each processor has its own workers.
    let Some(mount) = TestMount::over(IoUring::Off, Memory::new(), pool) else { return };
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Lookup { name } if name.starts_with(b"wait") => Fate::Hold,
        _ => Fate::Serve,
    });
    let paths: Vec<_> = (0..10).map(|n| mount.path(&format!("wait{n}"))).collect();
    std::thread::scope(|scope| {
        for path in &paths {
            scope.spawn(move || assert_eq!(errno(fs::metadata(path)), Some(Errno::NOENT)));
        }
        mount.memory.barrier.wait_held(3);
        assert_eq!(mount.mounted.workers(), 3);
        mount.memory.barrier.open();
    });
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"first content");
}

#[test]
fn with_a_descriptor_for_each_worker_requests_are_served_too() {
    let pool = PoolOptions { clone_fd: true, ..PoolOptions::default() };
    let Some(mount) = TestMount::with(Memory::new(), pool) else { return };
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Lookup { name } if name.starts_with(b"wait") => Fate::Hold,
        _ => Fate::Serve,
    });
    let paths: Vec<_> = (0..8).map(|n| mount.path(&format!("wait{n}"))).collect();
    std::thread::scope(|scope| {
        for path in &paths {
            scope.spawn(move || assert_eq!(errno(fs::metadata(path)), Some(Errno::NOENT)));
        }
        mount.memory.barrier.wait_held(8);
        assert_eq!(fs::read(mount.path("file")).unwrap(), b"first content");
        mount.memory.barrier.open();
    });
}

#[test]
fn a_dropped_reply_is_an_input_output_error() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Lookup { name: b"file" } => Fate::Drop,
        _ => Fate::Serve,
    });
    assert_eq!(errno(fs::metadata(mount.path("file"))), Some(Errno::IO));
    assert!(fs::metadata(mount.path("sub")).is_ok());
}

#[test]
fn a_handler_that_panics_fails_its_request_alone() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Lookup { name: b"panic" } => Fate::Panic,
        _ => Fate::Serve,
    });
    for _ in 0..20 {
        assert_eq!(errno(fs::metadata(mount.path("panic"))), Some(Errno::IO));
    }
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"first content");
}

#[test]
fn an_unmount_from_outside_ends_the_serving() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    unmount(mount.root(), Unmount::Plain).unwrap();
    mount.mounted.wait();
    assert_eq!(mount.memory.destroyed_times(), 1);
    assert!(matches!(unmount(mount.root(), Unmount::Plain), Err(UnmountError::NotMounted { .. })));
}

#[test]
fn processes_that_use_a_mount_are_named_and_a_lazy_unmount_works() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    let file = fs::File::open(mount.path("file")).unwrap();
    let busy = mount.mounted.unmount().unwrap_err();
    assert!(matches!(busy, UnmountError::Busy { .. }), "{busy}");
    assert!(busy.to_string().contains(&format!("({})", std::process::id())), "{busy}");
    unmount(mount.root(), Unmount::Lazy).unwrap();
    assert_eq!(fs::read_dir(mount.root()).unwrap().count(), 0, "it is removed from the tree");
    assert!(file.metadata().is_ok(), "an open file continues to work");
    drop(file);
    mount.mounted.wait();
}

#[test]
fn a_mount_ends_while_a_request_waits_for_ever() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Lookup { name: b"wait" } => Fate::HoldUntilKilled,
        _ => Fate::Serve,
    });
    let waiting = process("stat", &[mount.path("wait").to_str().unwrap()]);
    mount.memory.barrier.wait_held(1);
    mount.mounted.end();
    assert_eq!(braid_fuse::kernel::mount::entry_at(mount.root()).unwrap(), None);
    // The waiting process ends with its reply, or with the connection, which ends with this
    // process.
    mount.memory.barrier.open();
    assert!(ended(waiting).is_some());
}

#[test]
fn a_mount_point_in_use_or_not_a_directory_is_refused_with_advice() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    let again = |point: &std::path::Path| {
        Mounted::new(
            &MountOptions::new("memory", point),
            PoolOptions::default(),
            Arc::new(Memory::new()),
        )
    };
    let error = again(mount.root()).unwrap_err();
    assert!(matches!(error, MountError::Mounted { .. }), "{error}");
    assert!(error.to_string().contains("try: braid umount"), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(again(file.path()), Err(MountError::Point { .. })));
    assert!(matches!(again("/no/such/place".as_ref()), Err(MountError::Point { .. })));
}

#[test]
fn a_link_to_a_mount_point_stands_for_it() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(mount.root(), &link).unwrap();
    let options = MountOptions::new("memory", &link);
    let again = Mounted::new(&options, PoolOptions::default(), Arc::new(Memory::new()));
    assert!(matches!(again, Err(MountError::Mounted { .. })));
    unmount(&link, Unmount::Plain).unwrap();
    mount.mounted.wait();
}

#[test]
fn another_file_system_is_not_unmounted() {
    let error = unmount("/proc".as_ref(), Unmount::Lazy).unwrap_err();
    assert!(matches!(&error, UnmountError::NotOurs { kind, .. } if kind == "proc"), "{error}");
    let error = unmount("/tmp/..".as_ref(), Unmount::Plain).unwrap_err();
    assert!(
        matches!(error, UnmountError::NotOurs { .. } | UnmountError::NotMounted { .. }),
        "{error}"
    );
}

#[test]
fn directories_go_into_directories() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    fs::create_dir(mount.path("sub/deep")).unwrap();
    fs::write(mount.path("sub/deep/leaf"), "leaf").unwrap();
    assert_eq!(fs::read(mount.path("sub/deep/leaf")).unwrap(), b"leaf");
    assert_eq!(std::os::unix::fs::MetadataExt::ino(&fs::metadata(mount.path("sub")).unwrap()), SUB);
}
