//! LOCK.

use braid_share::Status;
use braid_share::memory::CallKind;
use braid_smb_wire::smb2::lock::{LockElement, LockFlags, LockRequest};

use super::*;
use crate::pending::Outcome;

pub(super) const EXCLUSIVE: LockFlags = LockFlags(0x12);
const SHARED: LockFlags = LockFlags(0x11);
pub(super) const UNLOCK: LockFlags = LockFlags::UNLOCK;

pub(super) async fn lock(
    client: &Client,
    id: FileId,
    elements: &[(u64, u64, LockFlags)],
) -> OpResult {
    let element = |(offset, length, flags): &_| LockElement {
        offset: *offset,
        length: *length,
        flags: *flags,
    };
    let locks = elements.iter().map(element).collect();
    let request = LockRequest { sequence: 0, file_id: id, locks };
    match super::super::lock::lock(&client.context(), request).await? {
        Outcome::Done(done) => done,
        Outcome::Waits(_) => panic!("the request waits"),
    }
}

#[tokio::test]
async fn opens_of_two_clients_exclude_each_other() {
    let one = Client::new(user()).await;
    let two = Client::of(&one.server, user(), 2).await;
    one.put("file", b"0123456789", 0o666).await;
    let (first, second) =
        (one.open("file", BOTH).await.unwrap(), two.open("file", BOTH).await.unwrap());
    let refused = Err(NtStatus::LOCK_NOT_GRANTED);
    lock(&one, first, &[(0, 5, EXCLUSIVE)]).await.unwrap();
    assert_eq!(lock(&two, second, &[(4, 1, SHARED)]).await, refused);
    // All or none: the second range is not free.
    assert_eq!(lock(&two, second, &[(5, 5, EXCLUSIVE), (0, 1, SHARED)]).await, refused);
    lock(&one, first, &[(5, 5, EXCLUSIVE)]).await.unwrap();
    lock(&one, first, &[(0, 5, UNLOCK)]).await.unwrap();
    lock(&two, second, &[(0, 5, SHARED)]).await.unwrap();
    one.close(first).await.unwrap();
    two.close(second).await.unwrap();
    one.assert_nothing_open();
}

#[tokio::test]
async fn a_range_is_unlocked_as_it_was_locked() {
    let client = Client::new(user()).await;
    client.put("file", b"0123456789", 0o666).await;
    let id = client.open("file", BOTH).await.unwrap();
    lock(&client, id, &[(0, 5, SHARED), (5, 5, SHARED)]).await.unwrap();
    let not_locked = Err(NtStatus::RANGE_NOT_LOCKED);
    assert_eq!(lock(&client, id, &[(0, 10, UNLOCK)]).await, not_locked);
    assert_eq!(lock(&client, id, &[(0, 4, UNLOCK)]).await, not_locked);
    lock(&client, id, &[(0, 5, UNLOCK), (5, 5, UNLOCK)]).await.unwrap();
    assert_eq!(lock(&client, id, &[(0, 5, UNLOCK)]).await, not_locked);
    assert_eq!(client.share().lock_count(), 0);
}

#[tokio::test]
async fn overlapping_shared_locks_of_an_open_are_counted() {
    let one = Client::new(user()).await;
    let two = Client::of(&one.server, user(), 2).await;
    one.put("file", b"0123456789", 0o666).await;
    let (first, second) =
        (one.open("file", BOTH).await.unwrap(), two.open("file", BOTH).await.unwrap());
    lock(&one, first, &[(0, 6, SHARED), (4, 6, SHARED)]).await.unwrap();
    lock(&one, first, &[(0, 6, UNLOCK)]).await.unwrap();
    // Bytes 4 and 5 have the second lock still.
    lock(&two, second, &[(0, 4, EXCLUSIVE)]).await.unwrap();
    let refused = Err(NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(lock(&two, second, &[(4, 1, EXCLUSIVE)]).await, refused);
}

#[tokio::test]
async fn a_lock_needs_access_to_bytes_and_a_file() {
    let client = Client::new(user()).await;
    let id = client.open("file", ATTRIBUTES).await.unwrap();
    assert_eq!(lock(&client, id, &[(0, 1, SHARED)]).await, Err(NtStatus::ACCESS_DENIED));
    let root = client.open("", READ).await.unwrap();
    let refused = lock(&client, root, &[(0, 1, SHARED)]).await;
    assert_eq!(refused, Err(NtStatus::INVALID_DEVICE_REQUEST));
}

#[tokio::test]
async fn a_request_has_at_most_64_ranges() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH).await.unwrap();
    for (count, flags, result) in [
        (65, SHARED, Err(NtStatus::INVALID_PARAMETER)),
        (64, SHARED, Ok(())),
        (65, UNLOCK, Err(NtStatus::INVALID_PARAMETER)),
        (64, UNLOCK, Ok(())),
    ] {
        let ranges: Vec<_> = (0..count).map(|number| (number, 1, flags)).collect();
        assert_eq!(lock(&client, id, &ranges).await.map(drop), result, "{count} {flags:?}");
    }
    assert_eq!(client.share().lock_count(), 0);
}

