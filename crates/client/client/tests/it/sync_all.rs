//! `sync_all` on an in-memory cluster: which servers are called, and which losses are reported.

use std::time::Duration;

use crate::fake::{Fake, Fault};
use braid_client::{
    OpenOptions, Result, Status,
    asynchronous::{Client, File},
};
use braid_net::block_on;
use braid_types::{IodId, WriteVerifier};
use braid_wire::{
    Call,
    message::{
        iod::{Flush, FlushAll},
        mds::FsyncDirectory,
    },
};

const DAEMONS: [IodId; 3] = [IodId(1), IodId(2), IodId(3)];

fn written(client: &Client<Fake>, path: &str) -> File<Fake> {
    let file = block_on(client.open(path, &OpenOptions::new().write(true).create(true))).unwrap();
    block_on(file.write_at(&[1; 3 * 4096], 0)).unwrap();
    file
}

fn write_and_close(client: &Client<Fake>, path: &str) {
    block_on(written(client, path).close()).unwrap();
}

fn sync_all(client: &Client<Fake>) -> Result<()> {
    block_on(client.sync_all())
}

/// The host of a daemon lost power and is back.
fn lose_power(fake: &Fake, iod: IodId) {
    fake.cluster().verifiers.get_mut(&iod).unwrap().0 += 1;
}

fn flushes(fake: &Fake) -> [usize; 3] {
    DAEMONS.map(|iod| fake.cluster().requests_to(iod, FlushAll::OP))
}

#[test]
fn sync_all_calls_each_daemon_once_and_syncs_the_log() {
    let fake = Fake::striped();
    let client = fake.client();
    (0..50).for_each(|number| write_and_close(&client, &format!("/{number}")));
    sync_all(&client).unwrap();
    assert_eq!(flushes(&fake), [1; 3]);
    assert_eq!(fake.cluster().mds_calls.iter().filter(|op| **op == FsyncDirectory::OP).count(), 1);
    assert_eq!(fake.cluster().requests_to(IodId(1), Flush::OP), 0);
}

#[test]
fn losses_of_a_closed_file_are_reported_once_with_the_daemon() {
    let fake = Fake::striped();
    let client = fake.client();
    write_and_close(&client, "/a");
    lose_power(&fake, IodId(2));
    let error = sync_all(&client).unwrap_err();
    assert_eq!((error.status(), error.errno()), (Status::UnsyncedDataLost, 5));
    assert!(
        error.to_string().starts_with("sync everything: ")
            && error.to_string().contains("I/O daemon 2"),
        "{error}"
    );
    sync_all(&client).unwrap();
}

#[test]
fn a_loss_reported_by_a_close_is_also_reported_by_sync_all() {
    let fake = Fake::striped();
    let client = fake.client();
    let file = written(&client, "/a");
    lose_power(&fake, IodId(2));
    block_on(file.write_at(&[1; 3 * 4096], 0)).unwrap();
    assert_eq!(block_on(file.close()).unwrap_err().status(), Status::UnsyncedDataLost);
    assert_eq!(sync_all(&client).unwrap_err().status(), Status::UnsyncedDataLost);
    sync_all(&client).unwrap();
}

#[test]
fn a_power_failure_after_sync_all_loses_no_earlier_write() {
    let fake = Fake::striped();
    let client = fake.client();
    let (before, after) = (written(&client, "/a"), written(&client, "/b"));
    write_and_close(&client, "/c");
    sync_all(&client).unwrap();
    block_on(after.write_at(&[2; 10], 0)).unwrap();
    lose_power(&fake, IodId(1));
    block_on(before.sync()).unwrap();
    assert_eq!(block_on(after.sync()).unwrap_err().status(), Status::UnsyncedDataLost);
}

#[test]
fn a_file_that_was_synced_before_is_no_loss() {
    let fake = Fake::striped();
    let client = fake.client();
    let file = written(&client, "/a");
    block_on(file.sync()).unwrap();
    block_on(file.close()).unwrap();
    lose_power(&fake, IodId(1));
    sync_all(&client).unwrap();
}

#[test]
fn an_unresponsive_daemon_is_named_while_the_others_flush() {
    let fake = Fake::striped();
    let client = fake.client();
    write_and_close(&client, "/a");
    lose_power(&fake, IodId(3));
    fake.cluster().down.insert(IodId(2));
    let began = fake.cluster().now;
    let error = sync_all(&client).unwrap_err();
    assert_eq!(error.status(), Status::Unreachable);
    assert!(error.to_string().contains("I/O daemon 2"), "{error}");
    assert!(fake.cluster().now - began <= Duration::from_secs(30), "I8");
    assert_eq!(flushes(&fake), [1, 0, 1]);
    fake.cluster().down.clear();
    let error = sync_all(&client).unwrap_err();
    assert_eq!(error.status(), Status::UnsyncedDataLost);
    assert!(error.to_string().contains("I/O daemon 3"), "{error}");
    sync_all(&client).unwrap();
}

#[test]
fn a_failing_daemon_is_reported_and_the_others_flush() {
    let fake = Fake::striped();
    let client = fake.client();
    fake.fault(FlushAll::OP, Fault::Refused(Status::DiskError));
    let error = sync_all(&client).unwrap_err();
    assert_eq!((error.status(), error.errno()), (Status::DiskError, 5));
    assert!(error.to_string().contains("I/O daemon 1"), "{error}");
    assert_eq!(flushes(&fake), [0, 1, 1]);
}

#[test]
fn without_the_metadata_server_it_fails_in_time_and_names_it() {
    let fake = Fake::striped();
    let client = fake.client();
    write_and_close(&client, "/a");
    let began = {
        let mut cluster = fake.cluster();
        cluster.mds_down = true;
        cluster.now
    };
    let error = sync_all(&client).unwrap_err();
    assert!(error.to_string().contains("metadata server"), "{error}");
    assert!(fake.cluster().now - began <= Duration::from_secs(30), "I8");
}

#[test]
fn a_call_with_a_lost_or_late_reply_is_retried() {
    for fault in
        [Fault::RequestLost, Fault::ReplyLost, Fault::ReplyLate, Fault::Refused(Status::TryAgain)]
    {
        let fake = Fake::striped();
        let client = fake.client();
        write_and_close(&client, "/a");
        fake.fault(FlushAll::OP, fault);
        sync_all(&client).unwrap();
        assert!(
            flushes(&fake).into_iter().all(|of_one| of_one >= 1),
            "{fault:?}: {:?}",
            flushes(&fake)
        );
    }
}

#[test]
fn a_daemon_that_joined_since_is_asked() {
    let fake = Fake::striped();
    let client = fake.client();
    write_and_close(&client, "/a");
    fake.cluster().verifiers.insert(IodId(4), WriteVerifier(1));
    fake.cluster().addresses.insert(IodId(4), vec!["iod4:1".into()]);
    sync_all(&client).unwrap();
    assert_eq!(fake.cluster().requests_to(IodId(4), FlushAll::OP), 1);
}
