//! The life of a size mark (I5).

use braid_types::{ByteCount, Status, Timestamp};
use braid_wire::{
    Rights,
    message::mds::{AttributeChanges, FsyncFile, Open, ReadDirectory, SetAttributes, SetTime},
};

use super::world::{World, at};

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
    world.pass(250);
    world.iods.state().log.clear();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(20_000));
    assert_eq!(world.iods.state().log, []);
    assert_eq!(world.status().sizes_in_objects, 0);
}

#[test]
fn mark_is_kept_while_another_writer_has_the_file_open() {
    let mut world = World::new(2);
    let (one, two) = (world.client(), world.client());
    let first = one.create("f");
    let second = two.call(Open { at: at("f"), rights: Rights::WRITE, truncate: false }).unwrap();
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
    let reopened = client.begin(1, Open { at: at("f"), rights: Rights::WRITE, truncate: false });
    // First the collection is answered, then the size that the open asks for.
    let daemon_answered_before_the_write = world.iods.waiting();
    assert_eq!(daemon_answered_before_the_write, 2);
    // The open's question is answered first: it has its capability, writes and closes.
    world.iods.state().swap_held();
    assert!(world.iods.step());
    let reopened: braid_wire::message::mds::Opened = reopened.take().unwrap().unwrap();
    world.write(&reopened, 9000).unwrap();
    client.close(&reopened);
    world.iods.release();
    world.pass(2000);
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
    assert!(failure.detail.contains("I/O daemon 2") && failure.detail.contains("down"), "{failure}");
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
    let dir = braid_types::FileIndex::ROOT;
    let page = client.call(ReadDirectory { dir, cookie: 0, bytes_max: 4096, with_attributes: true }).unwrap();
    let sizes: Vec<u64> = page.entries.iter().map(|entry| entry.attributes.as_ref().unwrap().bytes.0).collect();
    assert_eq!(sizes, [111, 222_222]);
}

#[test]
fn a_time_that_was_set_after_the_write_is_kept() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 10).unwrap();
    world.pass(1000);
    let old = Timestamp { seconds: 5, nanos: 0 };
    let changes = AttributeChanges { mtime: Some(SetTime { time: Some(old) }), ..AttributeChanges::none() };
    client.call(SetAttributes { at: at("f"), follow: true, changes }).unwrap();
    assert_eq!(client.stat("f").unwrap().mtime, old);
    client.close(&opened);
    world.pass(1000);
    assert_eq!(client.stat("f").unwrap().mtime, old);
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
    world.pass(braid_types::limits::GRACE_MS + 1000);
    assert_eq!(world.status().sizes_in_objects, 0);
    assert_eq!(other.stat("f").unwrap().bytes, ByteCount(7777));
    assert_eq!(world.write(&opened, 1 << 20), Err(Status::Fenced), "the epoch rose");
}
