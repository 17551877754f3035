//! Locks of clients: over calls, ends of sessions and restarts. The rules themselves:
//! `lock/tests.rs`.

use braid_types::{
    FileIndex, Status,
    limits::{GRACE_MS, LOCK_WAIT_MS_MAX, SESSION_SILENT_MS},
};
use braid_wire::message::{lock::*, mds::*};

use super::world::{Client, Pending, World, create};

fn lock(file: FileIndex, owner: u64, bytes: (u64, u64)) -> LockRequest {
    let (start, last) = bytes;
    LockRequest {
        file,
        space: LockSpace::Range,
        owner,
        pid: owner as u32 + 100,
        start,
        last,
        exclusive: true,
    }
}

fn range(lock: &LockRequest) -> LockRange {
    let LockRequest { file, space, owner, start, last, .. } = *lock;
    LockRange { file, space, owner, start, last }
}

impl Client {
    fn try_lock(&self, lock: &LockRequest) -> LockReply {
        self.call(LockSet { lock: lock.clone(), ticket: 0 }).unwrap()
    }

    pub(super) fn wait(&self, lock: &LockRequest, ticket: u64) -> Pending {
        let asked = self.call(LockSet { lock: lock.clone(), ticket }).unwrap();
        assert_eq!(asked.outcome, LockOutcome::Waiting);
        self.attach(lock, ticket)
    }

    fn attach(&self, lock: &LockRequest, ticket: u64) -> Pending {
        self.begin_as(
            Envelope::PLAIN,
            LockAwait { lock: lock.clone(), ticket, wait_ms: LOCK_WAIT_MS_MAX },
        )
    }

    pub(super) fn unlock(&self, lock: &LockRequest) {
        self.call(Unlock { range: range(lock) }).unwrap();
    }
}

fn outcome(pending: &Pending) -> Option<LockOutcome> {
    pending.take::<LockReply>().map(|reply| reply.unwrap().outcome)
}

/// Two clients and a file of the first.
fn two(world: &mut World) -> (Client, Client, FileIndex) {
    let (one, other) = (world.client(), world.client());
    let file = one.call(create("f")).unwrap().attributes.file;
    (one, other, file)
}

#[test]
fn a_lock_of_one_client_excludes_another_and_names_its_owner() {
    let mut world = World::new(1);
    let (one, other, file) = two(&mut world);
    assert_eq!(one.try_lock(&lock(file, 1, (10, 19))).outcome, LockOutcome::Granted);
    let held = other.try_lock(&lock(file, 1, (0, 10)));
    let holder = LockHolder {
        session: one.session,
        owner: 1,
        pid: 101,
        start: 10,
        last: 19,
        exclusive: true,
    };
    assert_eq!((held.outcome, held.holder), (LockOutcome::Held, Some(holder.clone())));
    assert_eq!(other.call(LockTest { lock: lock(file, 1, (19, 30)) }).unwrap(), Some(holder));
    assert_eq!(other.call(LockTest { lock: lock(file, 1, (20, 30)) }).unwrap(), None);
    let whole = LockRequest { space: LockSpace::Whole, ..lock(file, 1, (0, 0)) };
    assert_eq!(
        other.try_lock(&whole).outcome,
        LockOutcome::Granted,
        "flock() does not see fcntl()"
    );
    assert_eq!(
        one.call(LockSet { lock: lock(file, 1, (9, 8)), ticket: 0 }).unwrap_err().status,
        Status::Invalid
    );
}

#[test]
fn a_call_of_a_session_that_has_just_closed_leaves_neither_lock_nor_lease() {
    use braid_meta::lease::LeaseOf;
    let mut world = World::new(1);
    let (one, other, file) = two(&mut world);
    one.call_as(Envelope::PLAIN, CloseSession {}).unwrap();
    // Left over from calls that were admitted before it closed.
    let wanted =
        crate::lock::LockRequestOf::of((one.session, one.connection.owner), &lock(file, 1, (0, 9)));
    assert_eq!(world.core.ask_lock(&wanted, 0).unwrap_err().status, Status::NoSession);
    assert_eq!(other.try_lock(&lock(file, 1, (0, 9))).outcome, LockOutcome::Granted);
    assert!(!world.core.note_lease_holder(one.session));
    assert!(!world.core.is_lease_holder(one.session));
    assert_eq!(world.core.grant_shared(LeaseOf::Names(FileIndex::ROOT), one.session), None);
}

