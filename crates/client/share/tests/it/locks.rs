//! Byte-range locks of two clients.

use braid_share::{FileIndex, Lock, LockCancelHandle, Share, ShareClient, ShareFile, Status};

use crate::support::{client, create, on_both, refused};

on_both! {
    a_lock_conflicts_with_those_of_other_owners_and_clients,
    shared_locks_go_together_and_exclude_exclusive_ones,
    a_new_lock_replaces_what_its_owner_has_there,
    a_conflict_names_the_lock_that_another_owner_has,
    a_wait_ends_when_the_lock_is_released,
    a_cancelled_wait_ends_and_takes_nothing,
    a_handle_cancelled_before_the_wait_prevents_it,
    a_wait_that_would_never_end_fails,
    the_end_of_a_client_frees_its_locks,
    locks_reach_to_the_last_64_bit_number,
    an_empty_range_is_refused,
}

fn exclusive(owner: u64, start: u64, last: u64) -> Lock {
    Lock { owner, start, last, exclusive: true }
}

fn shared(owner: u64, start: u64, last: u64) -> Lock {
    Lock { owner, start, last, exclusive: false }
}

/// Whether the lock was granted.
async fn try_lock<C: ShareClient>(client: &C, file: FileIndex, lock: Lock) -> bool {
    client.lock(file, lock).await.expect("an answer").is_none()
}

/// Two clients, and a file that the first one has open.
async fn two<S: Share>(share: &S, top: FileIndex) -> (S::Client, S::Client, FileIndex) {
    let (one, other) = (client(share).await, client(share).await);
    let file = create(&one, top, "f").await.index();
    (one, other, file)
}

async fn a_lock_conflicts_with_those_of_other_owners_and_clients<S: Share>(
    share: S,
    top: FileIndex,
) {
    let (one, other, file) = two(&share, top).await;
    assert!(try_lock(&one, file, exclusive(1, 10, 19)).await);
    assert!(!try_lock(&one, file, exclusive(2, 19, 30)).await, "another owner");
    assert!(!try_lock(&other, file, exclusive(1, 0, 10)).await, "the same number elsewhere");
    assert!(try_lock(&other, file, exclusive(1, 0, 9)).await);
    assert!(try_lock(&other, file, exclusive(1, 20, 30)).await);
    one.unlock(file, exclusive(1, 12, 15)).await.expect("an unlock");
    assert!(try_lock(&other, file, exclusive(1, 12, 15)).await, "the middle is free");
    assert!(!try_lock(&other, file, exclusive(1, 16, 16)).await);
}

async fn shared_locks_go_together_and_exclude_exclusive_ones<S: Share>(share: S, top: FileIndex) {
    let (one, other, file) = two(&share, top).await;
    assert!(try_lock(&one, file, shared(1, 0, 9)).await);
    assert!(try_lock(&other, file, shared(1, 5, 14)).await);
    assert!(!try_lock(&other, file, exclusive(1, 9, 9)).await, "an upgrade beside a reader");
    assert!(try_lock(&other, file, exclusive(1, 10, 14)).await);
    assert!(!try_lock(&one, file, shared(1, 0, 10)).await);
}

async fn a_new_lock_replaces_what_its_owner_has_there<S: Share>(share: S, top: FileIndex) {
    let (one, other, file) = two(&share, top).await;
    assert!(try_lock(&one, file, exclusive(1, 0, 99)).await);
    assert!(try_lock(&one, file, shared(1, 40, 59)).await, "a downgrade of a part");
    assert!(try_lock(&other, file, shared(1, 40, 59)).await);
    assert!(!try_lock(&other, file, shared(1, 39, 39)).await);
    assert!(!try_lock(&other, file, shared(1, 60, 60)).await);
}

async fn a_conflict_names_the_lock_that_another_owner_has<S: Share>(share: S, top: FileIndex) {
    let (one, other, file) = two(&share, top).await;
    assert!(try_lock(&one, file, exclusive(77, 10, 19)).await);
    let wanted = shared(1, 0, 100);
    let tested = other.test_lock(file, wanted).await.expect("an answer").expect("a conflict");
    assert_eq!((tested.session, tested.owner), (one.session(), 77));
    assert_eq!((tested.start, tested.last, tested.exclusive), (10, 19, true));
    assert_eq!(other.lock(file, wanted).await.expect("an answer"), Some(tested));
    assert_eq!(one.test_lock(file, exclusive(77, 0, 100)).await.expect("an answer"), None);
    assert!(try_lock(&other, file, exclusive(1, 20, 100)).await, "a test takes nothing");
}

