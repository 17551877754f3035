//! Calls of the metadata server, sessions, capabilities and failures, on an in-memory cluster.

use std::time::Duration;

use crate::fake::{Fake, Fault};
use braid_client::{
    Config, Credential, FileIndex, OpenOptions, Result, Status,
    asynchronous::{Client, File},
};
use braid_net::block_on;
use braid_types::{IodId, WriteVerifier};
use braid_wire::{
    Call,
    message::{iod, mds},
};

fn writable() -> OpenOptions {
    OpenOptions::new().read(true).write(true).create(true)
}

fn open(fake: &Fake) -> File<Fake> {
    block_on(fake.client().open("/f", &writable())).unwrap()
}

/// Writes one byte and reads it back.
fn works(file: &File<Fake>) -> Result<()> {
    block_on(file.write_at(b"x", 0))?;
    let mut buffer = [0; 1];
    assert_eq!(block_on(file.read_at(&mut buffer, 0))?, 1);
    assert_eq!(&buffer, b"x");
    Ok(())
}

fn presents_and_connects(fake: &Fake) -> (usize, usize) {
    let cluster = fake.cluster();
    (cluster.presents, cluster.connects)
}

fn is_send(_: &impl Send) {}

#[test]
fn every_future_can_move_between_threads() {
    let fake = Fake::striped();
    let client = fake.client();
    let options = writable();
    is_send(&client.open("/f", &options));
    is_send(&client.stat(String::from("/f")));
    is_send(&client.symlink("/l", b"f"));
    is_send(&client.serve());
    let file = open(&fake);
    let (mut buffer, list) = ([0], [braid_client::Extent { offset: 0, bytes: 1 }]);
    is_send(&file.write_at(b"x", 0));
    is_send(&file.write_list(&list, &[]));
    is_send(&file.sync());
    is_send(&file.clone().close());
    is_send(&file.read_at(&mut buffer, 0));
}

#[test]
fn open_create_and_stat_are_one_round_trip() {
    let fake = Fake::striped();
    let client = fake.client();
    block_on(client.whoami()).unwrap();
    for (op, call) in [(mds::Create::OP, 0), (mds::Open::OP, 1), (mds::Stat::OP, 2)] {
        fake.cluster().mds_calls.clear();
        match call {
            0 => drop(block_on(client.open("/f", &writable())).unwrap()),
            1 => drop(block_on(client.open("/f", &OpenOptions::new().read(true))).unwrap()),
            _ => drop(block_on(client.stat("/f")).unwrap()),
        }
        assert_eq!(fake.cluster().mds_calls, [op]);
    }
}

#[test]
fn a_create_is_done_once_however_its_answer_is_lost() {
    for fault in [Fault::RequestLost, Fault::ReplyLost, Fault::ReplyLate] {
        let fake = Fake::striped();
        fake.fault(mds::Create::OP, fault);
        fake.fault(mds::Create::OP, Fault::ReplyLost);
        let options = OpenOptions::new().write(true).create_new(true);
        let (_, created) = block_on(fake.client().create("/new", &options)).unwrap();
        assert!(
            created,
            "{fault:?}: the repetition is answered from the record, not with `exists` (I7)"
        );
        assert_eq!(fake.cluster().done, ["create"]);
    }
}

#[test]
fn a_mkdir_is_answered_from_the_replay_record_after_a_restart() {
    let fake = Fake::striped();
    fake.fault(mds::MakeDirectory::OP, Fault::RestartAfter);
    block_on(fake.client().mkdir("/d", 0o755)).unwrap();
    assert_eq!(fake.cluster().done, ["mkdir"]);
}

#[test]
fn calls_in_one_slot_have_sequences_that_rise() {
    let fake = Fake::striped();
    let client = fake.client();
    for name in ["/a", "/b", "/c"] {
        fake.fault(mds::MakeDirectory::OP, Fault::ReplyLost);
        block_on(client.mkdir(name, 0o755)).unwrap();
    }
    let error = block_on(client.mkdir("/a", 0o755)).unwrap_err();
    assert_eq!(
        (error.status(), error.path()),
        (Status::Exists, Some("/a")),
        "a new call is no repetition"
    );
    assert_eq!(fake.cluster().done.len(), 3);
}

