//! Locks of owners that closed while the metadata server was away, on an in-memory cluster.

use std::{
    pin::pin,
    task::{Context, Waker},
};

use crate::fake::Fake;
use braid_client::{FileIndex, LockRequest, LockSpace, Status, asynchronous::Client};
use braid_net::block_on;
use braid_wire::{
    Call,
    message::mds::{LockSet, Unlock},
};

const FILE: FileIndex = FileIndex(100);

fn lock(owner: u64) -> LockRequest {
    LockRequest {
        file: FILE,
        space: LockSpace::Range,
        owner,
        pid: 1,
        start: 0,
        last: 9,
        exclusive: true,
    }
}

/// A client whose owners 1 and 2 have a lock, and whose owner 1 closed while the server was away.
fn scene() -> (Fake, Client<Fake>) {
    let fake = Fake::striped();
    let client = fake.client();
    for owner in [1, 2] {
        assert_eq!(block_on(client.try_lock_range(&lock(owner))).unwrap(), None);
    }
    fake.cluster().mds_down = true;
    let error = block_on(client.unlock_owners(FILE, &[(LockSpace::Range, 1)])).unwrap_err();
    assert_eq!(error.status(), Status::Unreachable);
    fake.cluster().mds_down = false;
    (fake, client)
}

/// One tick of the service thread.
fn tick(fake: &Fake, client: &Client<Fake>) {
    fake.cluster().sleeps = Some(1);
    let service = client.serve();
    assert!(pin!(service).poll(&mut Context::from_waker(Waker::noop())).is_pending(), "it goes on");
    fake.cluster().sleeps = None;
}

fn unlocks(fake: &Fake) -> usize {
    fake.cluster().mds_calls.iter().filter(|op| **op == Unlock::OP).count()
}

#[test]
fn the_service_sends_unlocks_that_the_close_could_not() {
    let (fake, client) = scene();
    assert_eq!(fake.cluster().locks, [lock(1), lock(2)]);
    tick(&fake, &client);
    assert_eq!(fake.cluster().locks, [lock(2)]);
    tick(&fake, &client);
    assert_eq!(unlocks(&fake), 1, "once is enough");
}

#[test]
fn a_closed_owner_is_not_reclaimed_from_a_restarted_server() {
    let (fake, client) = scene();
    fake.cluster().restart_mds();
    tick(&fake, &client);
    assert_eq!(fake.cluster().locks_reported, [lock(2)]);
    assert_eq!(fake.cluster().locks, [lock(2)]);
}

#[test]
fn the_next_owner_of_the_same_number_keeps_its_locks() {
    let (fake, client) = scene();
    fake.cluster().mds_calls.clear();
    assert_eq!(block_on(client.try_lock_range(&lock(1))).unwrap(), None);
    let asked: Vec<u16> = fake
        .cluster()
        .mds_calls
        .iter()
        .copied()
        .filter(|op| [Unlock::OP, LockSet::OP].contains(op))
        .collect();
    assert_eq!(
        asked,
        [Unlock::OP, LockSet::OP],
        "the pending unlock of the closed owner is sent first"
    );
    tick(&fake, &client);
    assert!(fake.cluster().locks.contains(&lock(1)));
    assert_eq!(unlocks(&fake), 1);
}