#[tokio::test]
async fn a_lock_that_runs_when_its_open_was_closed_leaves_nothing() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH).await.unwrap();
    let open = client.session.open(id).unwrap();
    client.close(id).await.unwrap();
    let element = LockElement { offset: 0, length: 1, flags: EXCLUSIVE };
    let wanted = super::super::lock::wanted(&[element]).unwrap();
    let (session, file) = (client.session.client(), open.file().unwrap());
    let late = super::super::lock::change(session, &client.server.range_locks, file, wanted);
    assert_eq!(late.await.map_err(NtStatus::from), Err(NtStatus::FILE_CLOSED));
    client.assert_nothing_open();
}

#[tokio::test]
async fn a_lock_that_could_not_be_undone_ends_with_its_open() {
    let one = Client::new(user()).await;
    let two = Client::of(&one.server, user(), 2).await;
    let (first, second) =
        (one.open("file", BOTH).await.unwrap(), two.open("file", BOTH).await.unwrap());
    lock(&two, second, &[(5, 1, EXCLUSIVE)]).await.unwrap();
    one.share().fail_next(CallKind::Unlock, Status::Busy);
    let refused = Err(NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(lock(&one, first, &[(0, 1, EXCLUSIVE), (5, 1, EXCLUSIVE)]).await, refused);
    assert_eq!(one.share().lock_count(), 2);
    one.close(first).await.unwrap();
    assert_eq!(one.share().lock_count(), 1, "that of the other");
}

#[tokio::test]
async fn a_shared_lock_between_exclusive_ones_goes_and_they_stay() {
    let one = Client::new(user()).await;
    let two = Client::of(&one.server, user(), 2).await;
    let (first, second) =
        (one.open("file", BOTH).await.unwrap(), two.open("file", BOTH).await.unwrap());
    lock(&one, first, &[(2, 2, EXCLUSIVE), (6, 2, EXCLUSIVE)]).await.unwrap();
    lock(&one, first, &[(0, 10, SHARED)]).await.unwrap();
    let refused = Err(NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(lock(&two, second, &[(2, 1, SHARED)]).await, refused);
    lock(&two, second, &[(4, 1, SHARED)]).await.unwrap();
    lock(&two, second, &[(4, 1, UNLOCK)]).await.unwrap();
    lock(&one, first, &[(0, 10, UNLOCK)]).await.unwrap();
    lock(&two, second, &[(4, 2, EXCLUSIVE), (8, 2, EXCLUSIVE)]).await.unwrap();
    assert_eq!(lock(&two, second, &[(7, 1, SHARED)]).await, refused);
}

#[tokio::test]
async fn copies_and_holes_respect_the_locks_of_other_opens() {
    let one = Client::new(user()).await;
    let two = Client::of(&one.server, user(), 2).await;
    one.put("file", b"0123456789", 0o666).await;
    let (first, second) =
        (one.open("file", BOTH).await.unwrap(), two.open("file", BOTH).await.unwrap());
    let other = two.open("other", BOTH).await.unwrap();
    super::data::write(&two, other, 0, b"abcdefghij").await.unwrap();
    lock(&one, first, &[(0, 5, EXCLUSIVE)]).await.unwrap();
    let conflict = NtStatus::FILE_LOCK_CONFLICT;
    for (source, target, offset, result) in [
        (second, other, 4, Err(conflict)),
        (other, second, 4, Err(conflict)),
        (second, other, 5, Ok(())),
        (other, second, 5, Ok(())),
    ] {
        let copied = super::data::copy(&two, source, target, offset, 1).await;
        assert_eq!(copied, result, "{source:?} {target:?} {offset}");
    }
    assert_eq!(super::data::zero(&two, second, 4, 6).await, Err(conflict));
    super::data::zero(&two, second, 5, 6).await.unwrap();
}

#[tokio::test]
async fn reads_and_writes_respect_the_locks_of_other_opens() {
    let one = Client::new(user()).await;
    let two = Client::of(&one.server, user(), 2).await;
    one.put("file", b"0123456789", 0o666).await;
    let (first, second) =
        (one.open("file", BOTH).await.unwrap(), two.open("file", BOTH).await.unwrap());
    lock(&one, first, &[(0, 5, EXCLUSIVE)]).await.unwrap();
    let conflict = NtStatus::FILE_LOCK_CONFLICT;
    let read = |client, id, offset| super::data::read(client, id, offset, 1);
    let write = |client, id, offset| super::data::write(client, id, offset, b"x");
    assert_eq!(read(&two, second, 4).await, Err(conflict));
    assert_eq!(write(&two, second, 4).await.map(drop), Err(conflict));
    read(&two, second, 5).await.unwrap();
    read(&one, first, 4).await.unwrap();
    write(&one, first, 4).await.unwrap();
    lock(&one, first, &[(0, 5, UNLOCK)]).await.unwrap();
    lock(&one, first, &[(0, 5, SHARED)]).await.unwrap();
    read(&two, second, 4).await.unwrap();
    assert_eq!(write(&one, first, 4).await.map(drop), Err(conflict), "also its own");
    one.close(first).await.unwrap();
    write(&two, second, 4).await.unwrap();
}
