//! A restart of the gateway: clients reclaim their opens and locks, and nobody else gets them
//! meanwhile. RFC 8881 8.4.2; ADR 0040.

use std::time::Duration;

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;
use braid_share::{ClientRecord, Share};

use crate::client::{create_args, exchange_args, user};
use crate::last;
use crate::leases::pass;
use crate::mount::*;
use crate::server::TestServer;

/// OPEN with CLAIM_PREVIOUS.
fn reclaim(access: ShareAccess, deny: ShareDeny) -> ArgOp {
    let mut op = open("", access, deny);
    if let ArgOp::Open(args) = &mut op {
        args.claim = OpenClaim::Previous(DelegationType::None);
    }
    op
}

fn reclaim_lock(open: StateId, by: &str, lock_type: LockType, offset: u64, length: u64) -> ArgOp {
    let mut op = lock(open, by, lock_type, offset, length);
    if let ArgOp::Lock(args) = &mut op {
        args.reclaim = true;
    }
    op
}

const COMPLETE: ArgOp = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
const DENY_WRITE: ShareDeny = ShareDeny::WRITE;

/// A server with a client "a" that has "f" open, denies writing, and has a lock of it.
async fn start() -> (TestServer, Mount, OpenFile) {
    let server = TestServer::start().await;
    let mut a = Mount::new(&server, "a").await;
    let file = a.open(open("f", ShareAccess::BOTH, DENY_WRITE).create()).await.unwrap();
    let op = file.op(lock(file.id, "l", LockType::Write, 10, 10));
    assert_eq!(a.status(op).await, NfsStatus::Ok);
    (server, a, file)
}

/// Another client cannot get what "a" has.
async fn expect_conflicts(server: &TestServer, file: &OpenFile, by: &str) {
    let mut b = Mount::new(server, by).await;
    let writes = open("f", ShareAccess::WRITE, ShareDeny::NONE);
    assert_eq!(b.open(writes).await, Err(NfsStatus::ShareDenied));
    let test = file.op(test_lock("b", LockType::Write, 0, 100));
    assert_eq!(b.status(test).await, NfsStatus::Denied);
}

#[tokio::test]
async fn opens_denials_and_locks_are_reclaimed_after_a_restart() {
    let (server, mut before, file) = start().await;
    let next = server.next_start().await;
    expect_conflicts(&next, &file, "other1").await;
    // What the earlier start gave out is unknown.
    before.connection = next.connect().await;
    before.connection.minor_version = 2;
    assert_eq!(before.status([]).await, NfsStatus::BadSession);
    let create = create_args(before.session.client, 2);
    let stale = before.connection.create_session(create).await;
    assert_eq!(stale.unwrap_err(), NfsStatus::StaleClientId);

    let mut a = Mount::without_reclaim_complete(&next, "a").await;
    assert_ne!(a.session.client, before.session.client);
    let stale = file.op(read(file.id, 0, 1));
    assert_eq!(a.status(stale).await, NfsStatus::BadStateId);
    let early = a.open(open("g", ShareAccess::BOTH, ShareDeny::NONE).create()).await;
    assert_eq!(early, Err(NfsStatus::Grace));
    let id = last!(Open, a.run(file.op(reclaim(ShareAccess::BOTH, DENY_WRITE))).await).state_id;
    assert_ne!(id, file.id);
    let op = file.op(reclaim_lock(id, "l", LockType::Write, 10, 10));
    let locked = last!(Lock, a.run(op).await).state_id;
    assert_eq!(a.status([COMPLETE]).await, NfsStatus::Ok);
    expect_conflicts(&next, &file, "other2").await;
    assert_eq!(a.status(file.op(write(id, 0, b"abc"))).await, NfsStatus::Ok);
    assert_eq!(a.status(file.op(unlock(locked, 10, 10))).await, NfsStatus::Ok);
    assert_eq!(next.share.lock_count(), 0);
    assert_eq!(a.close(&OpenFile { id, ..file }).await, NfsStatus::Ok);
    assert_eq!(next.share.open_count(), 0);
}

