//! Reports of the sole writer of a new file (ADR 0020).

use braid_types::{
    ByteCount, IodId, PartIndex, Status, Timestamp, WriteVerifier, limits::REPORTED_OBJECTS_MAX,
};
use braid_wire::{
    Call as WireCall, Deny, Rights,
    message::{
        lease::LeaseMode,
        mds::{
            AttributeChanges, Close, DaemonReport, Envelope, Open, OpenReply, SetAttributes,
            SetTime, SizeReport, Stat,
        },
        types::{Attributes, ObjectInfo, PathRef},
    },
};

use super::world::{Client, World, at};
use crate::size::{RECORD_SIZE_MS, REPORTED_FILES_MAX};

fn call_with_report<M: WireCall>(client: &Client, size_report: SizeReport, message: M) -> M::Reply {
    client.call_as(Envelope { size_reports: vec![size_report], ..client.next() }, message).unwrap()
}

fn stat_with_report(client: &Client, opened: &OpenReply, size_report: SizeReport) -> Attributes {
    call_with_report(
        client,
        size_report,
        Stat { at: PathRef::file(opened.attributes.file), follow: false },
    )
}

fn close_with_report(client: &Client, opened: &OpenReply, size_report: SizeReport) {
    call_with_report(client, size_report, Close { open_ids: vec![opened.open_id] });
}

fn open_to_write(client: &Client) -> OpenReply {
    let (rights, lease, deny) = (Rights::WRITE, LeaseMode::None, Deny::NONE);
    client.call(Open { at: at("f"), rights, truncate: false, lease, deny }).unwrap()
}

#[test]
fn a_sole_writers_report_answers_as_the_daemons_would_without_asking() {
    let mut world = World::new(3);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 20_000).unwrap();
    let asked = client.stat("f").unwrap();
    world.iods.state().log.clear();
    let size_report = world.size_report(&opened);
    let answered = stat_with_report(&client, &opened, size_report.clone());
    assert!(answered.change > asked.change, "it may have written in place");
    assert_eq!(Attributes { change: asked.change, ..answered }, asked);
    assert!(!asked.uncacheable, "it may keep them");
    let changes = AttributeChanges { mode: Some(0o600), ..AttributeChanges::none() };
    let chmod = SetAttributes { at: PathRef::file(opened.attributes.file), follow: false, changes };
    let changed = call_with_report(&client, size_report, chmod);
    assert_eq!(
        (changed.bytes, changed.mtime, changed.mode),
        (ByteCount(20_000), asked.mtime, 0o600)
    );
    assert_eq!(world.iods.state().log, []);
}

#[test]
fn a_report_with_a_close_is_cached_and_recorded_after_a_flush() {
    let mut world = World::new(3);
    let (client, other) = (world.client(), world.client());
    let opened = client.create("f");
    world.write(&opened, 3000).unwrap();
    let size_report = world.size_report(&opened);
    assert_eq!(size_report.daemons.len(), 1, "one stripe");
    close_with_report(&client, &opened, size_report);
    world.pass(250);
    assert_eq!(other.stat("f").unwrap().bytes, ByteCount(3000));
    assert_eq!(world.iods.state().collects(), []);
    assert_eq!(world.status().sizes_in_objects, 1, "nothing is recorded on a client's word");
    world.settle();
    assert_eq!(world.iods.state().collects(), [1, 2, 3].map(|iod| (IodId(iod), true)));
    assert_eq!(
        (other.stat("f").unwrap().bytes, world.status().sizes_in_objects),
        (ByteCount(3000), 0)
    );
}

#[test]
fn another_open_for_writing_makes_the_report_void() {
    for closes_again in [false, true] {
        let mut world = World::new(2);
        let (client, other) = (world.client(), world.client());
        let opened = client.create("f");
        world.write(&opened, 3000).unwrap();
        let size_report = world.size_report(&opened);
        let second = open_to_write(&other);
        world.write(&second, 9000).unwrap();
        if closes_again {
            other.close(&second);
        }
        assert_eq!(stat_with_report(&client, &opened, size_report.clone()).bytes, ByteCount(9000));
        close_with_report(&client, &opened, size_report);
        world.pass(250);
        assert_eq!(client.stat("f").unwrap().bytes, ByteCount(9000));
    }
}

#[test]
fn an_open_for_writing_after_the_close_makes_the_report_void() {
    let mut world = World::new(2);
    let (client, other) = (world.client(), world.client());
    let opened = client.create("f");
    world.write(&opened, 3000).unwrap();
    close_with_report(&client, &opened, world.size_report(&opened));
    let second = open_to_write(&other);
    world.write(&second, 9000).unwrap();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(9000));
}

