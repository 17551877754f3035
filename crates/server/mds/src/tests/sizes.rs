//! The life of a size mark (I5).

use braid_types::{ByteCount, IodId, Status, Timestamp, limits::HEARTBEAT_DOWN_MS};
use braid_wire::{
    Deny, Rights,
    message::{
        lease::LeaseMode,
        mds::{
            AttributeChanges, FsyncFile, LayoutShow, Open, ReadDirectory, SetAttributes, SetTime,
            Stat, Unlink,
        },
        types::Attributes,
    },
};

use super::world::{World, at};
use crate::{
    TICK_MS,
    size::{GATE_WAIT_MS_MAX, RECORD_SIZE_MS},
};

#[test]
fn stat_after_a_write_from_any_client_shows_its_size() {
    let mut world = World::new(3);
    let (writer, reader) = (world.client(), world.client());
    let opened = writer.create("f");
    world.write(&opened, 20_000).unwrap();
    assert_eq!(reader.stat("f").unwrap().bytes, ByteCount(20_000));
    world.write(&opened, 30_001).unwrap();
    assert_eq!(reader.stat("f").unwrap().bytes, ByteCount(30_001));
}

#[test]
fn the_last_close_collects_and_then_nobody_is_asked() {
    let mut world = World::new(3);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 20_000).unwrap();
    client.close(&opened);
    world.settle();
    world.iods.state().log.clear();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(20_000));
    assert_eq!(world.iods.state().log, []);
    assert_eq!(world.status().sizes_in_objects, 0);
}

#[test]
fn stat_open_and_list_of_a_cached_size_ask_no_daemon() {
    let mut world = World::new(3);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 20_000).unwrap();
    client.close(&opened);
    world.pass(250);
    assert_eq!(world.status().sizes_in_objects, 1, "the mark stands");
    world.iods.state().log.clear();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(20_000));
    let reader = client
        .call(Open {
            at: at("f"),
            rights: Rights::READ,
            truncate: false,
            lease: LeaseMode::None,
            deny: Deny::NONE,
        })
        .unwrap();
    assert_eq!(reader.attributes.bytes, ByteCount(20_000));
    let listed = client.call(list_root()).unwrap().entries.remove(0).attributes.unwrap();
    assert_eq!(listed.bytes, ByteCount(20_000));
    assert_eq!(world.iods.state().log, []);
}

#[test]
fn many_sizes_are_recorded_with_one_call_to_each_daemon() {
    let mut world = World::new(2);
    let client = world.client();
    for name in 0..50 {
        let opened = client.create(&format!("f{name}"));
        world.write(&opened, 9000).unwrap();
        client.close(&opened);
    }
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 0);
    let (one, two) = (IodId(1), IodId(2));
    assert_eq!(
        world.iods.state().collects(),
        [(one, false), (two, false), (one, true), (two, true)]
    );
}

#[test]
fn a_file_opened_for_writing_and_not_written_needs_no_flush() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("empty");
    client.close(&opened);
    world.pass(250);
    assert_eq!(world.status().sizes_in_objects, 0);
    assert_eq!(world.iods.state().collects(), [(IodId(1), false), (IodId(2), false)]);
}

#[test]
fn an_unsynced_file_after_power_loss_has_the_size_of_its_objects() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    client.close(&opened);
    world.pass(1000);
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(9000));
    world.iods.state().lose_power(IodId(2));
    world.pass(250);
    // Stripes 0 and 2 were on daemon 2, stripe 1 is on daemon 1.
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(8192));
    world.iods.state().lose_power(IodId(1));
    world.pass(250);
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(0));
    world.settle();
    assert_eq!(
        (client.stat("f").unwrap().bytes, world.status().sizes_in_objects),
        (ByteCount(0), 0)
    );
}

#[test]
fn a_verifier_that_changed_before_the_record_collects_again() {
    let mut world = World::new(1);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    client.close(&opened);
    world.pass(1000);
    world.iods.hold();
    world.pass(RECORD_SIZE_MS);
    assert_eq!(world.iods.waiting(), 1, "the daemon is asked to flush");
    let parts = |client: &super::world::Client| {
        client.call(LayoutShow { at: at("f") }).unwrap().existing_parts
    };
    world.iods.state().lose_power(IodId(1));
    world.iods.release();
    assert_eq!(
        (parts(&client), world.status().sizes_in_objects),
        (vec![], 1),
        "nothing was recorded"
    );
    world.settle();
    assert_eq!(
        (client.stat("f").unwrap().bytes, world.status().sizes_in_objects),
        (ByteCount(0), 0)
    );
    assert_eq!(parts(&client), []);
    assert_eq!(
        world.iods.state().collects().len(),
        3,
        "collected, flushed, collected again: and nothing is left to flush"
    );
}

