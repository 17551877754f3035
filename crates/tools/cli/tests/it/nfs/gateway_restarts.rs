//! A gateway is killed, or stopped, and started again: its clients reclaim what they had, and
//! nobody else gets it meanwhile. ADR 0040.

use std::time::{Duration, Instant};

use braid_nfs_wire::nfs4::{NfsStatus, ShareAccess, ShareDeny, StableHow, args::*};
use braid_testbed::nfs::{NfsError, NfsFile, NfsMount};
use bytes::Bytes;

use super::NfsProcesses;

const DENY_WRITE: (ShareAccess, ShareDeny) = (ShareAccess::BOTH, ShareDeny::WRITE);

/// A client of gateway 0 that has "f" open, denies others to write it, and has a lock on 100 bytes;
/// and that has a file open that was removed.
fn start(processes: &NfsProcesses) -> (NfsMount, NfsFile, NfsFile) {
    let mut mount = processes.mount(0, "client");
    let root = mount.root.clone();
    let made = mount.open(&root, "f", true).unwrap();
    mount.close(&made).unwrap();
    let mut file = mount.open_as(&root, "f", OpenHow::NoCreate, DENY_WRITE).unwrap();
    let bytes = Bytes::from_static(b"before");
    mount.write(&file, 0, bytes, StableHow::Unstable).unwrap();
    assert!(mount.lock(&mut file, 0, 100).unwrap());
    let removed = mount.open(&root, "removed", true).unwrap();
    mount.write(&removed, 0, Bytes::from_static(b"here"), StableHow::Unstable).unwrap();
    mount.remove(&root, "removed").unwrap();
    (mount, file, removed)
}

fn status<T>(done: Result<T, NfsError>) -> Option<NfsStatus> {
    done.err().and_then(|error| error.status())
}

/// A client of gateway 1 can neither write "f" nor lock it.
#[track_caller]
fn expect_held(processes: &NfsProcesses, name: &str) {
    let mut other = processes.mount(1, name);
    let root = other.root.clone();
    let writes = (ShareAccess::WRITE, ShareDeny::NONE);
    let refused = other.open_as(&root, "f", OpenHow::NoCreate, writes);
    assert_eq!(status(refused), Some(NfsStatus::ShareDenied));
    let reads = (ShareAccess::READ, ShareDeny::NONE);
    let file = other.open_as(&root, "f", OpenHow::NoCreate, reads).unwrap();
    assert!(is_locked(&mut other, &file), "the lock of the first client was free: {name}");
    other.close(&file).unwrap();
}

/// Whether another owner has a lock of the first bytes.
fn is_locked(mount: &mut NfsMount, file: &NfsFile) -> bool {
    !mount.may_lock(file, 0, 1).unwrap()
}

/// Reclaims everything and checks that it is what it was.
#[track_caller]
fn reclaim(
    processes: &NfsProcesses,
    (mount, file, removed): (&mut NfsMount, &mut NfsFile, &mut NfsFile),
    content: &[u8],
) {
    let stale = mount.session.reconnect().map_err(NfsError::from);
    let stale = stale.and_then(|()| mount.read(file, 0, 1));
    assert_eq!(status(stale), Some(NfsStatus::BadSession));
    mount.begin_again(processes.gateways[0].address).unwrap();
    mount.reclaim_open(file, DENY_WRITE).unwrap();
    mount.reclaim_lock(file, 0, 100).unwrap();
    mount.reclaim_open(removed, (ShareAccess::BOTH, ShareDeny::NONE)).unwrap();
    mount.session.reclaim_complete().unwrap();
    assert_eq!(mount.read(file, 0, 100).unwrap(), content);
    assert_eq!(mount.read(removed, 0, 100).unwrap(), &b"here"[..]);
}

fn write_and_release(processes: &NfsProcesses, mount: &mut NfsMount, mut file: NfsFile) {
    mount.write(&file, 0, Bytes::from_static(b"after "), StableHow::FileSync).unwrap();
    mount.unlock(&mut file, 0, 100).unwrap();
    mount.close(&file).unwrap();
    let mut other = processes.mount(1, "heir");
    let root = other.root.clone();
    let mut file = other.open(&root, "f", false).unwrap();
    assert!(other.lock(&mut file, 0, 100).unwrap());
    assert_eq!(other.read(&file, 0, 100).unwrap(), &b"after "[..]);
}

#[test]
fn clients_reclaim_opens_and_locks_when_the_gateway_is_killed() {
    let mut processes = NfsProcesses::start(2, 2);
    let (mut mount, mut file, mut removed) = start(&processes);
    for round in 0..2 {
        processes.gateways[0].process.kill();
        expect_held(&processes, &format!("while it is away {round}"));
        processes.restart_gateway(0);
        expect_held(&processes, &format!("in the grace period {round}"));
        reclaim(&processes, (&mut mount, &mut file, &mut removed), b"before");
        expect_held(&processes, &format!("afterwards {round}"));
    }
    // What was adopted is reclaimed from the next start of the metadata server, too.
    processes.kill_mds();
    processes.restart_mds();
    expect_held(&processes, "after the metadata server");
    write_and_release(&processes, &mut mount, file);
}

#[test]
fn a_gateway_that_is_stopped_leaves_its_clients_to_the_next_start() {
    let mut processes = NfsProcesses::start(1, 2);
    let (mut mount, mut file, mut removed) = start(&processes);
    let pid = processes.gateways[0].process.pid();
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(processes.gateways[0].process.wait().unwrap().success());
    expect_held(&processes, "while it is away");
    processes.restart_gateway(0);
    reclaim(&processes, (&mut mount, &mut file, &mut removed), b"before");
    write_and_release(&processes, &mut mount, file);
}

#[test]
fn a_client_that_does_not_come_back_loses_its_opens_and_locks() {
    let mut processes = NfsProcesses::start_with(1, 2, "5s");
    let (mut mount, mut file, _) = start(&processes);
    processes.gateways[0].process.kill();
    let restarted = Instant::now();
    processes.restart_gateway(0);
    expect_held(&processes, "in the grace period");
    let mut other = processes.mount(1, "heir");
    let root = other.root.clone();
    let opened = loop {
        match other.open(&root, "f", false) {
            Ok(opened) => break opened,
            Err(error) => assert_eq!(error.status(), Some(NfsStatus::ShareDenied)),
        }
        assert!(restarted.elapsed() < Duration::from_secs(30), "the open stays");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(restarted.elapsed() > Duration::from_secs(4), "it ended before the grace period");
    assert!(!is_locked(&mut other, &opened));
    // It comes back too late.
    mount.begin_again(processes.gateways[0].address).unwrap();
    assert_eq!(status(mount.reclaim_open(&mut file, DENY_WRITE)), Some(NfsStatus::NoGrace));
}

#[test]
fn a_second_gateway_with_the_same_name_does_not_start() {
    let processes = NfsProcesses::start(1, 1);
    let address = processes.gateways[0].address;
    let config = processes.gateway_config();
    let mut second = crate::harness::braid();
    second.arg("--config").arg(config).args(["nfs", "--listen", &address.to_string()]);
    let output = second.output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("another gateway named"), "{text}");
    assert!(text.contains("stop the other gateway"), "{text}");
}