#[test]
fn only_the_sole_writers_report_counts() {
    let mut world = World::new(2);
    let (client, other) = (world.client(), world.client());
    let opened = client.create("f");
    let nothing = world.size_report(&opened);
    world.write(&opened, 9000).unwrap();
    let another_handle = SizeReport { open_id: opened.open_id + 1, ..nothing.clone() };
    assert_eq!(stat_with_report(&other, &opened, nothing.clone()).bytes, ByteCount(9000));
    assert_eq!(stat_with_report(&client, &opened, another_handle).bytes, ByteCount(9000));
    let existing = open_to_write(&other);
    let size_report = SizeReport { open_id: existing.open_id, ..nothing };
    assert_eq!(stat_with_report(&other, &existing, size_report).bytes, ByteCount(9000));
}

#[test]
fn a_truncate_makes_an_earlier_report_void() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    let size_report = world.size_report(&opened);
    client.truncate("f", 100).unwrap();
    assert_eq!(stat_with_report(&client, &opened, size_report.clone()).bytes, ByteCount(100));
    close_with_report(&client, &opened, size_report);
    world.settle();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(100));
}

#[test]
fn a_daemon_that_lost_reported_data_is_asked_again() {
    let mut world = World::new(1);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 3000).unwrap();
    let size_report = world.size_report(&opened);
    world.iods.state().lose_power(IodId(1));
    world.pass(250);
    assert_eq!(stat_with_report(&client, &opened, size_report.clone()).bytes, ByteCount(0));
    close_with_report(&client, &opened, size_report);
    world.settle();
    assert_eq!(
        (client.stat("f").unwrap().bytes, world.status().sizes_in_objects),
        (ByteCount(0), 0)
    );
}

#[test]
fn a_false_word_holds_until_the_daemons_are_asked_and_loses_nothing() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 100).unwrap();
    let some = world.size_report(&opened);
    world.write(&opened, 9000).unwrap();
    close_with_report(&client, &opened, some);
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(100), "its own file, by its own word");
    world.pass(RECORD_SIZE_MS + 2000);
    world.settle();
    assert_eq!(
        (client.stat("f").unwrap().bytes, world.status().sizes_in_objects),
        (ByteCount(9000), 0)
    );
    let again = client.create("g");
    world.write(&again, 9000).unwrap();
    let much = world.size_report(&again);
    world.iods.state().objects.retain(|(_, id), _| id.file != again.attributes.file);
    close_with_report(&client, &again, much);
    world.settle();
    assert_eq!(
        (client.stat("g").unwrap().bytes, world.status().sizes_in_objects),
        (ByteCount(0), 0),
        "no lost object"
    );
}

#[test]
fn a_time_that_was_set_stays_when_the_writer_reports() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    let size_report = world.size_report(&opened);
    let then = Timestamp { seconds: 5, nanos: 0 };
    let changes =
        AttributeChanges { mtime: Some(SetTime { time: Some(then) }), ..AttributeChanges::none() };
    let set = SetAttributes { at: PathRef::file(opened.attributes.file), follow: false, changes };
    assert_eq!(call_with_report(&client, size_report.clone(), set).mtime, then);
    close_with_report(&client, &opened, size_report);
    world.settle();
    assert_eq!(client.stat("f").unwrap().mtime, then);
}

#[test]
fn a_sole_writer_is_forgotten_with_its_session_and_its_file() {
    let mut world = World::new(2);
    let client = world.client();
    let (named, gone) = (client.create("f"), client.create("g"));
    world.write(&named, 9000).unwrap();
    client.call(braid_wire::message::mds::Unlink { at: at("g") }).unwrap();
    close_with_report(&client, &gone, world.size_report(&gone));
    assert_eq!(world.makers(), 1);
    client.call_as(Envelope::PLAIN, braid_wire::message::mds::CloseSession {}).unwrap();
    assert_eq!(world.makers(), 0);
    world.settle();
    assert_eq!(world.client().stat("f").unwrap().bytes, ByteCount(9000));
}

#[test]
fn an_empty_file_is_recorded_when_it_is_closed() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    close_with_report(&client, &opened, world.size_report(&opened));
    world.pass(250);
    assert_eq!(world.status().sizes_in_objects, 0, "its layout may be changed");
}

fn wrote_nothing(opened: &OpenReply) -> SizeReport {
    SizeReport { open_id: opened.open_id, daemons: Vec::new() }
}

/// A file of 20,000 bytes whose size is on record.
fn recorded() -> (World, Client) {
    let mut world = World::new(3);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 20_000).unwrap();
    client.close(&opened);
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 0);
    (world, client)
}