#[test]
fn a_change_whose_fate_died_with_its_session_is_not_repeated() {
    let fake = Fake::striped();
    let client = fake.client();
    block_on(client.whoami()).unwrap();
    fake.fault(mds::MakeDirectory::OP, Fault::ReplyLost);
    // The repetition finds no session, and so no replay record.
    fake.fault(mds::OpenSession::OP, Fault::SessionForgotten);
    let error = block_on(client.mkdir("/d", 0o755)).unwrap_err();
    assert_eq!(error.status(), Status::ConnectionLost);
    assert!(error.to_string().contains("it is unknown whether it was done"), "{error}");
    assert_eq!(fake.cluster().done, ["mkdir"], "once");
}

#[test]
fn a_call_that_never_reached_the_dead_session_is_done_in_the_new_one() {
    let fake = Fake::striped();
    let client = fake.client();
    block_on(client.whoami()).unwrap();
    fake.fault(mds::MakeDirectory::OP, Fault::SessionForgotten);
    block_on(client.mkdir("/d", 0o755)).unwrap();
    assert_eq!(fake.cluster().done, ["mkdir"]);
}

#[test]
fn a_lost_metadata_server_is_named_within_the_timeout() {
    let fake = Fake::striped();
    fake.cluster().mds_down = true;
    let error = block_on(fake.client().stat("/f")).unwrap_err();
    assert_eq!(
        (error.status(), error.server()),
        (Status::Unreachable, Some("metadata server at mds:1"))
    );
    assert!(error.to_string().starts_with("stat /f: gave up after"), "{error}");
    assert!(error.to_string().ends_with("try: braid status"), "{error}");
    assert!(fake.cluster().now <= Duration::from_secs(30), "I8");
}

#[cfg(unix)]
#[test]
fn a_missing_agent_is_reported_soon_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let left_behind = dir.path().join("left-behind.sock");
    drop(std::os::unix::net::UnixListener::bind(&left_behind).unwrap());
    for socket in [dir.path().join("none.sock"), left_behind] {
        let fake = Fake::striped();
        let client = braid_client::asynchronous::Client::over(
            fake.clone(),
            braid_client::Config::new(["mds:1"], braid_client::Credential::Agent(socket.clone())),
        );
        let error = block_on(client.stat("/f")).unwrap_err();
        let waited = fake.cluster().now;
        assert!((Duration::from_secs(2)..Duration::from_secs(3)).contains(&waited), "{waited:?}");
        assert_eq!((error.status(), error.path()), (Status::Unreachable, Some("/f")));
        let agent = format!("(agent at {})", socket.display());
        assert!(error.to_string().contains(&agent), "{error}");
        assert!(
            error.to_string().ends_with("try: braid agent, as the owner of the client key"),
            "{error}"
        );
    }
}

#[test]
fn a_call_whose_replies_are_all_lost_gives_up_at_the_deadline() {
    let fake = Fake::striped();
    let file = open(&fake);
    let start = fake.cluster().now;
    for _ in 0..100 {
        fake.fault(iod::Read::OP, Fault::ReplyLate);
        fake.fault(mds::Stat::OP, Fault::ReplyLate);
    }
    let error = block_on(file.read_at(&mut [0; 10], 0)).unwrap_err();
    assert_eq!((error.status(), error.path()), (Status::Unreachable, Some("/f")));
    assert!(error.server().unwrap().starts_with("I/O daemon 1"), "{error}");
    assert!(fake.cluster().now - start <= Duration::from_secs(30), "I8");
    let start = fake.cluster().now;
    assert_eq!(block_on(file.attributes()).unwrap_err().status(), Status::Unreachable);
    assert!(fake.cluster().now - start <= Duration::from_secs(30), "I8");
}