#[test]
fn an_object_lost_before_its_size_is_recorded_is_a_loss_and_no_hole() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 300_000).unwrap();
    client.close(&opened);
    world.pass(1000);
    let before = world.objects_of(opened.attributes.file);
    world.iods.state().objects.retain(|(iod, _), _| *iod != IodId(1));
    assert!(
        world.objects_of(opened.attributes.file) < before,
        "a disk or a hand took it, no loss of power"
    );
    world.settle();
    let shown = client.call(LayoutShow { at: at("f") }).unwrap();
    assert_eq!((shown.existing_parts.len(), world.status().sizes_in_objects), (1, 0));
    assert_eq!(
        shown.existing_parts[0].count_ones() as usize,
        before,
        "a reader gets the same parts"
    );
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(300_000));
}

#[test]
fn a_server_that_stops_records_closed_files_immediately() {
    let mut world = World::new(1);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    client.close(&opened);
    assert_eq!(world.status().sizes_in_objects, 1);
    while !world.core.record_all_sizes() {}
    assert_eq!(world.status().sizes_in_objects, 0);
    assert_eq!(client.call(LayoutShow { at: at("f") }).unwrap().existing_parts, [1]);
}

#[test]
fn a_writer_that_comes_and_goes_during_a_record_is_not_forgotten() {
    let mut world = World::new(1);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 100).unwrap();
    client.close(&opened);
    world.pass(1000);
    world.iods.hold();
    world.pass(RECORD_SIZE_MS);
    assert_eq!(world.iods.waiting(), 1, "the daemon is asked to flush");
    let reopened = client
        .call(Open {
            at: at("f"),
            rights: Rights::WRITE,
            truncate: false,
            lease: LeaseMode::None,
            deny: Deny::NONE,
        })
        .unwrap();
    assert_eq!(reopened.attributes.bytes, ByteCount(100), "collected");
    world.iods.release();
    world.write(&reopened, 9000).unwrap();
    client.close(&reopened);
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(9000));
    world.settle();
    assert_eq!(
        (client.stat("f").unwrap().bytes, world.status().sizes_in_objects),
        (ByteCount(9000), 0)
    );
}

#[test]
fn a_cached_size_is_dropped_when_the_file_is_truncated_or_unlinked() {
    let mut world = World::new(2);
    let client = world.client();
    for name in ["cut", "gone"] {
        let opened = client.create(name);
        world.write(&opened, 9000).unwrap();
        client.close(&opened);
    }
    world.pass(1000);
    assert_eq!(client.truncate("cut", 5000).unwrap().bytes, ByteCount(5000));
    assert_eq!(client.stat("cut").unwrap().bytes, ByteCount(5000));
    client.call(Unlink { at: at("gone") }).unwrap();
    world.settle();
    assert_eq!(
        (client.stat("cut").unwrap().bytes, world.status().sizes_in_objects),
        (ByteCount(5000), 0)
    );
    assert_eq!(client.stat("gone").unwrap_err().status, Status::NotFound);
}

#[test]
fn no_daemon_is_asked_that_has_not_registered_since_the_server_started() {
    let mut world = World::new(1);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 100).unwrap();
    client.close(&opened);
    world.restart_alone();
    let client = client.reclaim(&mut world).unwrap();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(100), "the mark was left behind");
    world.iods.state().log.clear();
    world.pass(2000);
    // Clients from before the restart may still write there.
    assert_eq!(world.status().sizes_in_objects, 1);
    assert_eq!(world.iods.state().collects(), []);
    world.register_all();
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 0);
}

