//! Programs that wait for locks. Each is a separate process, which a test can kill if the mount
//! does not answer it.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use crate::support::{Cluster, Mount, can_mount, wait_for};
use braid_fuse::kernel::PoolOptions;
use rustix::process::{Pid, Signal, kill_process};

const WAITERS: usize = 8;

/// A mount with fewer workers than waiting processes.
fn small(cluster: &Cluster) -> Mount {
    let mount = Mount::with(cluster, PoolOptions { workers_max: 4, ..PoolOptions::default() });
    fs::write(mount.path("f"), b"").unwrap();
    mount
}

/// A process that has the lock when this returns, until its input ends.
fn holder(file: &Path) -> Child {
    let mut command = Command::new("flock");
    let mut child =
        command.arg(file).arg("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

/// Processes that wait for the lock, and fail if two of them have it at the same time.
fn waiters(mount: &Mount) -> Vec<Child> {
    let alone = format!("mkdir {0} && rmdir {0}", mount.path("alone").display());
    let wants =
        || Command::new("flock").arg(mount.path("f")).args(["sh", "-c", &alone]).spawn().unwrap();
    let children: Vec<Child> = (0..WAITERS).map(|_| wants()).collect();
    wait_for(|| mount.lock_waits() == WAITERS);
    children
}

fn end(child: &mut Child) -> ExitStatus {
    wait_for(|| child.try_wait().unwrap().is_some());
    child.wait().unwrap()
}

#[test]
fn more_lock_waits_than_workers_delay_no_other_request() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(1);
    let mount = small(&cluster);
    let mut holder = holder(&mount.path("f"));
    let mut waiters = waiters(&mount);
    assert!(
        end(&mut Command::new("stat").arg(mount.path("f")).stdout(Stdio::null()).spawn().unwrap())
            .success()
    );
    let mut killed = waiters.pop().unwrap();
    kill_process(Pid::from_child(&killed), Signal::KILL).unwrap();
    assert_eq!(end(&mut killed).signal(), Some(Signal::KILL.as_raw()));
    wait_for(|| mount.lock_waits() == WAITERS - 1);
    drop(holder.stdin.take());
    assert!(end(&mut holder).success());
    for waiter in &mut waiters {
        assert!(end(waiter).success(), "each has had it alone");
    }
    assert_eq!(mount.lock_waits(), 0);
}

#[test]
fn waits_for_locks_end_with_the_mount() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(1);
    let mount = small(&cluster);
    let mut holder = holder(&mount.path("f"));
    let mut waiters = waiters(&mount);
    mount.tell_the_end();
    for waiter in &mut waiters {
        assert!(!end(waiter).success());
    }
    assert_eq!(mount.lock_waits(), 0);
    drop(holder.stdin.take());
    assert!(end(&mut holder).success());
}