#[test]
fn a_server_that_replied_try_again_is_not_reported_as_silent() {
    use Fault::{Refused, ReplyLate};
    let again = Refused(Status::TryAgain);
    for (faults, is_silent) in [
        ([ReplyLate, ReplyLate, again, ReplyLate], false),
        ([again, ReplyLate, ReplyLate, ReplyLate], true),
    ] {
        let fake = Fake::striped();
        let file = open(&fake);
        faults.into_iter().for_each(|fault| fake.fault(mds::Stat::OP, fault));
        let error = block_on(file.attributes()).unwrap_err();
        assert!(error.status() == Status::Unreachable && error.was_given_up(), "{error}");
        assert_eq!(error.to_string().contains("did not answer"), is_silent, "{error}");
    }
}

#[test]
fn a_daemon_that_comes_back_in_time_is_not_noticed() {
    let fake = Fake::striped();
    let file = open(&fake);
    works(&file).unwrap();
    for _ in 0..5 {
        fake.fault(iod::Write::OP, Fault::RequestLost);
    }
    works(&file).unwrap();
}

#[test]
fn a_daemon_that_moved_is_found_by_the_cluster_map() {
    let fake = Fake::striped();
    let file = open(&fake);
    fake.cluster().addresses.insert(IodId(1), vec!["elsewhere:9".into()]);
    works(&file).unwrap();
    assert_eq!(fake.cluster().addresses_used, ["elsewhere:9"]);
}

#[test]
fn data_flows_while_the_metadata_server_is_away() {
    let fake = Fake::striped();
    let file = open(&fake);
    fake.cluster().mds_down = true;
    works(&file).unwrap();
    fake.fault(iod::Read::OP, Fault::RequestLost);
    works(&file).unwrap();
}

#[test]
fn connections_are_spread_over_all_addresses_of_a_daemon() {
    let fake = Fake::striped();
    let file = open(&fake);
    for _ in 0..4 {
        fake.fault(iod::Write::OP, Fault::ReplyLost);
        works(&file).unwrap();
    }
    let used = fake.cluster().addresses_used.clone();
    assert_eq!(used, ["iod1:1", "iod1:2", "iod1:1", "iod1:2", "iod1:1"]);
}

#[test]
fn a_capability_is_presented_once_for_each_connection() {
    let fake = Fake::striped();
    let file = open(&fake);
    for _ in 0..5 {
        works(&file).unwrap();
    }
    assert_eq!(presents_and_connects(&fake), (1, 1));
    fake.fault(iod::Read::OP, Fault::Refused(Status::UnknownHandle));
    works(&file).unwrap();
    assert_eq!(presents_and_connects(&fake), (2, 1));
}

#[test]
fn a_restart_of_the_metadata_server_is_transparent_to_open_files() {
    let fake = Fake::striped();
    let file = open(&fake);
    works(&file).unwrap();
    fake.cluster().restart_mds();
    works(&file).unwrap();
    let renewals =
        fake.cluster().mds_calls.iter().filter(|op| **op == mds::RenewCapability::OP).count();
    assert_eq!(renewals, 1);
}

#[test]
fn a_session_that_ended_is_replaced_and_its_open_files_say_so() {
    let fake = Fake::striped();
    let client = fake.client();
    let file = block_on(client.open("/f", &writable())).unwrap();
    works(&file).unwrap();
    fake.cluster().sessions.clear();
    block_on(client.stat("/f")).unwrap();
    let error = works(&file).unwrap_err();
    assert_eq!(error.status(), Status::StaleHandle);
    assert!(error.to_string().contains("the session that had the file open has ended"), "{error}");
    drop(file);
    works(&block_on(client.open("/f", &writable())).unwrap()).unwrap();
    block_on(client.flush_closes()).unwrap();
    assert_eq!(
        fake.cluster().closed,
        [2],
        "the handle of the old session is not named in the new one"
    );
    assert_eq!(fake.cluster().next_session, 2);
}