#[tokio::test]
async fn reclaims_end_with_reclaim_complete_which_releases_the_rest() {
    let (server, _before, file) = start().await;
    let next = server.next_start().await;
    let mut a = Mount::without_reclaim_complete(&next, "a").await;
    assert_eq!((next.share.open_count(), next.share.lock_count()), (1, 1));
    assert_eq!(a.status([COMPLETE]).await, NfsStatus::Ok);
    assert_eq!((next.share.open_count(), next.share.lock_count()), (0, 0));
    let op = file.op(reclaim(ShareAccess::BOTH, DENY_WRITE));
    assert_eq!(a.status(op).await, NfsStatus::NoGrace);
}

#[tokio::test]
async fn only_what_the_session_has_is_reclaimed() {
    let (server, _before, file) = start().await;
    let next = server.next_start().await;
    let mut a = Mount::without_reclaim_complete(&next, "a").await;
    let op = file.op(reclaim(ShareAccess::READ, ShareDeny::READ));
    assert_eq!(a.status(op).await, NfsStatus::ReclaimBad);
    let op = file.op(reclaim(ShareAccess::READ, ShareDeny::NONE));
    let id = last!(Open, a.run(op).await).state_id;
    let op = file.op(reclaim(ShareAccess::BOTH, ShareDeny::NONE));
    let again = last!(Open, a.run(op).await).state_id;
    assert_eq!((again.other, again.seqid), (id.other, 2));
    for (owner, lock_type, offset) in
        [("other", LockType::Read, 10), ("l", LockType::Write, 11), ("l", LockType::Read, 0)]
    {
        let op = file.op(reclaim_lock(again, owner, lock_type, offset, 10));
        assert_eq!(a.status(op).await, NfsStatus::ReclaimBad, "{owner} {offset}");
    }
    let op = file.op(reclaim_lock(again, "l", LockType::Write, 10, 5));
    assert_eq!(a.status(op).await, NfsStatus::Ok);
    assert_eq!(a.status([COMPLETE]).await, NfsStatus::Ok);
    // The denial was not reclaimed, nor the second half of the lock.
    let mut b = Mount::new(&next, "b").await;
    b.open(open("f", ShareAccess::WRITE, ShareDeny::NONE)).await.unwrap();
    let test = |offset| file.op(test_lock("b", LockType::Write, offset, 5));
    assert_eq!(b.status(test(10)).await, NfsStatus::Denied);
    assert_eq!(b.status(test(15)).await, NfsStatus::Ok);
}

#[tokio::test]
async fn client_without_a_record_reclaims_nothing() {
    let (server, _before, file) = start().await;
    let next = server.next_start().await;
    let mut c = Mount::without_reclaim_complete(&next, "c").await;
    let op = file.op(reclaim(ShareAccess::READ, ShareDeny::NONE));
    assert_eq!(c.status(op).await, NfsStatus::NoGrace);
    assert_eq!((next.share.open_count(), next.share.lock_count()), (1, 1));
}

#[tokio::test]
async fn next_instance_of_a_client_ends_the_session_of_the_former_one() {
    let (server, _before, _) = start().await;
    let next = server.next_start().await;
    let mut connection = next.connect().await;
    let client = connection.exchange_id(exchange_args("a", 2)).await.unwrap();
    assert_eq!((next.share.open_count(), next.share.lock_count()), (1, 1));
    let create = create_args(client.client_id, client.sequence_id.0);
    connection.create_session(create).await.unwrap();
    assert_eq!((next.share.open_count(), next.share.lock_count()), (0, 0));
}

#[tokio::test]
async fn another_principal_does_not_get_the_session_of_a_client() {
    let (server, _before, _) = start().await;
    let next = server.next_start().await;
    let mut connection = next.connect().await;
    connection.credential = user(7);
    let client = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    let create = create_args(client.client_id, client.sequence_id.0);
    let refused = connection.create_session(create).await;
    assert_eq!(refused.unwrap_err(), NfsStatus::ClidInUse);
    assert_eq!((next.share.open_count(), next.share.lock_count()), (1, 1));
}

