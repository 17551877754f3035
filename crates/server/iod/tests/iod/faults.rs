//! A disk that fails, and a daemon that continues.

use std::{sync::Arc, thread, time::Duration};

use braid_iod::IodCore;
use braid_store::{DiskOp, Fault, FaultPlan, LocalOptions, LocalStore};
use braid_types::{ClusterUuid, ConnectionId, IodId, SessionId, Status};
use braid_wire::message::{iod::Fence, mds::SessionRange};

use super::harness::*;

#[test]
fn a_full_disk_is_reported_to_the_writer_and_the_daemon_continues() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 3), b"abc").unwrap();
    core.store().faults().fail_always(DiskOp::Write, Fault::NoSpace);
    let failure =
        client.write(&capability, contiguous(3, 1 << 20), &pattern(1 << 20, 1)).unwrap_err();
    assert_eq!(failure.status, Status::NoSpace);
    assert!(!failure.detail.is_empty(), "it says where");
    assert_eq!(client.read(&capability, contiguous(0, 3)).unwrap().payload, b"abc");
    core.store().faults().clear();
    client.write(&capability, contiguous(0, 3), b"xyz").unwrap();
}

#[test]
fn a_read_error_half_way_is_an_error_and_not_a_dead_connection() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 1 << 20), &pattern(1 << 20, 1)).unwrap();
    core.store().faults().fail_nth(DiskOp::Read, 3, Fault::Eio);
    assert_eq!(refusal(client.read(&capability, contiguous(0, 1 << 20))), Status::DiskError);
    assert_eq!(
        client.read(&capability, contiguous(0, 1 << 20)).unwrap().payload,
        pattern(1 << 20, 1)
    );
}

#[test]
fn a_read_error_in_the_final_frame_is_not_reported_as_success() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 100), &[1; 100]).unwrap();
    core.store().faults().fail_nth(DiskOp::Read, 1, Fault::Eio);
    assert_eq!(refusal(client.read(&capability, contiguous(0, 100))), Status::DiskError);
}

#[test]
fn a_read_only_disk_still_reads() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 3), b"abc").unwrap();
    core.store().faults().fail_always(DiskOp::Write, Fault::ReadOnly);
    assert_eq!(refusal(client.write(&capability, contiguous(0, 1), b"x")), Status::ReadOnly);
    assert_eq!(client.read(&capability, contiguous(0, 3)).unwrap().payload, b"abc");
}

struct Release<'a>(&'a FaultPlan);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[test]
fn a_write_that_is_stuck_in_the_disk_holds_up_its_own_fence_alone() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = ClusterUuid([9; 16]);
    LocalStore::init(dir.path(), cluster, Some(IodId(1))).unwrap();
    let faults = Arc::new(FaultPlan::default());
    let options = LocalOptions { faults: Some(faults.clone()), ..LocalOptions::default() };
    let store = Arc::new(LocalStore::open(dir.path(), cluster, options).unwrap());
    let core = &IodCore::new(store, server_key(), NOW);
    core.fence(&Fence { sessions: Vec::new(), fence: 0, epoch_min: EPOCH });
    core.serve_until(Some(NOW + SERVES_FOR));
    let capability = capability(striped([1]));
    let client = |id| Client::over(core, SESSION, ConnectionId([id; 16]));
    client(1).write(&capability, contiguous(0, 3), b"abc").unwrap();
    faults.hold(DiskOp::Write);
    thread::scope(|scope| {
        let stuck = scope.spawn(|| client(2).write(&capability, contiguous(0, 3), b"xyz"));
        faults.wait_for_held_operation();
        // Also after a failed assertion: the scope waits for the write.
        let _release = Release(&faults);
        // One thread does all of this while the write waits: reads of the same object, heartbeats,
        // a new client.
        let mut reader = client(3);
        for heartbeat in 1..3 {
            assert!(core.try_fence_ranges(&[], EPOCH), "nothing changed: nothing to wait for");
            core.serve_until(Some(NOW + SERVES_FOR + Duration::from_secs(heartbeat)));
            assert!(core.heartbeat_info().is_ok() && core.serves(NOW + SERVES_FOR));
            assert_eq!(reader.read(&capability, contiguous(0, 3)).unwrap().payload, b"abc");
        }
        let other = SessionId(SESSION.0 + 1);
        core.fence(&Fence { sessions: vec![other], fence: 1, epoch_min: EPOCH });
        assert_eq!(reader.read(&capability, contiguous(0, 3)).unwrap().payload, b"abc");
        // Its own session is refused immediately; the fence holds when the write has ended (I4).
        let own = [SessionRange { first: SESSION, last: SESSION }];
        assert!(!core.try_fence_ranges(&own, EPOCH));
        assert_eq!(refusal(reader.read(&capability, contiguous(0, 3))), Status::Fenced);
        faults.release();
        stuck.join().unwrap().unwrap();
        assert!(core.try_fence_ranges(&own, EPOCH));
    });
}