#[test]
fn open_files_are_reclaimed_before_any_other_call() {
    let fake = Fake::striped();
    let client = fake.client();
    let files: Vec<_> = (0..3).map(|_| block_on(client.open("/f", &writable())).unwrap()).collect();
    drop(block_on(client.open("/f", &writable())).unwrap());
    fake.cluster().restart_mds();
    fake.cluster().mds_calls.clear();
    // The first reply is lost, and a file is closed before the repetition.
    fake.fault(mds::Reclaim::OP, Fault::ReplyLost);
    block_on(client.stat("/f")).unwrap();
    let connect = [mds::OpenSession::OP, mds::Reclaim::OP];
    assert_eq!(fake.cluster().mds_calls, [&connect[..], &connect[..], &[mds::Stat::OP]].concat());
    assert_eq!(fake.cluster().reclaims, [(vec![1, 2, 3], true), (vec![1, 2, 3], true)]);
    works(&files[2]).unwrap();
    block_on(client.flush_closes()).unwrap();
    assert_eq!(
        fake.cluster().closed,
        [0; 0],
        "what was closed before is not named: no close is needed"
    );
    drop(files);
    block_on(client.flush_closes()).unwrap();
    let mut closed = fake.cluster().closed.clone();
    closed.sort_unstable();
    assert_eq!(closed, [1, 2, 3], "a close after a restart closes");
}

#[test]
fn more_open_files_than_fit_one_message_are_sent_in_several() {
    let fake = Fake::striped();
    let client = fake.client();
    let count = braid_types::limits::RECLAIM_OPENS_MAX + 1;
    let _files: Vec<_> =
        (0..count).map(|_| block_on(client.open("/f", &writable())).unwrap()).collect();
    fake.cluster().restart_mds();
    block_on(client.stat("/f")).unwrap();
    let reclaims: Vec<_> =
        fake.cluster().reclaims.iter().map(|(named, all)| (named.len(), *all)).collect();
    assert_eq!(reclaims, [(count - 1, false), (1, true)]);
}

#[test]
fn a_refused_handle_fails_at_its_next_use_sync_and_close() {
    let fake = Fake::striped();
    let client = fake.client();
    let file = block_on(client.open("/f", &writable())).unwrap();
    let read_only = block_on(client.open("/f", &OpenOptions::new().read(true))).unwrap();
    works(&file).unwrap();
    fake.cluster().refused.extend([1, 2]);
    fake.cluster().restart_mds();
    let error = works(&file).unwrap_err();
    assert_eq!(error.status(), Status::StaleHandle);
    assert!(error.to_string().contains("could not reclaim the open file"), "{error}");
    assert!(error.to_string().ends_with("try: open the file again"), "{error}");
    let exchanges = fake.cluster().exchanges.len();
    for _ in 0..2 {
        assert_eq!(block_on(file.sync()).unwrap_err().status(), Status::StaleHandle);
    }
    assert_eq!(fake.cluster().exchanges.len(), exchanges, "nothing is sent");
    assert_eq!(block_on(file.clone().close()).unwrap_err().status(), Status::StaleHandle);
    block_on(read_only.close()).unwrap();
}

#[test]
fn an_idle_client_notices_a_restart_long_before_the_grace_period_is_over() {
    let fake = Fake::striped();
    let engine = braid_client::engine::Engine::new(
        fake.clone(),
        braid_client::Config::new(["mds:1"], key(&fake)),
    );
    let at = braid_client::message::types::PathRef::root(b"f");
    let _file = block_on(engine.caller().open(&at, &writable())).unwrap();
    block_on(engine.tick()).unwrap();
    let restarted = fake.cluster().now;
    fake.cluster().restart_mds();
    while fake.cluster().reclaims.is_empty() {
        fake.cluster().now += braid_client::engine::TICK;
        block_on(engine.tick()).unwrap();
    }
    let took = fake.cluster().now - restarted;
    assert!(took <= Duration::from_secs(6), "{took:?}");
    assert_eq!(fake.cluster().reclaims, [(vec![1], true)]);
}

#[test]
fn a_truncate_by_another_client_costs_a_renewal_and_no_error() {
    let fake = Fake::striped();
    let file = open(&fake);
    block_on(file.write_at(&[1; 10_000], 0)).unwrap();
    fake.cluster().truncate(b"f", 3);
    let mut buffer = [9; 10];
    assert_eq!(block_on(file.read_at(&mut buffer, 0)).unwrap(), 3);
    assert_eq!(buffer[..3], [1; 3]);
}

