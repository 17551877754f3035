//! Blocking locks: CB_NOTIFY_LOCK, and what is held for a client meanwhile.

use std::time::Duration;

use braid_nfs::ops::lock_wait::HELD_MAX;
use braid_nfs::state::lock_waits::{WAITS_CLIENT_MAX, WANTED_MAX};
use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::callback::{CallbackArgOp, CallbackResOp, NotifyLockArgs};
use braid_nfs_wire::nfs4::*;
use braid_share::Status;
use braid_share::memory::CallKind;

use crate::client::{Callback, Connection, Session, create_args, exchange_args};
use crate::last;
use crate::leases::pass;
use crate::mount::*;
use crate::server::{TestServer, config};

const NOTIFIED: CallbackResOp = CallbackResOp::NotifyLock(Ok(()));
const WAIT: LockType = LockType::WriteWaiting;

/// Client `a` has locked bytes 0 to 9 of a file that `b` has open too.
struct Contended {
    server: TestServer,
    a: Mount,
    of_a: OpenFile,
    id: StateId,
    b: Mount,
    of_b: OpenFile,
}

impl Contended {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let (mut a, mut b) = (Mount::new(&server, "a").await, Mount::new(&server, "b").await);
        let (of_a, of_b) = (a.create("f").await, b.create("f").await);
        let op = of_a.op(lock(of_a.id, "l", LockType::Write, 0, 10));
        let id = last!(Lock, a.run(op).await).state_id;
        Self { server, a, of_a, id, b, of_b }
    }

    /// `b` wants the lock, and waits at the metadata server.
    async fn b_waits(&mut self) {
        assert_eq!(self.b_locks(WAIT).await, NfsStatus::Denied);
        waits(&self.server, 1).await;
    }

    async fn b_locks(&mut self, lock_type: LockType) -> NfsStatus {
        let op = self.of_b.op(lock(self.of_b.id, "l", lock_type, 0, 10));
        self.b.status(op).await
    }

    async fn a_unlocks(&mut self) {
        assert_eq!(self.a.status(self.of_a.op(unlock(self.id, 0, 10))).await, NfsStatus::Ok);
    }

    /// Whether `a` gets the lock without waiting.
    async fn a_locks(&mut self) -> NfsStatus {
        self.a.status(self.of_a.op(lock_more(self.newest(), LockType::Write, 0, 10))).await
    }

    fn newest(&self) -> StateId {
        StateId { seqid: 0, ..self.id }
    }

    /// The callback that says to `b` that its lock is granted.
    async fn b_is_notified(&mut self) -> Callback {
        let callback = self.b.connection.callback().await;
        let owner = StateOwner { client_id: self.b.session.client, ..owner("l") };
        let handle = self.of_b.handle.clone();
        assert_eq!(callback.op, CallbackArgOp::NotifyLock(NotifyLockArgs { handle, owner }));
        self.b.connection.answer(&callback, NfsStatus::Ok, &NOTIFIED).await;
        callback
    }
}