#[tokio::test]
async fn user_without_permission_does_not_reclaim_an_open_of_another() {
    let server = TestServer::start().await;
    let mut a = Mount::new(&server, "a").await;
    let file = a.create("f").await;
    let private = Attributes { mode: Some(0o600), ..Attributes::default() };
    let private = SetAttrArgs { state_id: StateId::ANONYMOUS, attributes: encoded(&private) };
    assert_eq!(a.status(file.op(ArgOp::SetAttr(private))).await, NfsStatus::Ok);
    let next = server.next_start().await;
    let mut a = Mount::without_reclaim_complete(&next, "a").await;
    let op = file.op(reclaim(ShareAccess::READ, ShareDeny::NONE));
    let root = std::mem::replace(&mut a.connection.credential, user(7));
    assert_eq!(a.status(op.clone()).await, NfsStatus::Access);
    a.connection.credential = root;
    assert_eq!(a.status(op).await, NfsStatus::Ok);
}

#[tokio::test]
async fn client_that_does_not_come_back_is_ended_after_a_lease() {
    let (server, _before, file) = start().await;
    let next = server.next_start().await;
    expect_conflicts(&next, &file, "other3").await;
    pass(next.server.config.lease + Duration::from_secs(1)).await;
    next.server.end_grace().await;
    assert_eq!((next.share.open_count(), next.share.lock_count()), (0, 0));
    let mut a = Mount::without_reclaim_complete(&next, "a").await;
    let op = file.op(reclaim(ShareAccess::BOTH, DENY_WRITE));
    assert_eq!(a.status(op).await, NfsStatus::NoGrace);
}

#[tokio::test]
async fn end_of_the_grace_period_ends_reclaims_that_have_begun() {
    let (server, _before, file) = start().await;
    let next = server.next_start().await;
    let mut a = Mount::without_reclaim_complete(&next, "a").await;
    let op = file.op(reclaim(ShareAccess::READ, ShareDeny::NONE));
    let id = last!(Open, a.run(op).await).state_id;
    next.server.end_grace().await;
    assert_eq!((next.share.open_count(), next.share.lock_count()), (1, 0));
    let op = file.op(reclaim_lock(id, "l", LockType::Write, 10, 10));
    assert_eq!(a.status(op).await, NfsStatus::NoGrace);
    let mut b = Mount::new(&next, "b").await;
    b.open(open("f", ShareAccess::WRITE, ShareDeny::NONE)).await.unwrap();
}

#[tokio::test]
async fn record_of_garbage_ends_its_session_and_the_gateway_starts() {
    let (server, _before, file) = start().await;
    for garbage in [&b""[..], b"garbage", &[0; 4096]] {
        let record = ClientRecord { name: "bad".into(), record: garbage.to_vec() };
        server.share.begin_client(record).await.unwrap();
    }
    let next = server.next_start().await;
    let names: Vec<_> =
        next.share.client_records().into_iter().map(|(_, record)| record.name).collect();
    assert!(!names.contains(&"bad".to_owned()), "{names:?}");
    expect_conflicts(&next, &file, "other4").await;
}

#[tokio::test]
async fn of_two_sessions_of_one_instance_the_first_is_continued() {
    let (server, _before, file) = start().await;
    let (_, record) = server.client_records().pop().unwrap();
    server.share.begin_client(record).await.unwrap();
    let next = server.next_start().await;
    let mut a = Mount::without_reclaim_complete(&next, "a").await;
    let op = file.op(reclaim(ShareAccess::BOTH, DENY_WRITE));
    assert_eq!(a.status(op).await, NfsStatus::Ok);
}

#[tokio::test]
async fn two_restarts_in_a_row_lose_nothing() {
    let (server, _before, file) = start().await;
    let next = server.next_start().await;
    let mut a = Mount::without_reclaim_complete(&next, "a").await;
    let id = last!(Open, a.run(file.op(reclaim(ShareAccess::BOTH, DENY_WRITE))).await).state_id;
    let last_start = next.next_start().await;
    let mut a = Mount::without_reclaim_complete(&last_start, "a").await;
    let again = last!(Open, a.run(file.op(reclaim(ShareAccess::BOTH, DENY_WRITE))).await).state_id;
    assert_ne!(id, again);
    let op = file.op(reclaim_lock(again, "l", LockType::Write, 10, 10));
    assert_eq!(a.status(op).await, NfsStatus::Ok);
    assert_eq!(a.status([COMPLETE]).await, NfsStatus::Ok);
    expect_conflicts(&last_start, &file, "other5").await;
}
