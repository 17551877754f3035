//! Expired clients: their state remains until a request of another client conflicts with it.
//! RFC 8881 8.4.2.4. Also RECLAIM_COMPLETE, which comes before opens and locks.

use std::time::Duration;

use braid_nfs_wire::nfs4::*;

use crate::leases::pass;
use crate::mount::*;
use crate::server::{TestServer, config};

/// Time in which no client renews its lease.
async fn pass_a_lease(server: &TestServer) {
    pass(server.server.config.lease + Duration::from_secs(1)).await;
}

#[tokio::test]
async fn locks_of_an_expired_client_give_way() {
    let all: [fn(StateId) -> ArgOp; 2] = [
        |open| lock(open, "b", LockType::Write, 0, LENGTH_TO_END),
        |_| test_lock("b", LockType::Write, 0, LENGTH_TO_END),
    ];
    for requested in all {
        let server = TestServer::start().await;
        let (mut a, mut b) = (Mount::new(&server, "a").await, Mount::new(&server, "b").await);
        let (of_a, of_b) = (a.create("f").await, b.create("f").await);
        for (owner, offset) in [("1", 0), ("2", 100)] {
            let op = of_a.op(lock(of_a.id, owner, LockType::Write, offset, 10));
            assert_eq!(a.status(op).await, NfsStatus::Ok);
        }
        let op = of_b.op(requested(of_b.id));
        assert_eq!(b.status(op.clone()).await, NfsStatus::Denied);
        pass_a_lease(&server).await;
        assert_eq!(b.status(op).await, NfsStatus::Ok);
        assert_eq!(a.status([]).await, NfsStatus::BadSession);
    }
}

#[tokio::test]
async fn opens_of_all_expired_clients_give_way() {
    let server = TestServer::start().await;
    let mut expired = Vec::new();
    for owner in ["a", "b"] {
        let mut mount = Mount::new(&server, owner).await;
        let file = open("f", ShareAccess::WRITE, ShareDeny::READ).create();
        mount.open(file).await.unwrap();
        expired.push(mount);
    }
    let mut c = Mount::new(&server, "c").await;
    let file = open("f", ShareAccess::READ, ShareDeny::NONE);
    assert_eq!(c.open(file.clone()).await, Err(NfsStatus::ShareDenied));
    pass_a_lease(&server).await;
    c.open(file).await.unwrap();
    for mount in &mut expired {
        assert_eq!(mount.status([]).await, NfsStatus::BadSession);
    }
}

#[tokio::test]
async fn denial_by_opens_with_access_ends_with_the_lease() {
    let server = TestServer::start().await;
    let (mut a, mut b) = (Mount::new(&server, "a").await, Mount::new(&server, "b").await);
    a.create("f").await;
    let exclusive = open("f", ShareAccess::READ, ShareDeny::WRITE);
    assert_eq!(b.open(exclusive.clone()).await, Err(NfsStatus::ShareDenied));
    pass_a_lease(&server).await;
    b.open(exclusive).await.unwrap();
}

#[tokio::test]
async fn data_without_an_open_is_accessible_after_the_lease() {
    type Op = fn() -> ArgOp;
    let ops: [Op; 3] = [
        || read(StateId::ANONYMOUS, 0, 10),
        || write(StateId::ANONYMOUS, 0, b"abc"),
        || set_size(StateId::ANONYMOUS, 5),
    ];
    for op in ops {
        let server = TestServer::start().await;
        let (mut a, mut b) = (Mount::new(&server, "a").await, Mount::new(&server, "b").await);
        let denied = open("f", ShareAccess::READ, ShareDeny::BOTH).create();
        let file = a.open(denied).await.unwrap();
        assert_eq!(b.status(file.op(op())).await, NfsStatus::Locked);
        pass_a_lease(&server).await;
        assert_eq!(b.status(file.op(op())).await, NfsStatus::Ok, "{:?}", op());
    }
}

#[tokio::test]
async fn client_that_renewed_its_lease_keeps_its_state() {
    let server = TestServer::start().await;
    let (mut a, mut b) = (Mount::new(&server, "a").await, Mount::new(&server, "b").await);
    let file = a.open(open("f", ShareAccess::BOTH, ShareDeny::BOTH).create()).await.unwrap();
    let op = file.op(lock(file.id, "a", LockType::Write, 0, 10));
    assert_eq!(a.status(op).await, NfsStatus::Ok);
    pass_a_lease(&server).await;
    assert_eq!(a.status([]).await, NfsStatus::Ok);
    let refused = b.open(open("f", ShareAccess::READ, ShareDeny::NONE)).await;
    assert_eq!(refused, Err(NfsStatus::ShareDenied));
    let test = file.op(test_lock("b", LockType::Read, 0, 1));
    assert_eq!(b.status(test).await, NfsStatus::Denied);
    assert_eq!(a.close(&file).await, NfsStatus::Ok);
}