#[test]
fn mark_is_kept_while_another_writer_has_the_file_open() {
    let mut world = World::new(2);
    let (one, two) = (world.client(), world.client());
    let first = one.create("f");
    let second = two
        .call(Open {
            at: at("f"),
            rights: Rights::WRITE,
            truncate: false,
            lease: LeaseMode::None,
            deny: Deny::NONE,
        })
        .unwrap();
    one.close(&first);
    world.pass(500);
    world.write(&second, 5000).unwrap();
    assert_eq!(one.stat("f").unwrap().bytes, ByteCount(5000));
}

#[test]
fn a_writer_that_comes_and_goes_during_a_collection_is_not_forgotten() {
    let mut world = World::new(1);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 100).unwrap();
    world.iods.hold();
    client.close(&opened);
    world.core.tick();
    world.core.tick();
    world.core.tick();
    world.core.tick();
    assert_eq!(world.iods.waiting(), 1, "the collection is on its way");
    let reopened = client.begin(
        1,
        Open {
            at: at("f"),
            rights: Rights::WRITE,
            truncate: false,
            lease: LeaseMode::None,
            deny: Deny::NONE,
        },
    );
    // First the collection is answered, then the size that the open asks for.
    let daemon_answered_before_the_write = world.iods.waiting();
    assert_eq!(daemon_answered_before_the_write, 2);
    // The open's query is answered first: the client gets its capability, writes and closes.
    world.iods.state().swap_held();
    assert!(world.iods.step());
    let reopened: braid_wire::message::mds::OpenReply = reopened.take().unwrap().unwrap();
    world.write(&reopened, 9000).unwrap();
    client.close(&reopened);
    world.iods.release();
    world.settle();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(9000));
    assert_eq!(world.status().sizes_in_objects, 0);
}

#[test]
fn stat_names_the_daemon_that_cannot_be_asked() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    world.iods.state().dead.insert(braid_types::IodId(2));
    let failure = client.stat("f").unwrap_err();
    assert_eq!(failure.status, Status::TryAgain);
    assert!(failure.detail.contains("I/O daemon 2"), "{failure}");
    world.pass_with(6000, |id| id != 2);
    let failure = client.stat("f").unwrap_err();
    assert!(
        failure.detail.contains("I/O daemon 2") && failure.detail.contains("down"),
        "{failure}"
    );
}

#[test]
fn a_stat_fails_immediately_when_its_daemon_goes_down_and_names_it() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    world.iods.hold();
    let waits = client.begin(1, Stat { at: at("f"), follow: true });
    world.pass_with(HEARTBEAT_DOWN_MS - TICK_MS, |id| id != 2);
    assert!(!waits.has_come(), "it may be slow");
    world.pass_with(2 * TICK_MS, |id| id != 2);
    assert!(!waits.has_come(), "the other is still to answer");
    assert!(world.iods.step(), "the first daemon answers");
    let failure = waits.take::<Attributes>().unwrap().unwrap_err();
    assert_eq!(
        (failure.status, failure.blamed()),
        (Status::TryAgain, Some("I/O daemon 2 at 127.0.0.1:7002")),
        "{failure}"
    );
    world.iods.release();
    world.pass(1000);
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(9000), "the late answer is nobody's");
}

#[test]
fn a_stat_that_waits_for_a_hung_daemon_fails_in_time_and_names_it() {
    let mut world = World::new(1);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    world.iods.hold();
    let waits = client.begin(1, Stat { at: at("f"), follow: true });
    world.pass(GATE_WAIT_MS_MAX);
    assert!(!waits.has_come());
    world.pass(2 * TICK_MS);
    let failure = waits.take::<Attributes>().unwrap().unwrap_err();
    assert_eq!(failure.blamed(), Some("I/O daemon 1 at 127.0.0.1:7001"), "{failure}");
    world.iods.release();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(9000));
}

#[test]
fn a_collection_that_nobody_waits_for_has_the_time_that_its_daemon_takes() {
    let mut world = World::new(1);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    world.iods.hold();
    client.close(&opened);
    world.pass(4 * GATE_WAIT_MS_MAX);
    assert_eq!(world.iods.waiting(), 1, "it is not asked again and again");
    world.iods.release();
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 0);
}

#[test]
fn fsync_records_what_is_there_and_the_mark_stays() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    let file = opened.attributes.file;
    assert_eq!(client.call(FsyncFile { file }).unwrap().bytes, ByteCount(9000));
    assert_eq!(world.store.unsynced(), 0, "the log was forced");
    world.write(&opened, 10_000).unwrap();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(10_000));
}

