use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

const FILE: FileIndex = FileIndex(7);

fn range(owner: u64, start: u64, last: u64) -> Lock {
    Lock { owner, start, last, exclusive: true }
}

fn is_done(future: impl Future) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(pin!(future).poll(&mut context), Poll::Ready(_))
}

#[tokio::test]
async fn only_waits_of_the_owner_and_file_overlap() {
    let waits = LockWaits::default();
    let wait = waits.begin(FILE, range(1, 10, 19)).unwrap();
    waits.begin(FILE, range(2, 10, 19)).unwrap();
    waits.begin(FileIndex(8), range(1, 10, 19)).unwrap();
    for (start, last, expected) in [(0, 9, 0), (0, 10, 1), (19, 30, 1), (20, 30, 0), (12, 13, 1)] {
        let found = waits.overlapping(FILE, &range(1, start, last));
        assert_eq!(found.len(), expected, "{start}..={last}");
    }
    assert!(Arc::ptr_eq(&waits.find(FILE, &range(1, 10, 19)).unwrap(), &wait));
    assert!(waits.find(FILE, &range(1, 10, 18)).is_none());
    waits.remove(&wait);
    assert!(waits.find(FILE, &range(1, 10, 19)).is_none());
    assert_eq!(waits.len(), 2);
}

#[tokio::test]
async fn number_of_waits_is_limited() {
    let waits = LockWaits::default();
    let all: Vec<_> =
        (0..WAITS_CLIENT_MAX as u64).map(|at| waits.begin(FILE, range(at, 0, 0))).collect();
    assert!(all.iter().all(Option::is_some));
    assert!(waits.begin(FILE, range(9999, 0, 0)).is_none());
    waits.remove(all[0].as_ref().unwrap());
    assert!(waits.begin(FILE, range(9999, 0, 0)).is_some());
}

#[tokio::test]
async fn first_decision_is_final() {
    let waits = LockWaits::default();
    let wait = waits.begin(FILE, range(1, 0, 9)).unwrap();
    assert!(!is_done(wait.fate()));
    wait.decide(Fate::Claimed);
    waits.close();
    assert_eq!(wait.fate().await, Fate::Claimed);
    assert!(waits.begin(FILE, range(2, 0, 9)).is_none(), "the client has ended");
    assert!(!is_done(wait.ended()));
    wait.end();
    assert!(is_done(wait.ended()));
}

#[tokio::test(start_paused = true)]
async fn wait_is_abandoned_without_another_request() {
    let waits = LockWaits::default();
    let wait = waits.begin(FILE, range(1, 0, 9)).unwrap();
    tokio::time::advance(WANTED_MAX - Duration::from_secs(1)).await;
    assert!(!is_done(wait.abandoned()));
    assert!(wait.renew(Instant::now()));
    tokio::time::advance(WANTED_MAX - Duration::from_secs(1)).await;
    assert!(!is_done(wait.abandoned()));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(is_done(wait.abandoned()));
    assert!(!wait.renew(Instant::now()), "it is over");
}