async fn a_wait_ends_when_the_lock_is_released<S: Share>(share: S, top: FileIndex) {
    let (one, other, file) = two(&share, top).await;
    assert!(try_lock(&one, file, exclusive(1, 0, 9)).await);
    let cancel = LockCancelHandle::new();
    let (waited, released) = tokio::join!(
        other.lock_wait(file, exclusive(1, 5, 5), &cancel),
        one.unlock(file, exclusive(1, 0, 9)),
    );
    released.expect("an unlock");
    waited.expect("the lock is free");
    assert!(!try_lock(&one, file, exclusive(1, 0, 9)).await, "the other client has it now");
}

async fn a_cancelled_wait_ends_and_takes_nothing<S: Share>(share: S, top: FileIndex) {
    let (one, other, file) = two(&share, top).await;
    assert!(try_lock(&one, file, exclusive(1, 0, 9)).await);
    let cancel = LockCancelHandle::new();
    let (waited, cancelled) = tokio::join!(
        other.lock_wait(file, exclusive(1, 0, 9), &cancel),
        other.cancel_lock(&cancel),
    );
    cancelled.expect("a cancel");
    assert_eq!(refused(waited), Status::Interrupted);
    assert!(cancel.is_cancelled());
    one.unlock(file, exclusive(1, 0, 9)).await.expect("an unlock");
    assert!(try_lock(&one, file, exclusive(2, 0, 9)).await, "nobody took it");
}

async fn a_handle_cancelled_before_the_wait_prevents_it<S: Share>(share: S, top: FileIndex) {
    let (one, _, file) = two(&share, top).await;
    let cancel = LockCancelHandle::new();
    one.cancel_lock(&cancel).await.expect("a cancel");
    let waited = one.lock_wait(file, exclusive(1, 0, 9), &cancel).await;
    assert_eq!(refused(waited), Status::Interrupted);
    assert!(try_lock(&one, file, exclusive(2, 0, 9)).await);
}

async fn a_wait_that_would_never_end_fails<S: Share>(share: S, top: FileIndex) {
    let (one, other, file) = two(&share, top).await;
    assert!(try_lock(&one, file, exclusive(1, 0, 0)).await);
    assert!(try_lock(&other, file, exclusive(1, 1, 1)).await);
    // Each waits for the other's byte. The one that fails gives up its own lock.
    let cross = async |client: &S::Client, wanted: Lock, own: Lock| {
        let cancel = LockCancelHandle::new();
        let waited = client.lock_wait(file, wanted, &cancel).await;
        client.unlock(file, own).await.expect("an unlock");
        waited
    };
    let results = tokio::join!(
        cross(&one, exclusive(1, 1, 1), exclusive(1, 0, 0)),
        cross(&other, exclusive(1, 0, 0), exclusive(1, 1, 1)),
    );
    let failed = match results {
        (Err(error), Ok(())) | (Ok(()), Err(error)) => error,
        results => panic!("one of them fails: {results:?}"),
    };
    assert_eq!(failed.status(), Status::Deadlock);
}

async fn the_end_of_a_client_frees_its_locks<S: Share>(share: S, top: FileIndex) {
    let (one, other, file) = two(&share, top).await;
    assert!(try_lock(&other, file, exclusive(1, 0, 9)).await);
    assert!(!try_lock(&one, file, exclusive(1, 0, 9)).await);
    let cancel = LockCancelHandle::new();
    let (waited, ()) =
        tokio::join!(one.lock_wait(file, exclusive(1, 0, 9), &cancel), other.clone().end());
    waited.expect("the other client has ended");
    assert_eq!(refused(other.lock(file, exclusive(1, 50, 59)).await), Status::NoSession);
}

async fn locks_reach_to_the_last_64_bit_number<S: Share>(share: S, top: FileIndex) {
    let (one, other, file) = two(&share, top).await;
    assert!(try_lock(&one, file, exclusive(1, 1 << 63, u64::MAX)).await);
    assert!(!try_lock(&other, file, shared(1, u64::MAX, u64::MAX)).await);
    assert!(try_lock(&other, file, exclusive(1, 0, (1 << 63) - 1)).await);
    one.unlock(file, exclusive(1, 0, u64::MAX)).await.expect("an unlock of everything");
    assert!(try_lock(&other, file, exclusive(1, 0, u64::MAX)).await);
}

async fn an_empty_range_is_refused<S: Share>(share: S, top: FileIndex) {
    let (one, _, file) = two(&share, top).await;
    let wrong = exclusive(1, 9, 8);
    assert_eq!(refused(one.lock(file, wrong).await), Status::Invalid);
    assert_eq!(refused(one.test_lock(file, wrong).await), Status::Invalid);
    let cancel = LockCancelHandle::new();
    assert_eq!(refused(one.lock_wait(file, wrong, &cancel).await), Status::Invalid);
}
