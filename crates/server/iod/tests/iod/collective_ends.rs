//! Collective requests that have finished, failed or been forgotten: what they still hold, and what
//! late tasks get.

use std::{path::Path, sync::Arc, time::Duration};

use braid_iod::IodCore;
use braid_store::{LocalOptions, LocalStore, MemStore, ObjectStore};
use braid_types::{
    ByteCount, ConnectionId, Failure, IodId, SessionId, SizeGeneration, Status,
    limits::{COLLECTIVE_IDLE_MS, COLLECTIVES_MAX, COLLECTIVES_OF_SESSION_MAX},
};
use braid_wire::{
    Capability,
    message::{
        collective::CollectiveKind,
        iod::{BeginCollective, Delete, JoinRead, JoinWrite},
    },
};

use super::{cluster::CLUSTER, collective::*, harness::*};

const IDLE: Duration = Duration::from_millis(COLLECTIVE_IDLE_MS);

fn writing(id: [u8; 16]) -> BeginCollective {
    collect(id, CollectiveKind::Write, &[SESSION, OTHER], 16)
}

/// One of two tasks joins late: why it fails.
fn late(core: &IodCore<MemStore>, id: [u8; 16]) -> Failure {
    let mut client = Client::over(core, OTHER, ConnectionId([99; 16]));
    let join = JoinWrite { collective: id, ..join_write(&of(OTHER), 1) };
    client.call_with(&join, &[1; 16]).err().expect("it has failed")
}

/// A way in which a collective write of two tasks ends, by its id.
type End = fn(&mut Client<'_>, [u8; 16]);

fn the_other_does_not_come(first: &mut Client<'_>, id: [u8; 16]) {
    let join = JoinWrite { collective: id, ..join_write(&of(SESSION), 0) };
    assert_eq!(refusal(first.call_with(&join, &[1; 16])), Status::TryAgain);
}

fn a_call_is_cancelled(first: &mut Client<'_>, id: [u8; 16]) {
    let join = JoinWrite { collective: id, ..join_write(&of(SESSION), 0) };
    let mut write = begun(first, &join, &[1; 16], WHOLE);
    assert_eq!(ended(first, &mut write), None);
}

fn a_connection_ends_between_two_calls(first: &mut Client<'_>, id: [u8; 16]) {
    let mut client = Client::over(first.core, SESSION, ConnectionId([8; 16]));
    let join = JoinWrite { collective: id, ..join_write(&of(SESSION), 0) };
    assert_eq!(client.call_with(&join, &[1; 8]).unwrap().reply.bytes, ByteCount(8));
}

fn a_task_has_a_newer_size_generation(first: &mut Client<'_>, id: [u8; 16]) {
    let newer = Capability { size_generation: SizeGeneration(2), ..of(SESSION) };
    let join = JoinWrite { collective: id, ..join_write(&newer, 0) };
    assert_eq!(refusal(first.call_with(&join, &[1; 16])), Status::StaleGeneration);
}

#[test]
fn failed_requests_free_their_permits_and_late_tasks_learn_why() {
    let ends: [(End, Status); 4] = [
        (the_other_does_not_come, Status::TryAgain),
        (a_call_is_cancelled, Status::Cancelled),
        (a_connection_ends_between_two_calls, Status::TryAgain),
        (a_task_has_a_newer_size_generation, Status::StaleGeneration),
    ];
    for (end, status) in ends {
        let core = daemon(1);
        let mut first = Client::of_session(&core, SESSION);
        for id in (0..=COLLECTIVES_MAX as u8).map(|id| [id; 16]) {
            first.call(&writing(id)).unwrap();
            end(&mut first, id);
            assert_eq!(late(&core, id).status, status);
        }
        assert_eq!(refusal(first.call(&writing([0; 16]))), Status::Exists, "an id is used once");
        assert_eq!(late(&core, [0; 16]).status, status, "why the first one failed is remembered");
    }
}

/// As many collective requests as one session may have.
fn fill(master: &mut Client<'_>) {
    for id in 0..COLLECTIVES_OF_SESSION_MAX as u8 {
        master.call(&writing([id; 16])).unwrap();
    }
}

fn join_first(rank: u32, session: SessionId) -> JoinWrite {
    JoinWrite { collective: [0; 16], ..join_write(&of(session), rank) }
}

#[test]
fn one_that_failed_keeps_its_place_until_the_last_call_in_it_has_ended() {
    let core = daemon(1);
    let (mut first, mut second) =
        (Client::of_session(&core, SESSION), Client::of_session(&core, OTHER));
    fill(&mut first);
    let mut waits = begun(&mut second, &join_first(1, OTHER), &[1; 16], WHOLE);
    assert_eq!(ended(&second, &mut waits), None);
    let mut leaves = begun(&mut first, &join_first(0, SESSION), &[1; 16], 0);
    assert!(leaves.job.write(&core, NOW, &leaves.payload).is_err(), "nothing of it has come");
    drop(leaves);
    assert_eq!(refusal(first.call(&writing([200; 16]))), Status::LimitExceeded);
    assert_eq!(ended(&second, &mut waits).unwrap().unwrap_err().status, Status::Cancelled);
    first.call(&writing([200; 16])).unwrap();
}

#[test]
fn a_call_too_many_of_a_task_fails_and_leaves_the_one_under_way_alone() {
    let core = daemon(1);
    let mut first = Client::of_session(&core, SESSION);
    fill(&mut first);
    let mut lands = begun(&mut first, &join_first(0, SESSION), &[1; 16], WHOLE);
    assert_eq!(
        ended(&first, &mut lands),
        None,
        "all of its bytes have come; the other task's are missing"
    );
    let more = JoinWrite { skip: ByteCount(16), ..join_first(0, SESSION) };
    assert_eq!(refusal(first.call_with(&more, &[1; 8])), Status::Malformed);
    assert_eq!(refusal(first.call(&writing([200; 16]))), Status::LimitExceeded, "a call runs");
    assert_eq!(ended(&first, &mut lands).unwrap().unwrap_err().status, Status::Malformed);
    first.call(&writing([200; 16])).unwrap();
}

/// Time passes for a daemon that serves.
fn later<S: ObjectStore>(client: &mut Client<'_, S>, time: Duration) {
    client.core.serve_until(None);
    client.now += time;
    client.core.serve_until(Some(client.now + SERVES_FOR));
}

#[test]
fn a_forgotten_request_has_failed_for_late_tasks() {
    let core = daemon(1);
    let (mut first, mut second) =
        (Client::of_session(&core, SESSION), Client::of_session(&core, OTHER));
    first.call(&writing(ID)).unwrap();
    first.call_with(&join_write(&of(SESSION), 0), &[1; 8]).unwrap();
    later(&mut second, IDLE - Duration::from_millis(1));
    second
        .call(&BeginCollective { present: of(OTHER).sign(&server_key()), ..writing([4; 16]) })
        .unwrap();
    let rest = JoinWrite { skip: ByteCount(8), wait_ms: 0, ..join_write(&of(SESSION), 0) };
    later(&mut second, Duration::from_millis(1));
    second
        .call(&BeginCollective { present: of(OTHER).sign(&server_key()), ..writing([5; 16]) })
        .unwrap();
    first.now = second.now;
    let failure = first.call_with(&rest, &[1; 8]).err().expect("it is forgotten");
    assert_eq!(failure.status, Status::TryAgain);
    assert_eq!(
        failure.detail,
        format!("the collective request made no progress for {COLLECTIVE_IDLE_MS} ms")
    );
}

fn daemon_on_disk(dir: &Path) -> IodCore<LocalStore> {
    LocalStore::init(dir, CLUSTER, Some(IodId(1))).unwrap();
    let store = LocalStore::open(dir, CLUSTER, LocalOptions::default()).unwrap();
    let core = IodCore::new(Arc::new(store), server_key(), NOW);
    core.serve_until(Some(NOW + SERVES_FOR));
    core
}

/// How many deleted files of the directory this process has open.
#[cfg(target_os = "linux")]
fn deleted_and_open(dir: &Path) -> usize {
    let dir = dir.canonicalize().unwrap();
    let links = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| entry.unwrap().path().read_link().ok());
    links
        .filter(|link| link.starts_with(&dir) && link.to_string_lossy().ends_with(" (deleted)"))
        .count()
}

