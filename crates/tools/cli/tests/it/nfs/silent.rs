//! Clients that are silent, and gateways that do not answer.

use std::time::Duration;

use braid_nfs_wire::nfs4::StableHow;
use braid_testbed::wait::until;
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};

use super::NfsProcesses;

/// Longer than a lease, what a gateway waits after it, and any delay of a busy machine.
const LOCK_FREE_MAX: Duration = Duration::from_secs(60);

#[test]
fn locks_of_a_dead_client_end_for_clients_of_other_gateways() {
    // The shortest lease that a gateway accepts.
    let processes = NfsProcesses::start_with(1, 2, "3s");
    let mut dead = processes.mount(0, "dead");
    let root = dead.root.clone();
    let mut file = dead.open(&root, "f", true).unwrap();
    assert!(dead.lock(&mut file, 0, 10).unwrap());
    drop(dead);

    let mut other = processes.mount(1, "other");
    let mut file = other.open(&root, "f", false).unwrap();
    assert!(!other.lock(&mut file, 0, 1).unwrap(), "its lease has not passed");
    // Each turn renews the lease of this client.
    until("the lock of the dead client ends", LOCK_FREE_MAX, || Ok(other.lock(&mut file, 0, 1)?))
        .unwrap();
}

#[test]
fn a_gateway_that_is_stopped_does_not_stop_clients_of_others() {
    let processes = NfsProcesses::start(1, 2);
    let (mut first, mut second) = (processes.mount(0, "first"), processes.mount(1, "second"));
    let root = first.root.clone();
    let file = first.open(&root, "f", true).unwrap();
    let stopped = Pid::from_raw(processes.gateways[0].process.pid().cast_signed()).unwrap();
    kill_process(stopped, Signal::STOP).unwrap();
    let other = second.open(&root, "f", false).unwrap();
    let data = Bytes::from_static(b"written meanwhile");
    second.write(&other, 0, data.clone(), StableHow::FileSync).unwrap();
    second.rename(&root, "f", "g").unwrap();
    kill_process(stopped, Signal::CONT).unwrap();
    assert_eq!(first.read(&file, 0, 100).unwrap(), data);
    first.close(&file).unwrap();
}