#[test]
fn a_daemon_that_always_refuses_the_capability_ends_the_call() {
    let fake = Fake::striped();
    let file = open(&fake);
    for _ in 0..100 {
        fake.fault(iod::Read::OP, Fault::Refused(Status::BadCapability));
    }
    let error = block_on(file.read_at(&mut [0; 1], 0)).unwrap_err();
    assert_eq!(error.status(), Status::BadCapability);
}

#[test]
fn a_fenced_client_fails_for_good() {
    let fake = Fake::striped();
    let client = fake.client();
    let file = block_on(client.open("/f", &writable())).unwrap();
    works(&file).unwrap();
    {
        let mut cluster = fake.cluster();
        cluster.fenced = cluster.sessions.drain().collect();
    }
    assert_eq!(works(&file).unwrap_err().status(), Status::Fenced);
    let exchanges = fake.cluster().exchanges.len();
    let error = works(&file).unwrap_err();
    assert_eq!(error.status(), Status::Fenced);
    assert!(error.to_string().ends_with("try: open the file again"), "{error}");
    assert_eq!(fake.cluster().exchanges.len(), exchanges, "nothing is sent any more (I4)");
    // A new session counts as another client.
    block_on(client.stat("/f")).unwrap();
    works(&block_on(client.open("/f", &writable())).unwrap()).unwrap();
}

#[test]
fn unsynced_writes_that_a_daemon_lost_are_reported_once_at_sync() {
    let fake = Fake::striped();
    let file = open(&fake);
    block_on(file.write_at(&[1; 10_000], 0)).unwrap();
    fake.cluster().verifiers.insert(IodId(2), WriteVerifier(99));
    let error = block_on(file.sync()).unwrap_err();
    assert_eq!((error.status(), error.errno()), (Status::UnsyncedDataLost, 5));
    assert!(error.server().unwrap().starts_with("I/O daemon 2"), "{error}");
    block_on(file.sync()).unwrap();
}

#[test]
fn unsynced_writes_that_a_daemon_lost_are_reported_at_close() {
    let fake = Fake::striped();
    let file = open(&fake);
    works(&file).unwrap();
    fake.cluster().verifiers.insert(IodId(1), WriteVerifier(99));
    works(&file).unwrap();
    assert_eq!(block_on(file.close()).unwrap_err().status(), Status::UnsyncedDataLost);
}

#[test]
fn a_loss_noticed_through_one_file_is_reported_by_every_affected_close() {
    let fake = Fake::striped();
    let client = fake.client();
    let open = || block_on(client.open("/f", &writable())).unwrap();
    let (synced, written, read) = (open(), open(), open());
    works(&synced).unwrap();
    works(&written).unwrap();
    fake.cluster().verifiers.insert(IodId(1), WriteVerifier(99));
    block_on(written.check_loss()).expect("the client does not know of the loss yet");
    assert_eq!(block_on(synced.sync()).unwrap_err().status(), Status::UnsyncedDataLost);
    assert_eq!(block_on(written.check_loss()).unwrap_err().status(), Status::UnsyncedDataLost);
    for file in [synced, written, read] {
        block_on(file.close()).expect("the loss was reported before, or concerns other handles");
    }
}

#[test]
fn a_sync_flushes_every_daemon_of_the_file_and_then_the_name() {
    let fake = Fake::striped();
    let file = open(&fake);
    block_on(file.write_at(b"x", 4096)).unwrap();
    fake.cluster().verifiers.insert(IodId(3), WriteVerifier(99));
    fake.fault(iod::Flush::OP, Fault::ReplyLost);
    block_on(file.sync()).unwrap();
    let cluster = fake.cluster();
    let flushed: Vec<_> = cluster
        .exchanges
        .iter()
        .filter(|(_, op, _)| *op == iod::Flush::OP)
        .map(|(iod, ..)| iod.0)
        .collect();
    assert_eq!(
        flushed,
        [1, 2, 3, 1],
        "what other handles wrote is forced too; the lost answer is asked for again"
    );
    assert_eq!(cluster.mds_calls.last(), Some(&mds::FsyncFile::OP));
}

