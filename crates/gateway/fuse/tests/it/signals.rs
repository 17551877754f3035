//! A process that waits for a reply can be killed, and a signal that it handles does not end its
//! wait.
#![cfg(target_os = "linux")]

use crate::harness::{FILE, Fate, Memory, TestMount, ended, process};
use braid_fuse::kernel::{Operation, PoolOptions};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// A mount on which the lookup of `wait` waits until its process is being killed.
fn waiting_mount(pool: PoolOptions) -> Option<TestMount> {
    let mount = TestMount::with(Memory::new(), pool)?;
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Lookup { name: b"wait" } => Fate::HoldUntilKilled,
        _ => Fate::Serve,
    });
    Some(mount)
}

fn killed_at_once(pool: PoolOptions, with: Signal) {
    let Some(mount) = waiting_mount(pool) else { return };
    // The parent of the tests may have it ignored, as shells do with QUIT for background jobs.
    let default = format!("--default-signal={}", with.as_raw());
    let path = mount.path("wait");
    let arguments = [&default, "stat", path.to_str().unwrap()];
    let child = process("env", &arguments[if with == Signal::KILL { 1 } else { 0 }..]);
    mount.memory.barrier.wait_held(1);
    signal(&child, with);
    assert_eq!(ended(child).and_then(|status| status.signal()), Some(with.as_raw()));
    assert_eq!(mount.memory.barrier.held(), 0);
}

#[test]
fn a_process_that_waits_for_a_reply_can_be_killed() {
    killed_at_once(PoolOptions::default(), Signal::KILL);
}

#[test]
fn a_process_that_waits_for_a_reply_can_be_terminated() {
    killed_at_once(PoolOptions::default(), Signal::TERM);
}

#[test]
fn a_process_that_waits_for_a_reply_can_be_quit() {
    killed_at_once(PoolOptions::default(), Signal::QUIT);
}

#[test]
fn a_process_can_be_killed_where_each_worker_has_a_descriptor() {
    killed_at_once(PoolOptions { clone_fd: true, ..PoolOptions::default() }, Signal::KILL);
}

#[test]
fn a_handled_signal_ends_no_wait_and_a_later_kill_does() {
    let Some(mount) = waiting_mount(PoolOptions::default()) else { return };
    let script = format!("trap : USR1; read -r x < {}", mount.path("wait").display());
    let child = process("bash", &["-c", &script]);
    mount.memory.barrier.wait_held(1);
    signal(&child, Signal::USR1);
    mount.memory.barrier.wait_signals(1);
    assert_eq!(mount.memory.barrier.held(), 1, "the wait continues");
    // The kernel does not report this signal.
    signal(&child, Signal::KILL);
    assert_eq!(ended(child).and_then(|status| status.signal()), Some(Signal::KILL.as_raw()));
}

#[test]
fn a_signal_ends_the_wait_for_a_lock() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::SetLock { wait: true, lock } if lock.flock && request.header.node == FILE => {
            Fate::Hold
        }
        _ => Fate::Serve,
    });
    let script = format!("exec 9< {}; exec flock 9", mount.path("file").display());
    let child = process("bash", &["-c", &script]);
    mount.memory.barrier.wait_held(1);
    signal(&child, Signal::TERM);
    assert!(ended(child).is_some_and(|status| !status.success()));
    assert_eq!(mount.memory.barrier.held(), 0);
}

#[test]
fn a_killed_process_ends_though_its_handler_never_checks_signals() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Lookup { name: b"wait" } => Fate::HoldDeaf,
        _ => Fate::Serve,
    });
    let child = process("stat", &[mount.path("wait").to_str().unwrap()]);
    mount.memory.barrier.wait_held(1);
    signal(&child, Signal::KILL);
    assert_eq!(ended(child).and_then(|status| status.signal()), Some(Signal::KILL.as_raw()));
    assert_eq!(mount.memory.barrier.held(), 1, "the handler has not answered yet");
    mount.memory.barrier.open();
    assert!(std::fs::metadata(mount.path("file")).is_ok());
}

#[test]
fn a_change_is_waited_for_even_by_the_killed() {
    let Some(mount) = TestMount::new(Memory::new()) else { return };
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::MakeDirectory { .. } | Operation::Lookup { name: b"beside" } => Fate::HoldDeaf,
        _ => Fate::Serve,
    });
    let child = process("mkdir", &[mount.path("sub/made").to_str().unwrap()]);
    mount.memory.barrier.wait_held(1);
    signal(&child, Signal::KILL);
    // A second process that ends shows that the watcher has checked meanwhile.
    let beside = process("stat", &[mount.path("beside").to_str().unwrap()]);
    mount.memory.barrier.wait_held(2);
    signal(&beside, Signal::KILL);
    assert!(ended(beside).is_some());
    let state = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    assert!(!state.contains(") Z "), "it ended before its change: {state}");
    mount.memory.barrier.open();
    assert!(ended(child).is_some());
    assert!(std::fs::metadata(mount.path("sub/made")).is_ok());
}

#[test]
fn many_waiting_processes_all_end_when_they_are_killed() {
    let Some(mount) = waiting_mount(PoolOptions::default()) else { return };
    let path = mount.path("wait");
    let children: Vec<Child> =
        (0..30).map(|_| process("stat", &[path.to_str().unwrap()])).collect();
    // Lookups of one name wait for each other in the kernel, which sends one for all of them.
    mount.memory.barrier.wait_held(1);
    for child in &children {
        signal(child, Signal::KILL);
    }
    for child in children {
        assert!(ended(child).is_some());
    }
}