/// Waits until the queue of the metadata server has this number of waits.
async fn waits(server: &TestServer, number: usize) {
    until(|| server.share.lock_wait_count() == number).await;
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn denied_client_is_notified_and_nobody_else_gets_the_lock() {
    let mut all = Contended::start().await;
    all.b_waits().await;
    all.a_unlocks().await;
    all.b_is_notified().await;
    assert_eq!(all.a_locks().await, NfsStatus::Denied, "it is held for b");
    assert_eq!(all.b_locks(WAIT).await, NfsStatus::Ok);
    pass(2 * HELD_MAX).await;
    assert_eq!(all.a_locks().await, NfsStatus::Denied, "b has it");
    assert_eq!((all.server.share.lock_count(), all.server.share.lock_wait_count()), (1, 0));
}

#[tokio::test]
async fn lock_that_is_not_claimed_is_released() {
    let mut all = Contended::start().await;
    all.b_waits().await;
    all.a_unlocks().await;
    all.b_is_notified().await;
    assert_eq!(all.a_locks().await, NfsStatus::Denied);
    pass(HELD_MAX).await;
    until(|| all.server.share.lock_count() == 0).await;
    assert_eq!(all.a_locks().await, NfsStatus::Ok);
    // Its next request waits again.
    all.b_waits().await;
}

#[tokio::test]
async fn client_that_does_not_answer_holds_the_lock_for_a_bounded_time() {
    let mut all = Contended::start().await;
    all.b_waits().await;
    all.a_unlocks().await;
    all.b.connection.callback().await;
    assert_eq!(all.a_locks().await, NfsStatus::Denied);
    pass(HELD_MAX).await;
    until(|| all.server.share.lock_count() == 0).await;
    assert_eq!(all.a_locks().await, NfsStatus::Ok);
}

#[tokio::test]
async fn waiters_are_served_in_the_order_of_their_requests() {
    let mut all = Contended::start().await;
    all.b_waits().await;
    let mut c = Mount::new(&all.server, "c").await;
    let of_c = c.create("f").await;
    let wanted = of_c.op(lock(of_c.id, "l", WAIT, 0, 10));
    assert_eq!(c.status(wanted.clone()).await, NfsStatus::Denied);
    waits(&all.server, 2).await;
    // A repeated request keeps its place.
    assert_eq!(all.b_locks(WAIT).await, NfsStatus::Denied);
    assert_eq!(all.server.share.lock_wait_count(), 2);
    all.a_unlocks().await;
    all.b_is_notified().await;
    let op = all.of_b.op(lock(all.of_b.id, "l", WAIT, 0, 10));
    let id = last!(Lock, all.b.run(op).await).state_id;
    // The former holder stands behind c.
    let again = all.of_a.op(lock_more(all.newest(), WAIT, 0, 10));
    assert_eq!(all.a.status(again).await, NfsStatus::Denied);
    waits(&all.server, 2).await;
    assert_eq!(all.b.status(all.of_b.op(unlock(id, 0, 10))).await, NfsStatus::Ok);
    let callback = c.connection.callback().await;
    c.connection.answer(&callback, NfsStatus::Ok, &NOTIFIED).await;
    assert_eq!(c.status(wanted).await, NfsStatus::Ok);
    assert_eq!(all.server.share.lock_wait_count(), 1, "a waits");
}

#[tokio::test]
async fn lock_of_another_gateway_is_waited_for() {
    let mut all = Contended::start().await;
    let other = TestServer::with_share(all.server.share.another_gateway(), config()).await;
    let mut c = Mount::new(&other, "c").await;
    let of_c = c.create("f").await;
    let wanted = of_c.op(lock(of_c.id, "l", WAIT, 0, 10));
    assert_eq!(c.status(wanted.clone()).await, NfsStatus::Denied);
    waits(&other, 1).await;
    all.a_unlocks().await;
    let callback = c.connection.callback().await;
    c.connection.answer(&callback, NfsStatus::Ok, &NOTIFIED).await;
    assert_eq!(all.a_locks().await, NfsStatus::Denied);
    assert_eq!(c.status(wanted).await, NfsStatus::Ok);
}

#[tokio::test]
async fn locks_that_do_not_block_are_not_waited_for() {
    let mut all = Contended::start().await;
    assert_eq!(all.b_locks(LockType::Write).await, NfsStatus::Denied);
    // A wait would have begun before the next one does.
    let op = all.of_b.op(lock(all.of_b.id, "m", LockType::ReadWaiting, 0, 10));
    assert_eq!(all.b.status(op).await, NfsStatus::Denied);
    waits(&all.server, 1).await;
    all.a_unlocks().await;
    let callback = all.b.connection.callback().await;
    let CallbackArgOp::NotifyLock(args) = &callback.op else { panic!("{callback:?}") };
    assert_eq!(args.owner.owner, owner("m").owner);
}

#[tokio::test]
async fn close_ends_the_waits_of_its_open() {
    let mut all = Contended::start().await;
    all.b_waits().await;
    assert_eq!(all.b.close(&all.of_b).await, NfsStatus::Ok);
    assert_eq!(all.server.share.lock_wait_count(), 0);
    all.a_unlocks().await;
    assert_eq!(all.server.share.lock_count(), 0);
}

#[tokio::test]
async fn close_releases_a_lock_that_is_held_for_the_client() {
    let mut all = Contended::start().await;
    all.b_waits().await;
    all.a_unlocks().await;
    all.b.connection.callback().await;
    assert_eq!(all.b.close(&all.of_b).await, NfsStatus::Ok);
    assert_eq!(all.server.share.lock_count(), 0);
    let end = ArgOp::DestroySession(DestroySessionArgs { session_id: all.b.session.id });
    assert_eq!(all.b.connection.status(&[end]).await, NfsStatus::Ok);
    let end = ArgOp::DestroyClientId(DestroyClientIdArgs { client_id: all.b.session.client });
    assert_eq!(all.b.connection.status(&[end]).await, NfsStatus::Ok, "it has no state");
}

#[tokio::test]
async fn free_state_id_and_unlock_end_waits_of_the_owner() {
    for frees in [true, false] {
        let mut all = Contended::start().await;
        let op = all.of_b.op(lock(all.of_b.id, "l", LockType::Write, 20, 10));
        let id = last!(Lock, all.b.run(op).await).state_id;
        let id = last!(LockUnlock, all.b.run(all.of_b.op(unlock(id, 20, 10))).await).state_id;
        all.b_waits().await;
        let op = if frees {
            ArgOp::FreeStateId(FreeStateIdArgs { state_id: id })
        } else {
            unlock(id, 0, LENGTH_TO_END)
        };
        assert_eq!(all.b.status(all.of_b.op(op)).await, NfsStatus::Ok);
        assert_eq!(all.server.share.lock_wait_count(), 0);
        all.a_unlocks().await;
        assert_eq!(all.server.share.lock_count(), 0);
    }
}

#[tokio::test]
async fn another_lock_of_the_owner_in_the_range_ends_the_wait() {
    let mut all = Contended::start().await;
    let op = all.of_b.op(lock(all.of_b.id, "l", WAIT, 0, 30));
    assert_eq!(all.b.status(op).await, NfsStatus::Denied);
    waits(&all.server, 1).await;
    let op = all.of_b.op(lock(all.of_b.id, "l", LockType::Write, 20, 10));
    assert_eq!(all.b.status(op).await, NfsStatus::Ok);
    assert_eq!(all.server.share.lock_wait_count(), 0);
    // Another thread of the owner may still want the longer range.
    all.b_is_notified().await;
    all.a_unlocks().await;
    pass(HELD_MAX).await;
    assert_eq!(all.server.share.lock_count(), 1, "what b has is not unlocked");
}

#[tokio::test]
async fn owner_that_has_a_part_of_the_range_is_notified_and_keeps_it() {
    let server = TestServer::start().await;
    let (mut a, mut b) = (Mount::new(&server, "a").await, Mount::new(&server, "b").await);
    let (of_a, of_b) = (a.create("f").await, b.create("f").await);
    let op = of_a.op(lock(of_a.id, "l", LockType::Read, 0, 10));
    let of_reader = last!(Lock, a.run(op).await).state_id;
    let op = of_b.op(lock(of_b.id, "l", LockType::Read, 0, 10));
    let id = last!(Lock, b.run(op).await).state_id;
    let upgrade = of_b.op(lock_more(id, WAIT, 0, 10));
    assert_eq!(b.status(upgrade.clone()).await, NfsStatus::Denied);
    assert_eq!(server.share.lock_wait_count(), 0, "it has no place in the queue");
    assert_eq!(a.status(of_a.op(unlock(of_reader, 0, 10))).await, NfsStatus::Ok);
    pass(Duration::from_secs(1)).await;
    let callback = b.connection.callback().await;
    b.connection.answer(&callback, NfsStatus::Ok, &NOTIFIED).await;
    pass(2 * HELD_MAX).await;
    let op = of_a.op(lock(of_a.id, "m", LockType::Write, 0, 10));
    assert_eq!(a.status(op).await, NfsStatus::Denied, "b still shares it");
    assert_eq!(b.status(upgrade).await, NfsStatus::Ok);
}

#[tokio::test]
async fn client_without_a_place_in_the_queue_is_notified_too() {
    let mut all = Contended::start().await;
    all.server.share.fail_next(CallKind::LockWait, Status::NoLocks);
    assert_eq!(all.b_locks(WAIT).await, NfsStatus::Denied);
    all.a_unlocks().await;
    pass(Duration::from_secs(1)).await;
    all.b_is_notified().await;
    assert_eq!(all.server.share.lock_count(), 0);
}

#[tokio::test]
async fn wait_of_a_client_that_asks_no_more_ends() {
    let mut all = Contended::start().await;
    all.b_waits().await;
    pass(WANTED_MAX - Duration::from_secs(1)).await;
    assert_eq!(all.b_locks(WAIT).await, NfsStatus::Denied);
    pass(WANTED_MAX - Duration::from_secs(1)).await;
    assert_eq!(all.server.share.lock_wait_count(), 1, "it asked again");
    pass(Duration::from_secs(2)).await;
    waits(&all.server, 0).await;
    all.a_unlocks().await;
    assert_eq!(all.server.share.lock_count(), 0);
    // A later request waits again.
    assert_eq!(all.a_locks().await, NfsStatus::Ok);
    all.b_waits().await;
}

#[tokio::test]
async fn waits_end_with_their_client() {
    let mut all = Contended::start().await;
    all.b_waits().await;
    let mut again = all.server.connect().await;
    let known = again.exchange_id(exchange_args("b", 2)).await.unwrap();
    again.create_session(create_args(known.client_id, known.sequence_id.0)).await.unwrap();
    waits(&all.server, 0).await;
    all.a_unlocks().await;
    assert_eq!(all.server.share.lock_count(), 0);
}

#[tokio::test]
async fn lock_is_released_when_the_session_for_callbacks_is_gone() {
    let mut all = Contended::start().await;
    all.b_waits().await;
    let end = ArgOp::DestroySession(DestroySessionArgs { session_id: all.b.session.id });
    assert_eq!(all.b.connection.status(&[end]).await, NfsStatus::Ok);
    all.a_unlocks().await;
    until(|| all.server.share.lock_count() == 0).await;
}

#[tokio::test]
async fn waits_of_one_client_are_limited() {
    let mut all = Contended::start().await;
    for number in 0..WAITS_CLIENT_MAX + 2 {
        let by = number.to_string();
        let op = all.of_b.op(lock(all.of_b.id, &by, WAIT, 0, 10));
        assert_eq!(all.b.status(op).await, NfsStatus::Denied);
    }
    waits(&all.server, WAITS_CLIENT_MAX).await;
    // Another client still waits.
    let mut c = Mount::new(&all.server, "c").await;
    let of_c = c.create("f").await;
    let op = of_c.op(lock(of_c.id, "l", WAIT, 0, 10));
    assert_eq!(c.status(op).await, NfsStatus::Denied);
    waits(&all.server, WAITS_CLIENT_MAX + 1).await;
}

#[tokio::test]
async fn only_clients_with_a_back_channel_may_expect_the_callback() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let known = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    let args = create_args(known.client_id, known.sequence_id.0);
    let args = CreateSessionArgs { flags: CreateSessionFlags::empty(), ..args };
    let created = connection.create_session(args).await.unwrap();
    let mut session = Session::new(known.client_id, created);
    let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    assert_eq!(connection.status(&session.ops([complete])).await, NfsStatus::Ok);
    let flags = opened(&mut connection, &mut session).await;
    assert!(!flags.contains(OpenResultFlags::MAY_NOTIFY_LOCK));
    let bind = BindConnToSessionArgs {
        session_id: session.id,
        direction: ChannelDirFromClient::BackOrBoth,
        use_rdma: false,
    };
    assert_eq!(connection.status(&[ArgOp::BindConnToSession(bind)]).await, NfsStatus::Ok);
    let flags = opened(&mut connection, &mut session).await;
    assert!(flags.contains(OpenResultFlags::MAY_NOTIFY_LOCK));
}

async fn opened(connection: &mut Connection, session: &mut Session) -> OpenResultFlags {
    let ops = [ArgOp::PutRootFh, open("f", ShareAccess::BOTH, ShareDeny::NONE).create()];
    last!(Open, connection.compound(&session.ops(ops)).await).flags
}