#[test]
fn a_lost_part_is_noticed_through_the_handle_that_made_the_file() {
    let fake = Fake::striped();
    let file = open(&fake);
    let renewals =
        || fake.cluster().mds_calls.iter().filter(|op| **op == mds::RenewCapability::OP).count();
    for round in 0..2 {
        block_on(file.write_at(b"x", 4096)).unwrap();
        block_on(file.sync()).unwrap();
        assert_eq!(renewals(), round, "a handle that does not read renews no capability");
        fake.cluster().files.values_mut().for_each(|file| file.existing_parts = vec![0b010]);
        for _ in 0..3 {
            assert_eq!(block_on(file.read_at(&mut [0], 4096)).unwrap(), 1);
        }
        assert_eq!(renewals(), round + 1, "the first read after a sync renews it once");
    }
    fake.cluster().objects.retain(|(iod, ..), _| *iod != IodId(2));
    for offset in [0, 4096] {
        let lost = block_on(file.read_at(&mut [0; 8192], offset)).unwrap_err();
        assert_eq!(lost.status(), Status::ObjectLost, "not zeros: {lost}");
    }
}

#[test]
fn closes_travel_together() {
    let fake = Fake::striped();
    let client = fake.client();
    for _ in 0..10 {
        block_on(block_on(client.open("/f", &writable())).unwrap().close()).unwrap();
    }
    drop(block_on(client.open("/f", &writable())).unwrap());
    assert!(fake.cluster().closed.is_empty());
    fake.fault(mds::Close::OP, Fault::ReplyLost);
    block_on(client.flush_closes()).unwrap();
    let cluster = fake.cluster();
    let (closes, mut closed) = (
        cluster.mds_calls.iter().filter(|op| **op == mds::Close::OP).count(),
        cluster.closed.clone(),
    );
    closed.sort_unstable();
    closed.dedup();
    assert_eq!((closes, closed.len()), (2, 11), "one message, and its repetition");
}

#[test]
fn a_listing_comes_in_batches_and_has_every_name_once() {
    let fake = Fake::striped();
    let client = fake.client();
    for at in 0..10 {
        drop(block_on(client.open(format!("/n{at}"), &writable())).unwrap());
    }
    let mut listing = block_on(client.read_dir("/", false)).unwrap();
    let mut names = Vec::new();
    fake.fault(mds::ReadDirectory::OP, Fault::ReplyLost);
    while let Some(entry) = block_on(listing.next()) {
        names.push(entry.unwrap().name);
    }
    assert_eq!(names, (0..10).map(|at| format!("n{at}").into_bytes()).collect::<Vec<_>>());
}

#[test]
fn the_session_is_renewed_without_other_calls() {
    let fake = Fake::striped();
    let client = fake.client();
    block_on(client.whoami()).unwrap();
    let engine = braid_client::engine::Engine::new(
        fake.clone(),
        braid_client::Config::new(["mds:1"], key(&fake)),
    );
    block_on(engine.caller().whoami()).unwrap();
    for _ in 0..61 {
        block_on(engine.tick()).unwrap();
        fake.cluster().now += braid_client::engine::TICK;
    }
    let renewals = fake.cluster().mds_calls.iter().filter(|op| **op == mds::Renew::OP).count();
    assert_eq!(renewals, 12, "every five seconds");
}

fn key(fake: &Fake) -> braid_client::Credential {
    braid_client::Credential::ServerKey(fake.cluster().server_key.clone())
}

#[test]
fn an_error_about_a_file_by_index_says_so() {
    let fake = Fake::striped();
    let error = block_on(fake.client().stat(FileIndex(0xbeef))).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("stat file beef: stale file handle (metadata server at mds:1)"),
        "{error}"
    );
}

#[test]
#[cfg(unix)]
fn a_missing_agent_is_named_with_a_hint() {
    let fake = Fake::striped();
    let config = Config::new(["mds:1"], Credential::Agent("/nope/agent.sock".into()));
    let error = block_on(Client::over(fake.clone(), config).whoami()).unwrap_err();
    assert_eq!(error.status(), Status::Unreachable);
    let said = error.to_string();
    assert!(said.contains("(agent at /nope/agent.sock)"), "{said}");
    assert!(said.ends_with("; try: braid agent, as the owner of the client key"), "{said}");
}