#[test]
fn a_wait_ends_with_the_lock_or_after_a_slice_or_when_it_is_cancelled() {
    let mut world = World::new(1);
    let (one, other, file) = two(&mut world);
    one.try_lock(&lock(file, 1, (0, 9)));
    let mine = lock(file, 2, (5, 5));
    let slice = other.wait(&mine, 7);
    world.pass(u64::from(LOCK_WAIT_MS_MAX) - 250);
    assert_eq!(outcome(&slice), None);
    world.pass(500);
    assert_eq!(outcome(&slice), Some(LockOutcome::Waiting));
    let slice = other.attach(&mine, 7);
    one.unlock(&lock(file, 1, (0, 9)));
    assert_eq!(outcome(&slice), Some(LockOutcome::Granted));
    let back = one.wait(&lock(file, 1, (0, 9)), 1);
    one.call_as(Envelope::PLAIN, LockCancel { ticket: 1 }).unwrap();
    assert_eq!(outcome(&back), Some(LockOutcome::Cancelled));
    assert_eq!(
        outcome(&one.attach(&lock(file, 1, (0, 9)), 1)),
        Some(LockOutcome::NoSuchWait),
        "a late duplicate"
    );
}

#[test]
fn a_repeated_request_takes_no_lock_that_was_let_go_since() {
    let mut world = World::new(1);
    let (one, other, file) = two(&mut world);
    let envelope = one.next();
    let set = LockSet { lock: lock(file, 1, (0, 9)), ticket: 0 };
    assert_eq!(one.call_as(envelope.clone(), set.clone()).unwrap().outcome, LockOutcome::Granted);
    assert_eq!(one.call_as(envelope.clone(), set.clone()).unwrap().outcome, LockOutcome::Granted);
    one.unlock(&lock(file, 1, (0, 9)));
    assert_eq!(
        one.call_as(envelope, set).unwrap_err().status,
        Status::Malformed,
        "late: the sequence went back"
    );
    assert_eq!(other.try_lock(&lock(file, 2, (0, 9))).outcome, LockOutcome::Granted);
}

#[test]
fn the_locks_of_an_ended_session_go_to_waiting_calls() {
    let mut world = World::new(1);
    let (one, other, file) = two(&mut world);
    one.try_lock(&lock(file, 1, (0, 9)));
    let waiting = other.wait(&lock(file, 2, (0, 9)), 1);
    one.call_as(Envelope::PLAIN, CloseSession {}).unwrap();
    assert_eq!(outcome(&waiting), Some(LockOutcome::Granted));
}

#[test]
fn the_locks_of_a_silent_session_are_free_once_it_can_write_no_more() {
    let mut world = World::new(1);
    let (one, other, file) = two(&mut world);
    one.try_lock(&lock(file, 1, (0, 9)));
    for _ in 0..SESSION_SILENT_MS / 5000 - 1 {
        world.pass(5000);
        other.call_as(Envelope::PLAIN, Renew {}).unwrap();
        assert_eq!(other.try_lock(&lock(file, 2, (0, 9))).outcome, LockOutcome::Held);
    }
    world.iods.hold();
    world.pass_with(6000, |_| false);
    other.call_as(Envelope::PLAIN, Renew {}).unwrap();
    assert_eq!(
        other.try_lock(&lock(file, 2, (0, 9))).outcome,
        LockOutcome::Held,
        "no daemon has fenced it yet"
    );
    world.iods.release();
    world.pass(1000);
    assert_eq!(other.try_lock(&lock(file, 2, (0, 9))).outcome, LockOutcome::Granted);
}