#[cfg(target_os = "linux")]
fn delete(core: &IodCore<LocalStore>, now: Duration) {
    let mut mds = Client::mds(core);
    mds.now = now;
    mds.call(&Delete { objects: vec![object(0)], durable: false }).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_is_deleted_after_a_collective_call_is_closed() {
    for kind in [CollectiveKind::Write, CollectiveKind::Read] {
        let dir = tempfile::tempdir().unwrap();
        let core = daemon_on_disk(dir.path());
        let mut task = Client::of_session(&core, SESSION);
        task.write(&whole(), contiguous(0, 16), &[1; 16]).unwrap();
        task.call(&collect(ID, kind, &[SESSION], 16)).unwrap();
        match kind {
            CollectiveKind::Read => _ = task.call(&join_read(&whole(), 0, 16)).unwrap(),
            _ => _ = task.call_with(&join_write(&whole(), 0), &[2; 16]).unwrap(),
        }
        delete(&core, NOW);
        assert_eq!(deleted_and_open(dir.path()), 0, "{kind:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_deleted_during_a_collective_read_is_closed_after_it() {
    let half = |skip| JoinRead { skip: ByteCount(skip), ..join_read(&whole(), 0, 8) };
    for how in ["ends", "fails", "is forgotten"] {
        let dir = tempfile::tempdir().unwrap();
        let core = daemon_on_disk(dir.path());
        let (mut master, mut task) =
            (Client::of_session(&core, SESSION), Client::of_session(&core, SESSION));
        task.write(&whole(), contiguous(0, 16), &[1; 16]).unwrap();
        master.call(&collect(ID, CollectiveKind::Read, &[SESSION], 16)).unwrap();
        task.call(&half(0)).unwrap();
        delete(&core, NOW);
        assert_eq!(deleted_and_open(dir.path()), 1, "it is read");
        match how {
            "ends" => _ = task.call(&half(8)).unwrap(),
            "fails" => drop(task),
            _ => {
                later(&mut master, IDLE);
                master.call(&collect([4; 16], CollectiveKind::Write, &[SESSION], 16)).unwrap();
            }
        }
        assert_eq!(deleted_and_open(dir.path()), 0, "it {how}");
    }
}