#[test]
fn a_sole_writer_that_wrote_nothing_is_answered_from_the_record() {
    let (mut world, client) = recorded();
    let asked = client.stat("f").unwrap();
    let opened = open_to_write(&client);
    world.iods.state().log.clear();
    let changes =
        AttributeChanges { mtime: Some(SetTime { time: None }), ..AttributeChanges::none() };
    let touch = SetAttributes { at: PathRef::file(opened.attributes.file), follow: false, changes };
    let touched = call_with_report(&client, wrote_nothing(&opened), touch);
    assert_eq!(
        (touched.bytes, touched.bytes_used, touched.uncacheable),
        (asked.bytes, asked.bytes_used, false)
    );
    assert!(touched.mtime > asked.mtime);
    let seen = stat_with_report(&client, &opened, wrote_nothing(&opened));
    assert_eq!((seen.bytes, seen.mtime), (touched.bytes, touched.mtime));
    assert_eq!(world.iods.state().log, []);
    close_with_report(&client, &opened, wrote_nothing(&opened));
    world.settle();
    let after = client.stat("f").unwrap();
    assert_eq!(
        (after.bytes, after.mtime, world.status().sizes_in_objects),
        (asked.bytes, touched.mtime, 0)
    );
}

#[test]
fn nothing_written_counts_only_for_a_sole_writer_and_a_recorded_size() {
    for closes_again in [false, true] {
        let (mut world, client) = recorded();
        let other = world.client();
        let opened = open_to_write(&client);
        let second = open_to_write(&other);
        world.write(&second, 30_000).unwrap();
        if closes_again {
            other.close(&second);
        }
        assert_eq!(
            stat_with_report(&client, &opened, wrote_nothing(&opened)).bytes,
            ByteCount(30_000)
        );
        assert_eq!(
            stat_with_report(&other, &second, wrote_nothing(&second)).bytes,
            ByteCount(30_000)
        );
    }
    let (world, client) = recorded();
    let writes = open_to_write(&client);
    world.write(&writes, 40_000).unwrap();
    client.close(&writes);
    let early = open_to_write(&client);
    assert_eq!(stat_with_report(&client, &early, wrote_nothing(&early)).bytes, ByteCount(40_000));
}

#[test]
fn of_an_existing_file_only_a_report_of_no_writes_counts() {
    let (world, client) = recorded();
    let opened = open_to_write(&client);
    world.write(&opened, 50_000).unwrap();
    let part = world.size_report(&opened);
    assert!(!part.daemons.is_empty());
    world.iods.state().log.clear();
    assert_eq!(stat_with_report(&client, &opened, part).bytes, ByteCount(50_000));
    assert_ne!(world.iods.state().log, [], "the daemons were asked");
    client.truncate("f", 7).unwrap();
    assert_eq!(stat_with_report(&client, &opened, wrote_nothing(&opened)).bytes, ByteCount(7));
}

#[test]
fn more_reports_than_a_client_sends_are_refused() {
    let mut world = World::new(1);
    let client = world.client();
    let nothing = Timestamp::default();
    let object = |part| ObjectInfo {
        part,
        exists: true,
        bytes: ByteCount(1),
        bytes_used: ByteCount(1),
        mtime: nothing,
    };
    let daemon = |iod, objects: usize| DaemonReport {
        iod: IodId(iod),
        verifier: WriteVerifier(1),
        objects: (0..objects as u16).map(PartIndex).map(object).collect(),
    };
    let size_report = |daemons| SizeReport { open_id: 1, daemons };
    let tell = |size_report: Vec<SizeReport>| {
        let stat = Stat { at: at("/"), follow: false };
        client
            .call_as(Envelope { size_reports: size_report, ..Envelope::PLAIN }, stat)
            .map(drop)
            .map_err(|failure| failure.status)
    };
    let full = || size_report(vec![daemon(1, REPORTED_OBJECTS_MAX - 1), daemon(2, 1)]);
    assert_eq!(tell(vec![full(); REPORTED_FILES_MAX]), Ok(()));
    assert_eq!(tell(vec![full(); REPORTED_FILES_MAX + 1]), Err(Status::LimitExceeded));
    assert_eq!(
        tell(vec![size_report(vec![daemon(1, REPORTED_OBJECTS_MAX), daemon(2, 1)])]),
        Err(Status::LimitExceeded)
    );
    let empty = (0..=REPORTED_OBJECTS_MAX as u32).map(|iod| daemon(iod, 0)).collect();
    assert_eq!(tell(vec![size_report(empty)]), Err(Status::LimitExceeded));
}
