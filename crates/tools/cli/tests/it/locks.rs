//! Locks of two clients on a real cluster.
#![cfg(unix)]

use std::{sync::Barrier, thread};

use crate::harness::Cluster;
use braid_client::{
    Client, FileIndex, LockCancelHandle, LockRange, LockRequest, LockSpace, OpenOptions, Status,
};

fn lock(file: FileIndex, owner: u64, byte: u64) -> LockRequest {
    LockRequest {
        file,
        space: LockSpace::Range,
        owner,
        pid: 1,
        start: byte,
        last: byte,
        exclusive: true,
    }
}

fn all(file: FileIndex, owner: u64) -> LockRange {
    LockRange { file, space: LockSpace::Range, owner, start: 0, last: u64::MAX }
}

fn file(client: &Client) -> FileIndex {
    client.open("/f", &OpenOptions::new().write(true).create(true)).unwrap().index()
}

#[test]
fn two_clients_with_threads_increment_a_locked_counter_without_loss() {
    const ROUNDS: u64 = 200;
    let cluster = Cluster::up(1);
    let clients = [cluster.client(), cluster.client()];
    let counter =
        clients[0].open("/f", &OpenOptions::new().read(true).write(true).create(true)).unwrap();
    counter.write_at(&0_u64.to_le_bytes(), 0).unwrap();
    thread::scope(|scope| {
        for (client, owner) in clients.iter().flat_map(|client| [(client, 1), (client, 2)]) {
            scope.spawn(move || {
                let file = client.open("/f", &OpenOptions::new().read(true).write(true)).unwrap();
                let lock = lock(file.index(), owner, 0);
                for _ in 0..ROUNDS {
                    client.lock_range(&lock, &LockCancelHandle::new()).unwrap();
                    let mut count = [0; 8];
                    assert_eq!(file.read_at(&mut count, 0).unwrap(), 8);
                    file.write_at(&(u64::from_le_bytes(count) + 1).to_le_bytes(), 0).unwrap();
                    client.unlock_range(&all(file.index(), owner)).unwrap();
                    assert!(!client.has_locks(file.index(), owner));
                }
            });
        }
    });
    let mut count = [0; 8];
    counter.read_at(&mut count, 0).unwrap();
    assert_eq!(u64::from_le_bytes(count), 4 * ROUNDS);
}

#[test]
fn a_wait_for_a_lock_is_ended_by_another_thread_and_leaves_the_lock_alone() {
    let cluster = Cluster::up(1);
    let (one, other) = (cluster.client(), cluster.client());
    let file = file(&one);
    assert_eq!(one.try_lock_range(&lock(file, 1, 0)).unwrap(), None);
    let holder = other.test_lock(&lock(file, 1, 0)).unwrap().unwrap();
    assert_eq!((holder.owner, holder.start, holder.last), (1, 0, 0));
    let (cancel, ready) = (LockCancelHandle::new(), Barrier::new(2));
    thread::scope(|scope| {
        let wait = scope.spawn(|| {
            ready.wait();
            other.lock_range(&lock(file, 2, 0), &cancel)
        });
        ready.wait();
        // Whether the cancel comes before, during or after the start of the wait.
        other.cancel_lock(&cancel).unwrap();
        assert_eq!(wait.join().unwrap().unwrap_err().status(), Status::Interrupted);
    });
    one.unlock_range(&all(file, 1)).unwrap();
    assert_eq!(one.try_lock_range(&lock(file, 3, 0)).unwrap(), None, "nobody got it");
    assert!(!other.has_locks(file, 2));
}

#[test]
fn two_clients_that_wait_for_each_other_are_told_of_the_deadlock() {
    let cluster = Cluster::up(1);
    let (one, other) = (cluster.client(), cluster.client());
    let file = file(&one);
    one.try_lock_range(&lock(file, 1, 0)).unwrap();
    other.try_lock_range(&lock(file, 1, 1)).unwrap();
    let waits = |client: &Client, mine: u64, other: u64| {
        let outcome = client.lock_range(&lock(file, 1, other), &LockCancelHandle::new());
        // A refused client releases its locks, so that the other one can continue.
        let _ = client.unlock_range(&LockRange { start: mine, last: mine, ..all(file, 1) });
        outcome.map_err(|error| error.status())
    };
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| waits(&one, 0, 1));
        let second = scope.spawn(|| waits(&other, 1, 0));
        (first.join().unwrap(), second.join().unwrap())
    });
    let refused =
        [first, second].into_iter().filter(|outcome| *outcome == Err(Status::Deadlock)).count();
    assert_eq!((refused, [first, second].contains(&Ok(()))), (1, true), "{first:?} {second:?}");
}

#[test]
fn a_lock_outlives_a_restart_of_the_servers() {
    let cluster = Cluster::up(1);
    let (one, other) = (cluster.client(), cluster.client());
    let file = file(&one);
    let shared = LockRequest { last: 99, exclusive: false, ..lock(file, 1, 0) };
    one.try_lock_range(&shared).unwrap();
    one.unlock_range(&LockRange { start: 50, last: 50, ..all(file, 1) }).unwrap();
    cluster.restart_after(|| {});
    assert_eq!(
        one.try_lock_range(&lock(file, 1, 200)).unwrap(),
        None,
        "as soon as both clients have reclaimed their locks"
    );
    let held =
        other.try_lock_range(&LockRequest { last: 99, ..lock(file, 2, 51) }).unwrap().unwrap();
    assert_eq!((held.start, held.last, held.exclusive), (51, 99, false));
    assert_eq!(other.try_lock_range(&lock(file, 2, 50)).unwrap(), None);
}