#[test]
fn after_a_restart_nothing_is_granted_before_all_have_reclaimed() {
    let mut world = World::new(1);
    let (one, other, file) = two(&mut world);
    one.try_lock(&lock(file, 1, (0, 9)));
    world.restart();
    let other = other.reclaim(&mut world).unwrap();
    let refused = other.call(LockSet { lock: lock(file, 2, (0, 9)), ticket: 0 }).unwrap_err();
    assert_eq!(refused.status, Status::TryAgain);
    assert_eq!(
        other.call(LockTest { lock: lock(file, 2, (0, 9)) }).unwrap_err().status,
        Status::TryAgain
    );
    let waiting = [other.wait(&lock(file, 2, (0, 9)), 1), other.wait(&lock(file, 3, (10, 19)), 2)];
    let one = one.join(&mut world).unwrap();
    for _ in 0..2 {
        let reclaimed = LockReclaim { locks: vec![lock(file, 1, (0, 9))] };
        assert_eq!(
            one.call_as(Envelope::PLAIN, reclaimed).unwrap(),
            [],
            "a repetition changes nothing"
        );
    }
    assert_eq!(outcome(&waiting[1]), None);
    one.tell(&[], true).unwrap();
    world.pass(250);
    assert_eq!((outcome(&waiting[0]), outcome(&waiting[1])), (None, Some(LockOutcome::Granted)));
    one.unlock(&lock(file, 1, (0, 9)));
    assert_eq!(outcome(&waiting[0]), Some(LockOutcome::Granted));
    let late = LockReclaim { locks: vec![lock(file, 1, (50, 59))] };
    assert_eq!(one.call_as(Envelope::PLAIN, late).unwrap(), []);
    assert_eq!(
        other.try_lock(&lock(file, 2, (50, 59))).outcome,
        LockOutcome::Granted,
        "it came too late"
    );
}

#[test]
fn locks_that_are_not_reclaimed_are_free_after_the_grace_period() {
    let mut world = World::new(1);
    let (one, other, file) = two(&mut world);
    one.try_lock(&lock(file, 1, (0, 9)));
    world.restart();
    let other = other.reclaim(&mut world).unwrap();
    for _ in 0..2 {
        world.pass(GRACE_MS / 2 + 1000);
        other.call_as(Envelope::PLAIN, Renew {}).unwrap();
    }
    assert_eq!(other.try_lock(&lock(file, 2, (0, 9))).outcome, LockOutcome::Granted);
}

#[test]
fn a_user_without_permission_locks_nothing_of_a_file() {
    let mut world = World::new(1);
    let one = world.client();
    let opened = one.create("f");
    let file = opened.attributes.file;
    let changes = AttributeChanges { mode: Some(0o600), ..AttributeChanges::none() };
    one.call(SetAttributes { at: super::world::at("f"), follow: true, changes }).unwrap();
    let number = one.define(1000);
    let set = LockSet { lock: lock(file, 1, (0, 9)), ticket: 0 };
    let as_user = || Envelope { identity: number, ..one.next() };
    assert_eq!(
        one.call_as(as_user(), set.clone()).unwrap().outcome,
        LockOutcome::Granted,
        "the session has it open"
    );
    one.close(&opened);
    assert_eq!(one.call_as(as_user(), set).unwrap_err().status, Status::PermissionDenied);
}

#[test]
fn a_lock_is_reclaimed_only_of_a_file_that_may_be_locked() {
    let mut world = World::new(1);
    let one = world.client();
    let [others, own] = [("f", 0o600), ("g", 0o604)].map(|(path, mode)| {
        let opened = one.call(Create { mode, ..create(path) }).unwrap().opened.unwrap();
        one.close(&opened);
        opened.attributes.file
    });
    let key = world.key(KeyRights { squash: Some((7, 7)), ..KeyRights::full() });
    let user = world.client_of(key);
    world.restart();
    let user = user.join(&mut world).unwrap();
    let reclaimed = LockReclaim { locks: vec![lock(others, 1, (0, 9)), lock(own, 1, (0, 9))] };
    assert_eq!(user.call_as(Envelope::PLAIN, reclaimed).unwrap(), [0]);
}