#[test]
fn an_fsync_records_only_parts_that_were_flushed() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 4000).unwrap();
    let file = opened.attributes.file;
    client.call(FsyncFile { file }).unwrap();
    world.write(&opened, 9000).unwrap();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(9000));
    assert_eq!(
        client.call(LayoutShow { at: at("f") }).unwrap().existing_parts,
        [1],
        "the first stripe's alone"
    );
    (1..=2).for_each(|iod| world.iods.state().lose_power(IodId(iod)));
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(4000));
    world.write(&opened, 9000).unwrap();
    client.call(FsyncFile { file }).unwrap();
    (1..=2).for_each(|iod| world.iods.state().lose_power(IodId(iod)));
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(9000));
    assert_eq!(client.call(LayoutShow { at: at("f") }).unwrap().existing_parts, [3]);
}

#[test]
fn a_lost_object_is_never_zeros() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    client.call(FsyncFile { file: opened.attributes.file }).unwrap();
    world.iods.state().objects.clear();
    assert_eq!(client.stat("f").unwrap_err().status, Status::ObjectLost);
}

#[test]
fn a_listing_with_attributes_has_true_sizes() {
    let mut world = World::new(2);
    let client = world.client();
    let (one, two) = (client.create("one"), client.create("two"));
    world.write(&one, 111).unwrap();
    world.write(&two, 222_222).unwrap();
    let page = client.call(list_root()).unwrap();
    let sizes: Vec<u64> =
        page.entries.iter().map(|entry| entry.attributes.as_ref().unwrap().bytes.0).collect();
    assert_eq!(sizes, [111, 222_222]);
}

fn list_root() -> ReadDirectory {
    ReadDirectory {
        dir: braid_types::FileIndex::ROOT,
        cookie: 0,
        bytes_max: 4096,
        with_attributes: true,
    }
}

#[test]
fn a_time_that_was_set_after_the_write_is_kept() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 10).unwrap();
    world.pass(1000);
    let old = Timestamp { seconds: 5, nanos: 0 };
    let changes =
        AttributeChanges { mtime: Some(SetTime { time: Some(old) }), ..AttributeChanges::none() };
    client.call(SetAttributes { at: at("f"), follow: true, changes }).unwrap();
    assert_eq!(client.stat("f").unwrap().mtime, old);
    client.close(&opened);
    world.pass(1000);
    assert_eq!(client.stat("f").unwrap().mtime, old);
    // Also for a file whose size is only cached, and when it is recorded.
    let older = Timestamp { seconds: 4, nanos: 0 };
    let changes =
        AttributeChanges { mtime: Some(SetTime { time: Some(older) }), ..AttributeChanges::none() };
    client.call(SetAttributes { at: at("f"), follow: true, changes }).unwrap();
    assert_eq!((client.stat("f").unwrap().mtime, world.status().sizes_in_objects), (older, 1));
    world.settle();
    assert_eq!((client.stat("f").unwrap().mtime, world.status().sizes_in_objects), (older, 0));
}

#[test]
fn a_time_that_was_set_survives_a_crash_before_the_size_is_recorded() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 10).unwrap();
    world.pass(1000);
    let old = Timestamp { seconds: 5, nanos: 0 };
    let changes =
        AttributeChanges { mtime: Some(SetTime { time: Some(old) }), ..AttributeChanges::none() };
    client.call(SetAttributes { at: at("f"), follow: true, changes }).unwrap();
    client.close(&opened);
    world.restart();
    let other = world.client();
    assert_eq!(other.stat("f").unwrap().mtime, old);
    world.pass(braid_types::limits::GRACE_MS + 1000);
    world.settle();
    assert_eq!((other.stat("f").unwrap().mtime, world.status().sizes_in_objects), (old, 0));
}

#[test]
fn a_size_is_collected_also_after_the_server_died_before_it_could() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 7777).unwrap();
    world.restart();
    let other = world.client();
    assert_eq!(other.stat("f").unwrap().bytes, ByteCount(7777));
    world.pass(braid_types::limits::GRACE_MS);
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 0);
    assert_eq!(other.stat("f").unwrap().bytes, ByteCount(7777));
    assert_eq!(world.write(&opened, 1 << 20), Err(Status::Fenced), "the epoch rose");
}
