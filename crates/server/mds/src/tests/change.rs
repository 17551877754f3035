//! The change attribute: it rises with every change, whatever the clocks say, and over restarts
//! (RFC 8881 5.8.1.4).

use braid_types::{
    Timestamp,
    limits::{GRACE_MS, SESSION_SILENT_MS},
};
use braid_wire::{
    Deny, Rights,
    message::{
        lease::LeaseMode,
        mds::{AttributeChanges, Open, OpenReply, SetAttributes, SetTime},
    },
};

use super::world::{Client, World, at};

/// The file's change attribute at each query.
struct Seen(Vec<u64>);

impl Seen {
    /// Queries it after a change.
    fn rises(&mut self, client: &Client) {
        let now = client.stat("f").unwrap().change;
        assert!(self.0.iter().all(|before| *before < now), "{now} after {:?}", self.0);
        self.0.push(now);
    }

    /// Queries it when nothing has changed.
    fn stays_or_rises(&mut self, client: &Client) {
        let now = client.stat("f").unwrap().change;
        assert!(self.0.iter().all(|before| *before <= now), "{now} after {:?}", self.0);
        self.0.push(now);
    }
}

fn open(client: &Client) -> OpenReply {
    let (rights, lease, deny) = (Rights::READ_WRITE, LeaseMode::None, Deny::NONE);
    client.call(Open { at: at("f"), rights, truncate: false, lease, deny }).unwrap()
}

fn set_mtime(client: &Client, seconds: i64) {
    let time = Some(SetTime { time: Some(Timestamp { seconds, nanos: 0 }) });
    let changes = AttributeChanges { mtime: time, ..AttributeChanges::none() };
    client.call(SetAttributes { at: at("f"), follow: true, changes }).unwrap();
}

#[test]
fn it_rises_with_writes_in_place_whatever_the_clocks_say() {
    let mut world = World::new(2);
    let (writer, other) = (world.client(), world.client());
    let opened = writer.create("f");
    let mut seen = Seen(Vec::new());
    seen.rises(&other);
    for _ in 0..3 {
        // A write of the same size at the same time.
        world.write(&opened, 5000).unwrap();
        seen.rises(&other);
    }
    // The clock jumps past every time that a disk may report, and back.
    for seconds in [9_000_000_000, 1] {
        set_mtime(&other, seconds);
        seen.rises(&other);
        world.write(&opened, 5000).unwrap();
        seen.rises(&other);
    }
    writer.close(&opened);
    seen.stays_or_rises(&other);
    world.settle();
    seen.stays_or_rises(&other);
    let quiet = *seen.0.last().unwrap();
    world.pass(10_000);
    assert_eq!(other.stat("f").unwrap().change, quiet, "nothing changes it when nothing happens");
}

#[test]
fn it_stays_over_a_restart_and_rises_with_a_loss_of_power() {
    let mut world = World::new(2);
    let writer = world.client();
    let opened = writer.create("f");
    world.write(&opened, 5000).unwrap();
    writer.close(&opened);
    world.settle();
    world.core.sync().unwrap();
    let mut seen = Seen(Vec::new());
    seen.rises(&writer);
    let quiet = seen.0[0];
    world.restart();
    let writer = writer.reclaim(&mut world).unwrap();
    assert_eq!(writer.stat("f").unwrap().change, quiet);
    // Written in place. The mark was not synced and is lost with the power: the record is that of
    // the old bytes.
    let opened = open(&writer);
    world.write(&opened, 5000).unwrap();
    seen.rises(&writer);
    world.power_loss();
    world.pass(GRACE_MS + SESSION_SILENT_MS);
    let client = world.client();
    seen.rises(&client);
    set_mtime(&client, 5);
    seen.rises(&client);
    let before = seen.0.last().copied();
    world.restart();
    let client = client.reclaim(&mut world).unwrap();
    assert_eq!(Some(client.stat("f").unwrap().change), before, "the floor of the loss stays");
}

#[test]
fn it_does_not_fall_when_a_file_being_written_is_opened_or_changed() {
    let mut world = World::new(2);
    let (writer, other) = (world.client(), world.client());
    let opened = writer.create("f");
    world.write(&opened, 5000).unwrap();
    let mut seen = Seen(Vec::new());
    seen.rises(&other);
    let again = open(&other);
    assert!(again.attributes.change >= seen.0[0]);
    seen.0.push(again.attributes.change);
    world.write(&again, 5000).unwrap();
    let cut = other.truncate("f", 100).unwrap();
    assert!(seen.0.iter().all(|before| *before < cut.change));
    seen.0.push(cut.change);
    seen.stays_or_rises(&writer);
}
