//! Clients of versions that are not served.

use std::fs;

use braid_nfs_wire::{
    nfs4::{ArgOp, NFS_PROGRAM, NfsStatus},
    rpc::message::{AcceptStatus, ReplyBody},
};
use braid_testbed::{nfs::RpcConnection, wait::wait_for};

use super::NfsProcesses;

/// mountd(8).
const MOUNT_PROGRAM: u32 = 100_005;

#[test]
fn versions_3_and_4_0_are_refused_and_the_log_says_what_to_do() {
    let processes = NfsProcesses::start(1, 1);
    let gateway = &processes.gateways[0];
    let mut old = RpcConnection::connect(gateway.address).unwrap();
    for version in [2, 3] {
        old.send((NFS_PROGRAM, version, 0), |_| {}).unwrap();
        let (body, _) = old.receive().unwrap();
        let ReplyBody::Accepted { status, .. } = body else { panic!("{body:?}") };
        assert_eq!(status, AcceptStatus::ProgramMismatch { low: 4, high: 4 });
    }
    let mut old = RpcConnection::connect(gateway.address).unwrap();
    old.minor_version = 0;
    let (status, results) = old.compound(&[ArgOp::PutRootFh]).unwrap();
    assert_eq!((status, results.len()), (NfsStatus::MinorVersMismatch, 0));
    let mut old = RpcConnection::connect(gateway.address).unwrap();
    old.send((MOUNT_PROGRAM, 3, 0), |_| {}).unwrap();
    let (body, _) = old.receive().unwrap();
    let ReplyBody::Accepted { status, .. } = body else { panic!("{body:?}") };
    assert_eq!(status, AcceptStatus::ProgramUnavailable);
    wait_for("three lines in the log", || {
        let log = fs::read_to_string(&gateway.log).unwrap();
        let lines: Vec<_> = log.lines().filter(|line| line.contains("vers=4.2")).collect();
        lines.len() == 3
            && lines[0].contains("version 2")
            && lines[1].contains("version 4.0")
            && lines[2].contains("MOUNT protocol")
    });
}
