//! FUSE over io_uring (docs/adr/0033): the tests of other modules pass over it, and tests of its
//! own properties.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Seek;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use braid_fuse::kernel::uring::{IoUring, NoIoUring, Transport};
use braid_fuse::kernel::{Operation, PoolOptions, abi};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{FILE, Fate, LONG, Memory, OVER, TestMount, ended, process};

/// A mount over io_uring; `None`, and the reason printed, where the kernel has none.
fn mount(memory: Memory) -> Option<TestMount> {
    TestMount::over(IoUring::On, memory, PoolOptions::default())
}

/// Holds the lookup of names that begin with `wait`, whatever happens.
fn holding(memory: Memory) -> Option<TestMount> {
    let mount = mount(memory)?;
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Lookup { name } if name.starts_with(b"wait") => Fate::HoldDeaf,
        _ => Fate::Serve,
    });
    Some(mount)
}

/// Modules whose tests do not depend on the transport, with the number of parallel tests. Tests
/// with a cluster in this process run in sequence: a new mount closes its copies of descriptors of
/// the others, and those closes wait for the others' servers. Not `pipe`: a ring has no descriptor
/// for a pipe. Not `mount`, which takes minutes on a busy machine.
const MODULES: [(&[&str], &str); 2] = [
    (&["requests::", "signals::", "killed::", "notifications::", "passthrough::"], "4"),
    (&["programs_calls::", "mappings::", "write_back::", "locks::"], "1"),
];
/// Each of them takes a fifth of that on a busy machine.
const ALL_OF_THEM: Duration = Duration::from_secs(300);
/// The least number of tests in these modules.
const TESTS_MIN: usize = 40;

#[test]
fn the_tests_of_mounts_hold_over_io_uring() {
    let Some(probe) = mount(Memory::new()) else { return };
    drop(probe);
    let tests: usize = MODULES.iter().map(|(modules, threads)| passed(modules, threads)).sum();
    println!("{tests} tests over io_uring");
    assert!(tests >= TESTS_MIN, "only {tests}");
}

/// Runs modules of this program again. Returns how many tests passed; all must.
fn passed(modules: &[&str], threads: &str) -> usize {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(modules).args(["--skip", "io_uring::", "--test-threads", threads]).env(OVER, "on");
    let mut log = tempfile::tempfile().unwrap();
    let said = || log.try_clone().unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(said()).stderr(said()).spawn().unwrap();
    let passed = within(&mut child, ALL_OF_THEM);
    log.rewind().unwrap();
    let text = std::io::read_to_string(log).unwrap();
    assert_eq!(passed, Some(true), "{text}");
    text.lines().filter(|line| line.ends_with("... ok")).count()
}

/// Whether a process succeeded; `None`: it had to be killed.
fn within(child: &mut Child, time: Duration) -> Option<bool> {
    let pid = Pid::from_child(child);
    let (done, ending) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || done.send(child.wait().unwrap().success()).unwrap());
        let ended = ending.recv_timeout(time).ok();
        if ended.is_none() {
            let _ = kill_process(pid, Signal::KILL);
        }
        ended
    })
}

#[test]
fn a_mount_says_how_its_requests_come() {
    let Some(off) = TestMount::over(IoUring::Off, Memory::new(), PoolOptions::default()) else {
        return;
    };
    assert_eq!(off.mounted.transport(), Transport::Device(NoIoUring::Off));
    assert_eq!(off.mounted.transport().to_string(), "/dev/fuse (io_uring=off)");
    let Some(on) = mount(Memory::new()) else { return };
    assert!(matches!(on.mounted.transport(), Transport::IoUring { queues } if queues >= 1));
    assert_eq!(fs::read(on.path("file")).unwrap(), b"first content");
}

#[test]
fn more_requests_wait_than_there_were_entries_and_others_are_served() {
    const WAITING: usize = 100;
    let Some(mount) = holding(Memory::new()) else { return };
    let paths: Vec<_> = (0..WAITING).map(|n| mount.path(&format!("wait{n}"))).collect();
    let children: Vec<Child> = paths
        .chunks(10)
        .map(|ten| process("stat", &ten.iter().map(|p| p.to_str().unwrap()).collect::<Vec<_>>()))
        .collect();
    // Each process asks for one name at a time.
    mount.memory.barrier.wait_held(WAITING / 10);
    thread::scope(|scope| {
        let (mount, threads) = (&mount, WAITING / 2);
        for n in 0..threads {
            scope.spawn(move || fs::metadata(mount.path(&format!("wait more {n}"))).unwrap_err());
        }
        let held = thread::spawn({
            let memory = std::sync::Arc::clone(&mount.memory);
            move || {
                memory.barrier.wait_held(WAITING / 10 + threads);
                memory
            }
        });
        // A failure must not leave the others waiting.
        let all = held.join();
        let read = all.is_ok().then(|| fs::read(mount.path("file")).unwrap());
        mount.memory.barrier.open();
        assert_eq!(read.as_deref(), Some(&b"first content"[..]), "not all requests were read");
    });
    for child in children {
        assert!(ended(child).is_some());
    }
}

#[test]
fn entries_of_the_killed_are_used_again() {
    let Some(mount) = holding(Memory::new()) else { return };
    for round in 1..=20 {
        let child = process("stat", &[mount.path(&format!("wait{round}")).to_str().unwrap()]);
        mount.memory.barrier.wait_held(round);
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        assert!(ended(child).is_some(), "round {round}");
        assert_eq!(fs::read(mount.path("file")).unwrap(), b"first content");
    }
    mount.memory.barrier.open();
    // The handlers return to entries that other workers have taken over.
    for _ in 0..200 {
        assert_eq!(fs::read(mount.path("file")).unwrap(), b"first content");
    }
}

#[test]
fn large_writes_and_reads_come_through_whole() {
    let Some(mount) = mount(Memory::new()) else { return };
    let bytes: Vec<u8> = (0..3_000_001u32).map(|at| ((at * 7) >> 3) as u8).collect();
    fs::write(mount.path("file"), &bytes).unwrap();
    assert!(mount.memory.content(FILE) == bytes);
    assert!(fs::read(mount.path("file")).unwrap() == bytes);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(fs::read(mount.path("file")).unwrap() == bytes));
        }
    });
}

#[test]
fn an_abort_ends_all_that_wait_and_the_mount() {
    let Some(mount) = holding(Memory::new()) else { return };
    let children: Vec<Child> = (0..20)
        .map(|n| process("stat", &[mount.path(&format!("wait{n}")).to_str().unwrap()]))
        .collect();
    mount.memory.barrier.wait_held(20);
    // As with the kernel's `fusectl`, and as at the end of a killed mount.
    mount.mounted.entry().unwrap().abort().unwrap().abort().unwrap();
    for child in children {
        assert!(ended(child).is_some_and(|status| !status.success()));
    }
    assert!(mount.mounted.wait_for(LONG));
    assert!(mount.memory.destroyed_times() == 1 && mount.memory.seen(abi::opcode::LOOKUP) >= 20);
}
