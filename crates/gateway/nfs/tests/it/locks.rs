//! LOCK, LOCKT and LOCKU.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::results::{LockDenied, LockFailure, LockTestFailure};
use braid_nfs_wire::nfs4::*;

use crate::client::with_sequence;
use crate::last;
use crate::mount::*;
use crate::server::TestServer;

async fn start() -> (TestServer, Mount, OpenFile) {
    let server = TestServer::start().await;
    let mut mount = Mount::new(&server, "a").await;
    let file = mount.create("f").await;
    (server, mount, file)
}

/// The conflict that a LOCK or LOCKT reports.
async fn conflict(mount: &mut Mount, ops: [ArgOp; 2]) -> LockDenied {
    match mount.run(ops).await.results.pop() {
        Some(ResOp::Lock(Err(LockFailure::Denied(denied)))) => denied,
        Some(ResOp::LockTest(Err(LockTestFailure::Denied(denied)))) => denied,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn ranges_of_zero_bytes_or_past_the_end_are_invalid() {
    let (server, mut a, file) = start().await;
    let write = LockType::Write;
    for (offset, length, expected) in [
        (0, 0, NfsStatus::Inval),
        (2, u64::MAX - 1, NfsStatus::Inval),
        (u64::MAX, 2, NfsStatus::Inval),
        (u64::MAX, 1, NfsStatus::Inval),
        (u64::MAX - 1, 1, NfsStatus::Ok),
        (7, LENGTH_TO_END, NfsStatus::Ok),
    ] {
        let ops = file.op(test_lock("l", write, offset, length));
        assert_eq!(a.status(ops).await, expected, "{offset} {length}");
        let ops = file.op(lock(file.id, "l", write, offset, length));
        let result = a.run(ops).await;
        assert_eq!(result.status, expected, "{offset} {length}");
        if expected == NfsStatus::Ok {
            let id = last!(Lock, result).state_id;
            assert_eq!(a.status(file.op(unlock(id, 0, 0))).await, NfsStatus::Inval);
            assert_eq!(a.status(file.op(unlock(id, offset, length))).await, NfsStatus::Ok);
        }
    }
    assert_eq!(server.share.lock_count(), 0);
}

#[tokio::test]
async fn lock_of_another_client_conflicts_until_it_is_unlocked() {
    let (server, mut a, of_a) = start().await;
    let mut b = Mount::new(&server, "b").await;
    let of_b = b.create("f").await;
    let op = of_a.op(lock(of_a.id, "l", LockType::Write, 100, 50));
    let id = last!(Lock, a.run(op).await).state_id;
    // The owners have equal names at two clients.
    let wanted = of_b.op(lock(of_b.id, "l", LockType::Read, 149, LENGTH_TO_END));
    let test = of_b.op(test_lock("l", LockType::Read, 149, LENGTH_TO_END));
    for ops in [wanted.clone(), test.clone()] {
        let denied = conflict(&mut b, ops).await;
        assert_eq!((denied.offset, denied.length), (100, 50));
        assert_eq!(denied.lock_type, LockType::Write);
        assert_ne!(denied.owner.client_id, b.session.client);
    }
    let beside = of_b.op(lock(of_b.id, "l", LockType::Write, 150, 10));
    assert_eq!(b.status(beside).await, NfsStatus::Ok);
    assert_eq!(a.status(of_a.op(unlock(id, 120, 30))).await, NfsStatus::Ok);
    let denied = of_b.op(test_lock("l", LockType::Write, 0, 200));
    let denied = conflict(&mut b, denied).await;
    assert_eq!((denied.offset, denied.length), (100, 20), "the rest of it");
    assert_eq!(b.status(test).await, NfsStatus::Ok);
}

#[tokio::test]
async fn owners_of_one_client_conflict_and_are_named() {
    let (_server, mut a, file) = start().await;
    let read = file.op(lock(file.id, "one", LockType::Read, 0, 10));
    let id = last!(Lock, a.run(read).await).state_id;
    let shared = file.op(lock(file.id, "two", LockType::Read, 5, 10));
    assert_eq!(a.status(shared).await, NfsStatus::Ok);
    let denied = file.op(lock(file.id, "three", LockType::Write, 0, 1));
    let denied = conflict(&mut a, denied).await;
    assert_eq!(denied.owner, StateOwner { client_id: a.session.client, ..owner("one") });
    assert_eq!(denied.lock_type, LockType::Read);
    // An owner does not conflict with itself: the lock becomes exclusive where it may.
    let own = file.op(lock_more(id, LockType::Write, 0, 5));
    let next = last!(Lock, a.run(own).await).state_id;
    assert_eq!(next, StateId { seqid: id.seqid + 1, ..id });
    let own = file.op(test_lock("one", LockType::Write, 0, 5));
    assert_eq!(a.status(own).await, NfsStatus::Ok);
    let all = file.op(lock_more(next, LockType::Write, 0, 10));
    assert_eq!(a.status(all).await, NfsStatus::Denied);
}

#[tokio::test]
async fn locks_need_an_open_that_allows_them() {
    let (_server, mut a, file) = start().await;
    for (access, granted, refused) in [
        (ShareAccess::READ, LockType::Read, LockType::WriteWaiting),
        (ShareAccess::WRITE, LockType::Write, LockType::ReadWaiting),
    ] {
        let name = format!("{access:?}");
        let file = a.open(open("f", access, ShareDeny::NONE).by(&name)).await.unwrap();
        let op = file.op(lock(file.id, &name, refused, 0, 1));
        assert_eq!(a.status(op).await, NfsStatus::OpenMode);
        let op = file.op(lock(file.id, &name, granted, 0, 1));
        let id = last!(Lock, a.run(op).await).state_id;
        assert_eq!(id.seqid, 1, "the refused one made no state id");
        assert_eq!(a.status(file.op(unlock(id, 0, 1))).await, NfsStatus::Ok);
    }
    assert_eq!(a.close(&file).await, NfsStatus::Ok);
}

#[tokio::test]
async fn refused_lock_leaves_no_state() {
    let (server, mut a, file) = start().await;
    let op = file.op(lock(file.id, "l", LockType::Write, 0, 10));
    assert_eq!(a.status(op).await, NfsStatus::Ok);
    let mut b = Mount::new(&server, "b").await;
    let of_b = b.create("f").await;
    let op = of_b.op(lock(of_b.id, "l", LockType::Write, 0, 10));
    assert_eq!(b.status(op).await, NfsStatus::Denied);
    assert_eq!(b.close(&of_b).await, NfsStatus::Ok);
    let end = ArgOp::DestroySession(DestroySessionArgs { session_id: b.session.id });
    assert_eq!(b.connection.status(&[end]).await, NfsStatus::Ok);
    let end = ArgOp::DestroyClientId(DestroyClientIdArgs { client_id: b.session.client });
    assert_eq!(b.connection.status(&[end]).await, NfsStatus::Ok, "it has no state");
}

#[tokio::test]
async fn wrong_state_ids_of_locks_are_refused() {
    let (_server, mut a, file) = start().await;
    let other = a.create("g").await;
    let write = LockType::Write;
    let id = last!(Lock, a.run(file.op(lock(file.id, "l", write, 0, 10))).await).state_id;
    let newer = last!(Lock, a.run(file.op(lock_more(id, write, 20, 10))).await).state_id;
    let bad = NfsStatus::BadStateId;
    for (op, expected) in [
        (unlock(id, 0, 10), NfsStatus::OldStateId),
        (unlock(file.id, 0, 10), bad),
        (lock_more(id, write, 0, 1), NfsStatus::OldStateId),
        (lock_more(file.id, write, 0, 1), bad),
        (lock(newer, "m", write, 50, 1), bad),
        (lock(other.id, "m", write, 50, 1), bad),
        (lock(StateId::ANONYMOUS, "m", write, 50, 1), bad),
        (close(newer), bad),
        (unlock(newer, 0, 10), NfsStatus::Ok),
    ] {
        assert_eq!(a.status(file.op(op.clone())).await, expected, "{op:?}");
    }
    assert_eq!(a.status(other.op(unlock(newer, 0, 10))).await, NfsStatus::OldStateId);
    assert_eq!(a.status(file.op(read(newer, 0, 1))).await, NfsStatus::OldStateId);
    let newest = StateId { seqid: 0, ..newer };
    assert_eq!(a.status(other.op(unlock(newest, 0, 10))).await, bad);
    assert_eq!(a.status(file.op(read(newest, 0, 1))).await, NfsStatus::Ok, "RFC 8881 9.1.2");
}

#[tokio::test]
async fn close_ends_the_locks_of_its_open() {
    let (server, mut a, file) = start().await;
    let op = file.op(lock(file.id, "l", LockType::Write, 0, 10));
    let id = last!(Lock, a.run(op).await).state_id;
    assert_eq!(server.share.lock_count(), 1);
    assert_eq!(a.close(&file).await, NfsStatus::Ok);
    assert_eq!(server.share.lock_count(), 0);
    assert_eq!(a.status(file.op(unlock(id, 0, 10))).await, NfsStatus::BadStateId);
}

#[tokio::test]
async fn lock_that_is_granted_during_close_is_released() {
    let (server, mut a, file) = start().await;
    let reply = server.share.delay_next_lock();
    let op = file.op(lock(file.id, "l", LockType::Write, 0, 10));
    let request = with_sequence(a.session.next_on(1), op);
    let request = a.connection.send(&request).await;
    while server.share.lock_count() == 0 {
        tokio::task::yield_now().await;
    }
    // The lock is granted, and the gateway does not know it yet: CLOSE waits for it.
    let closing = with_sequence(a.session.next_on(2), file.op(close(file.id)));
    let closing = a.connection.send(&closing).await;
    let test = || ArgOp::TestStateId(TestStateIdArgs { state_ids: vec![file.id] });
    while last!(TestStateId, a.run([test()]).await).statuses == [NfsStatus::Ok] {
        tokio::task::yield_now().await;
    }
    drop(reply);
    let mut statuses = Vec::new();
    for request in [request, closing] {
        statuses.push(a.connection.receive_compound(request).await.status);
    }
    assert_eq!(statuses, [NfsStatus::Ok; 2]);
    assert_eq!(server.share.lock_count(), 0);
}

#[tokio::test]
async fn reclaims_and_locks_of_directories_are_refused() {
    let (_server, mut a, file) = start().await;
    let mut reclaim = lock(file.id, "l", LockType::Write, 0, 1);
    if let ArgOp::Lock(args) = &mut reclaim {
        args.reclaim = true;
    }
    assert_eq!(a.status(file.op(reclaim)).await, NfsStatus::NoGrace);
    let op = lock(file.id, "l", LockType::Write, 0, 1);
    assert_eq!(a.status([ArgOp::PutRootFh, op]).await, NfsStatus::IsDir);
    let test = test_lock("l", LockType::Write, 0, 1);
    assert_eq!(a.status([ArgOp::PutRootFh, test]).await, NfsStatus::IsDir);
    let link = a.make_symlink("s").await;
    let test = test_lock("l", LockType::Write, 0, 1);
    assert_eq!(a.status(at(&link, test)).await, NfsStatus::SymLink);
}