#[tokio::test]
async fn expired_client_without_a_conflict_goes_on() {
    let server = TestServer::start().await;
    let (mut a, mut b) = (Mount::new(&server, "a").await, Mount::new(&server, "b").await);
    let mut c = Mount::new(&server, "c").await;
    let file = a.create("f").await;
    c.open(open("g", ShareAccess::WRITE, ShareDeny::BOTH).create()).await.unwrap();
    pass_a_lease(&server).await;
    b.open(open("g", ShareAccess::READ, ShareDeny::NONE)).await.unwrap();
    b.create("f").await;
    assert_eq!(a.close(&file).await, NfsStatus::Ok);
}

#[tokio::test]
async fn own_state_conflicts_also_after_the_lease() {
    let server = TestServer::start().await;
    let mut a = Mount::new(&server, "a").await;
    let file = a.open(open("f", ShareAccess::BOTH, ShareDeny::WRITE).create()).await.unwrap();
    pass_a_lease(&server).await;
    let other = open("f", ShareAccess::WRITE, ShareDeny::NONE).by("other");
    assert_eq!(a.open(other).await, Err(NfsStatus::ShareDenied));
    assert_eq!(a.close(&file).await, NfsStatus::Ok);
}

#[tokio::test]
async fn conflict_with_a_client_of_another_gateway_stands() {
    let server = TestServer::start().await;
    let other = TestServer::with_share(server.share.another_gateway(), config()).await;
    let (mut a, mut b) = (Mount::new(&other, "a").await, Mount::new(&server, "b").await);
    let file = a.open(open("f", ShareAccess::BOTH, ShareDeny::READ).create()).await.unwrap();
    let op = file.op(lock(file.id, "a", LockType::Write, 0, 10));
    assert_eq!(a.status(op).await, NfsStatus::Ok);
    pass_a_lease(&server).await;
    let wanted = open("f", ShareAccess::READ, ShareDeny::NONE);
    assert_eq!(b.open(wanted.clone()).await, Err(NfsStatus::ShareDenied));
    let test = file.op(test_lock("b", LockType::Read, 0, 1));
    assert_eq!(b.status(test).await, NfsStatus::Denied);
    let session = other.client_records();
    let (session, _) = session.iter().find(|(_, record)| record.name == "a").unwrap();
    server.share.expire_session(*session);
    b.open(wanted).await.unwrap();
}

#[tokio::test]
async fn silent_client_ends_also_without_a_conflict_at_its_gateway() {
    let server = TestServer::start().await;
    let other = TestServer::with_share(server.share.another_gateway(), config()).await;
    let (mut a, mut b) = (Mount::new(&other, "a").await, Mount::new(&server, "b").await);
    a.open(open("f", ShareAccess::BOTH, ShareDeny::READ).create()).await.unwrap();
    let wanted = open("f", ShareAccess::READ, ShareDeny::NONE);
    for expected in [Err(NfsStatus::ShareDenied), Ok(())] {
        pass_a_lease(&server).await;
        other.server.end_silent_clients().await;
        assert_eq!(b.open(wanted.clone()).await.map(drop), expected);
    }
    assert_eq!(a.status([]).await, NfsStatus::BadSession);
}

#[tokio::test]
async fn opens_and_locks_come_after_reclaim_complete() {
    let server = TestServer::start().await;
    let mut other = Mount::new(&server, "other").await;
    let file = other.create("f").await;
    let mut a = Mount::without_reclaim_complete(&server, "a").await;
    let wanted = open("f", ShareAccess::READ, ShareDeny::NONE);
    assert_eq!(a.open(wanted.clone()).await, Err(NfsStatus::Grace));
    let op = file.op(lock(file.id, "a", LockType::Read, 0, 10));
    assert_eq!(a.status(op).await, NfsStatus::Grace);
    assert_eq!(a.status(file.op(read(StateId::ANONYMOUS, 0, 1))).await, NfsStatus::Ok);
    let complete = args::ReclaimCompleteArgs { one_fs: false };
    assert_eq!(a.status([ArgOp::ReclaimComplete(complete)]).await, NfsStatus::Ok);
    a.open(wanted).await.unwrap();
}
