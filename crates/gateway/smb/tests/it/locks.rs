//! Locks that wait. MS-SMB2 3.3.5.14.

use std::time::Duration;

use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::lock::{LockElement, LockFlags, LockRequest};
use braid_smb_wire::smb2::{Body, Command, Empty, FileId, Flags, Header};

use crate::client::{Client, close};
use crate::server::Server;

const EXCLUSIVE: LockFlags = LockFlags::EXCLUSIVE;
const NOW: LockFlags = LockFlags::EXCLUSIVE.with(LockFlags::FAIL_IMMEDIATELY);

fn request(file_id: FileId, offset: u64, flags: LockFlags) -> LockRequest {
    LockRequest { sequence: 0, file_id, locks: vec![LockElement { offset, length: 10, flags }] }
}

impl Client {
    fn lock(&mut self, id: FileId, offset: u64, flags: LockFlags) -> NtStatus {
        self.call(Command::Lock, &request(id, offset, flags)).status()
    }

    /// Sends a LOCK that waits.
    fn wait_for_lock(&mut self, id: FileId, offset: u64) -> Header {
        let answer = self.call(Command::Lock, &request(id, offset, EXCLUSIVE));
        assert_eq!(answer.status(), NtStatus::PENDING);
        answer.header
    }

    fn last_status(&mut self, waiting: &Header) -> NtStatus {
        let answer = self.answer();
        assert_eq!(answer.header.message_id, waiting.message_id);
        assert_eq!(answer.header.async_id, waiting.async_id);
        answer.status()
    }
}

/// Two clients that have a file open, of which the first has locked its beginning.
fn two(server: &Server) -> ((Client, FileId), (Client, FileId)) {
    let (mut one, mut two) = (Client::ready(server), Client::ready(server));
    let (first, second) = (one.open("file"), two.open("file"));
    assert_eq!(one.lock(first, 0, NOW), NtStatus::SUCCESS);
    ((one, first), (two, second))
}

#[test]
fn a_lock_waits_until_the_range_is_unlocked() {
    let server = Server::new();
    let ((mut one, first), (mut two, second)) = two(&server);
    assert_eq!(two.lock(second, 5, NOW), NtStatus::LOCK_NOT_GRANTED);
    let waiting = two.wait_for_lock(second, 5);
    // Meanwhile the open locks and unlocks other ranges.
    assert_eq!(two.lock(second, 100, EXCLUSIVE), NtStatus::SUCCESS);
    assert_eq!(two.lock(second, 100, LockFlags::UNLOCK), NtStatus::SUCCESS);
    assert_eq!(one.lock(first, 0, LockFlags::UNLOCK), NtStatus::SUCCESS);
    assert_eq!(two.last_status(&waiting), NtStatus::SUCCESS);
    assert_eq!(one.lock(first, 14, NOW), NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(two.lock(second, 5, LockFlags::UNLOCK), NtStatus::SUCCESS);
    assert_eq!(one.lock(first, 14, NOW), NtStatus::SUCCESS);
}

#[test]
fn a_lock_that_is_cancelled_takes_nothing() {
    let server = Server::new();
    let ((mut one, first), (mut two, second)) = two(&server);
    let waiting = two.wait_for_lock(second, 0);
    let cancel = Header {
        flags: Flags::ASYNC,
        async_id: waiting.async_id,
        session_id: two.session,
        ..Header::request(Command::Cancel, waiting.message_id)
    };
    let message = two.signed(cancel, &Empty.to_bytes());
    two.send(&message);
    assert_eq!(two.last_status(&waiting), NtStatus::CANCELLED);
    assert_eq!(one.lock(first, 0, LockFlags::UNLOCK), NtStatus::SUCCESS);
    assert_eq!(one.lock(first, 0, NOW), NtStatus::SUCCESS);
    assert_eq!(server.share.lock_count(), 1);
}

#[test]
fn a_close_ends_the_wait_for_a_lock() {
    let server = Server::new();
    let ((mut one, first), (mut two, second)) = two(&server);
    let waiting = two.wait_for_lock(second, 0);
    let header = two.header(Command::Close);
    let message = two.signed(header, &close(second).to_bytes());
    two.send(&message);
    // The two come in either order.
    let mut statuses: Vec<_> = (0..2)
        .map(|_| two.answer())
        .map(|answer| (answer.header.message_id == waiting.message_id, answer.status()))
        .collect();
    statuses.sort_by_key(|(waited, _)| *waited);
    assert_eq!(statuses, [(false, NtStatus::SUCCESS), (true, NtStatus::RANGE_NOT_LOCKED)]);
    assert_eq!(one.lock(first, 0, LockFlags::UNLOCK), NtStatus::SUCCESS);
    assert_eq!(one.lock(first, 0, NOW), NtStatus::SUCCESS);
}

#[test]
fn the_end_of_a_connection_ends_its_waits() {
    let server = Server::new();
    let ((mut one, first), (mut two, second)) = two(&server);
    two.wait_for_lock(second, 0);
    drop(two);
    // The server sees the end of the connection a little later. Then the wait has ended as well: it
    // does not get the lock that is released now.
    let ends = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        server.share.open_count() == 1
    });
    assert!(ends, "the open of the connection is left");
    assert_eq!(one.lock(first, 0, LockFlags::UNLOCK), NtStatus::SUCCESS);
    assert_eq!(server.share.lock_count(), 0);
    assert_eq!(one.lock(first, 0, NOW), NtStatus::SUCCESS);
}
