//! Tests of what only the in-memory file system has. `tests/it` compares the rest with a cluster.

use std::future::Future;

use braid_types::{FileIndex, Status, Timestamp};
use bytes::Bytes;

use super::{CallKind, MemoryClient, MemoryFile, MemoryShare};
use crate::{
    ClientRecord, Deny, Identity, Lock, LockCancelHandle, OpenMode, OpenTarget, Rights, Share,
    ShareClient, ShareFile,
};

const BOTH: OpenMode = OpenMode { rights: Rights::READ_WRITE, deny: Deny::NONE };
const LOCK: Lock = Lock { owner: 1, start: 0, last: 9, exclusive: true };

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
        .block_on(test)
}

async fn client(share: &MemoryShare) -> MemoryClient {
    let record = ClientRecord { name: "client".into(), record: vec![1, 2] };
    share.begin_client(record).await.expect("a session")
}

async fn file(client: &MemoryClient, name: &str) -> MemoryFile {
    let target = OpenTarget::Create {
        dir: FileIndex::ROOT,
        name: name.into(),
        exclusive: false,
        truncate: false,
        mode: 0o644,
    };
    client.open(&Identity::root(), target, BOTH).await.expect("an open").file
}

#[test]
fn the_next_call_of_a_kind_fails_and_the_one_after_it_does_not() {
    run(async {
        let share = MemoryShare::new();
        let client = client(&share).await;
        share.fail_next(CallKind::Attributes, Status::TryAgain);
        let root = Identity::root();
        client.access(&root, FileIndex::ROOT, 7).await.expect("another kind");
        let refused = client.attributes(&root, FileIndex::ROOT).await.expect_err("the fault");
        assert_eq!(refused.status(), Status::TryAgain);
        client.attributes(&root, FileIndex::ROOT).await.expect("the fault is used up");
    });
}

#[test]
fn lost_bytes_change_the_verifier_and_committed_ones_stay() {
    run(async {
        let share = MemoryShare::new();
        let client = client(&share).await;
        let file = file(&client, "f").await;
        file.write(0, Bytes::from_static(b"kept"), true).await.expect("a durable write");
        let written = file.write(0, Bytes::from_static(b"lost!"), false).await.expect("a write");
        assert!(!written.durable);
        share.lose_unflushed();
        assert_ne!(file.commit().await.expect("a commit"), written.verifier);
        assert_eq!(file.read(0, 10).await.expect("a read").data, "kept");
        file.close().await.expect("the commit has reported the loss");
    });
}

#[test]
fn a_close_reports_a_loss_that_no_commit_has_reported() {
    run(async {
        let share = MemoryShare::new();
        let client = client(&share).await;
        let file = file(&client, "f").await;
        file.write(0, Bytes::from_static(b"lost"), false).await.expect("a write");
        share.lose_unflushed();
        let lost = file.close().await.expect_err("the loss");
        assert_eq!(lost.status(), Status::UnsyncedDataLost);
    });
}

#[test]
fn times_are_those_that_the_test_sets() {
    run(async {
        let share = MemoryShare::new();
        let client = client(&share).await;
        share.set_time(Timestamp { seconds: 1000, nanos: 5 });
        let made = file(&client, "f").await;
        let attributes = made.attributes().await.expect("attributes");
        assert_eq!(attributes.btime, Timestamp { seconds: 1000, nanos: 5 });
        share.set_time(Timestamp { seconds: 2000, nanos: 0 });
        made.write(0, Bytes::from_static(b"x"), false).await.expect("a write");
        let attributes = made.attributes().await.expect("attributes");
        assert_eq!((attributes.mtime.seconds, attributes.btime.seconds), (2000, 1000));
    });
}

#[test]
fn dropping_the_last_clone_of_a_file_closes_it() {
    run(async {
        let share = MemoryShare::new();
        let client = client(&share).await;
        let file = file(&client, "f").await;
        let clone = file.clone();
        drop(file);
        assert_eq!(share.open_count(), 1);
        drop(clone);
        assert_eq!(share.open_count(), 0);
    });
}

#[test]
fn a_wait_whose_task_goes_away_leaves_no_lock_behind() {
    run(async {
        let share = MemoryShare::new();
        let (one, other) = (client(&share).await, client(&share).await);
        let index = file(&one, "f").await.index();
        assert_eq!(one.lock(index, LOCK).await.expect("a lock"), None);
        let cancel = LockCancelHandle::new();
        let waits = {
            let mut wait = Box::pin(other.lock_wait(index, LOCK, &cancel));
            std::future::poll_fn(|context| {
                assert!(wait.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(share.lock_wait_count())
            })
            .await
        };
        assert_eq!((waits, share.lock_wait_count()), (1, 0));
        one.unlock(index, LOCK).await.expect("the owner unlocks");
        assert_eq!(share.lock_count(), 0);
    });
}

#[test]
fn an_expired_session_ends_its_waits_opens_and_locks() {
    run(async {
        let share = MemoryShare::new();
        let (one, other) = (client(&share).await, client(&share).await);
        let (mine, its) = (file(&one, "f").await, file(&other, "f").await);
        one.lock(mine.index(), LOCK).await.expect("a lock");
        let cancel = LockCancelHandle::new();
        let ((), waited) = tokio::join!(
            async { share.expire_session(other.session()) },
            other.lock_wait(mine.index(), LOCK, &cancel),
        );
        assert_eq!(waited.expect_err("the session ended").status(), Status::NoSession);
        assert_eq!(its.read(0, 1).await.expect_err("it ended").status(), Status::NoSession);
        assert_eq!((share.open_count(), share.lock_count()), (1, 1));
    });
}

#[test]
fn another_gateway_sees_the_same_files_and_has_its_own_number() {
    run(async {
        let share = MemoryShare::new();
        let again = share.another_gateway();
        assert_ne!(share.gateway_id(), again.gateway_id());
        assert_eq!(share.file_system(), again.file_system());
        let index = file(&share.own_client(), "f").await.index();
        let found = again.own_client().look_up(&Identity::root(), FileIndex::ROOT, b"f").await;
        assert_eq!(found.expect("the file").file, index);
    });
}

#[test]
fn records_of_live_clients_are_listed_until_they_end() {
    run(async {
        let share = MemoryShare::new();
        let client = client(&share).await;
        let records = |share: &MemoryShare| share.client_records().len();
        assert_eq!(records(&share), 2, "the gateway's own session has one, too");
        client.end().await;
        assert_eq!(records(&share), 1);
    });
}
