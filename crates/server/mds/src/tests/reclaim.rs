//! Reclaims of clients after a restart of the server. ADR 0008.

use braid_types::{
    ByteCount, FileIndex, Status,
    limits::{GRACE_MS, SESSION_SILENT_MS},
};
use braid_wire::{
    Deny, Rights,
    message::{
        lease::LeaseMode,
        mds::{
            AttributeChanges, Close, Open, OpenReply, ReadDirectory, RenewCapability,
            SetAttributes, Unlink,
        },
        types::PathRef,
    },
};

use super::world::{Client, World, at};

fn open(client: &Client, path: &str, rights: Rights) -> OpenReply {
    client
        .call(Open {
            at: at(path),
            rights,
            truncate: false,
            lease: LeaseMode::None,
            deny: Deny::NONE,
        })
        .unwrap()
}

/// A client with a file of 5,000 bytes, closed and synced, whose mark has ended.
fn reclaimed_client(world: &mut World) -> Client {
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 5000).unwrap();
    client.close(&opened);
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 0);
    world.core.sync().unwrap();
    client
}

/// The only file's size in a listing of the root.
fn listed(client: &Client) -> Option<ByteCount> {
    let list =
        ReadDirectory { dir: FileIndex::ROOT, cookie: 0, bytes_max: 4096, with_attributes: true };
    let entries = client.call(list).unwrap().entries;
    entries[0].attributes.as_ref().map(|attributes| attributes.bytes)
}

#[test]
fn a_file_open_for_writing_keeps_its_mark_when_the_server_loses_power() {
    let mut world = World::new(2);
    let client = reclaimed_client(&mut world);
    let opened = open(&client, "f", Rights::WRITE);
    world.power_loss();
    let again = client.reclaim_with(&mut world, &[&opened]).unwrap();
    assert_eq!(world.status().sizes_in_objects, 1);
    let (open_id, file) = (opened.open_id, opened.attributes.file);
    let fresh = again.call(RenewCapability { open_id, file, rights: Rights::WRITE }).unwrap();
    world.write(&fresh, 9000).unwrap();
    world.pass(GRACE_MS + 1000);
    assert_eq!(again.stat("f").unwrap().bytes, ByteCount(9000));
}

#[test]
fn the_end_of_grace_takes_nothing_from_a_session_that_is_reclaiming() {
    let mut world = World::new(2);
    let (client, absent) = (reclaimed_client(&mut world), world.client());
    let read = open(&client, "f", Rights::READ);
    client.call(Unlink { at: at("f") }).unwrap();
    world.restart();
    world.pass(GRACE_MS - 1000);
    let again = client.join(&mut world).unwrap();
    assert_eq!(again.tell(&[], false).unwrap(), [], "there is more to come");
    world.pass(5000);
    assert!(
        world.core.namespace.session(absent.session).unwrap().is_some(),
        "the others' end waits, too"
    );
    assert_eq!(again.tell(&[&read], true).unwrap(), []);
    world.pass(1000);
    assert_eq!(world.core.namespace.session(absent.session).unwrap(), None);
    assert_eq!(world.objects_of(read.attributes.file), 2);
    again.close(&read);
    world.pass(1000);
    assert_eq!(world.objects_of(read.attributes.file), 0);
}

#[test]
fn an_incomplete_reclaim_is_waited_for_as_long_as_a_silent_session() {
    let mut world = World::new(1);
    let (client, absent) = (world.client(), world.client());
    world.restart();
    let again = client.join(&mut world).unwrap();
    for _ in 0..(GRACE_MS + SESSION_SILENT_MS) / 5000 {
        assert!(world.core.namespace.session(absent.session).unwrap().is_some());
        again.tell(&[], false).unwrap();
        world.pass(5000);
    }
    world.pass(1000);
    assert_eq!(world.core.namespace.session(absent.session).unwrap(), None);
}

#[test]
fn a_close_after_a_restart_closes() {
    let mut world = World::new(2);
    let client = world.client();
    let (written, read) = (client.create("w"), client.create("r"));
    client.close(&read);
    let read = open(&client, "r", Rights::READ);
    world.write(&written, 5000).unwrap();
    world.restart();
    let client = client.reclaim_with(&mut world, &[&written, &read]).unwrap();
    assert_eq!(world.status().open_files, 2);
    client.call(Close { open_ids: vec![written.open_id, read.open_id] }).unwrap();
    assert_eq!(world.status().open_files, 0);
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 0);
    assert_eq!(client.stat("w").unwrap().bytes, ByteCount(5000));
}

#[test]
fn an_idle_readers_unlinked_file_survives_a_restart() {
    let mut world = World::new(1);
    let client = reclaimed_client(&mut world);
    let reader = world.client();
    let opened = open(&reader, "f", Rights::READ);
    let file = opened.attributes.file;
    client.call(Unlink { at: at("f") }).unwrap();
    world.restart();
    let reader = reader.reclaim_with(&mut world, &[&opened]).unwrap();
    world.pass(GRACE_MS + 10_000);
    assert_eq!(world.objects_of(file), 1);
    reader.close(&opened);
    world.pass(6000);
    assert_eq!(world.objects_of(file), 0);
}

#[test]
fn a_file_unlinked_before_its_readers_reclaim_waits_for_it() {
    let mut world = World::new(1);
    let client = reclaimed_client(&mut world);
    let (reader, opened) = (world.client(), open(&client, "f", Rights::READ));
    let file = opened.attributes.file;
    world.restart();
    reader.reclaim(&mut world).unwrap().call(Unlink { at: at("f") }).unwrap();
    client.reclaim_with(&mut world, &[&opened]).unwrap();
    world.pass(GRACE_MS + 10_000);
    assert_eq!(world.objects_of(file), 1);
}

#[test]
fn a_retry_of_a_reclaim_counts_once() {
    let mut world = World::new(1);
    let client = reclaimed_client(&mut world);
    let (one, two) = (open(&client, "f", Rights::WRITE), open(&client, "f", Rights::WRITE));
    for lost in [false, true] {
        if lost {
            world.power_loss()
        } else {
            world.restart()
        }
        let again = client.join(&mut world).unwrap();
        assert_eq!(again.tell(&[&one], false).unwrap(), []);
        assert_eq!(again.tell(&[&one, &two], true).unwrap(), []);
        let late = client.join(&mut world).unwrap();
        assert_eq!(late.tell(&[&one, &two], true).unwrap(), [], "answered alike");
        if lost {
            again.close(&one);
            assert_eq!(world.status().open_files, 1, "the other handle still has it open");
            assert_eq!(
                late.tell(&[&one, &two], true).unwrap(),
                [one.open_id],
                "closed handles stay closed"
            );
            again.close(&two);
            assert_eq!(world.status().open_files, 0);
        }
    }
}

#[test]
fn what_is_not_named_is_closed() {
    let mut world = World::new(1);
    let client = reclaimed_client(&mut world);
    let (named, _dropped) = (open(&client, "f", Rights::WRITE), open(&client, "f", Rights::WRITE));
    let other = client.create("other");
    world.write(&other, 100).unwrap();
    world.restart();
    let client = client.reclaim_with(&mut world, &[&named]).unwrap();
    assert_eq!(world.status().open_files, 1);
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 1, "that of the file that is still open");
    client.close(&other);
    assert_eq!(world.status().open_files, 1, "a close of what was not named is harmless");
    client.close(&named);
    assert_eq!(world.status().open_files, 0);
}

#[test]
fn a_reclaim_that_comes_late_changes_nothing() {
    let mut world = World::new(1);
    let client = reclaimed_client(&mut world);
    let opened = open(&client, "f", Rights::WRITE);
    world.restart();
    let late = client.join(&mut world).unwrap();
    let again = client.reclaim(&mut world).unwrap();
    let fresh = open(&again, "f", Rights::WRITE);
    assert_eq!(late.tell(&[&opened], true).unwrap(), [opened.open_id]);
    assert_eq!(world.status().open_files, 1, "what was opened meanwhile stays open");
    again.close(&fresh);
    assert_eq!(world.status().open_files, 0);
}

#[test]
fn a_handle_of_a_removed_or_no_longer_writable_file_is_refused() {
    let mut world = World::new(1);
    let client = reclaimed_client(&mut world);
    let user = client.define(1000);
    let changes = AttributeChanges { mode: Some(0o666), ..AttributeChanges::none() };
    client.call(SetAttributes { at: at("f"), follow: true, changes }).unwrap();
    world.core.sync().unwrap();
    let envelope = braid_wire::message::mds::Envelope { identity: user, ..client.next() };
    let shut = client
        .call_as(
            envelope,
            Open {
                at: at("f"),
                rights: Rights::WRITE,
                truncate: false,
                lease: LeaseMode::None,
                deny: Deny::NONE,
            },
        )
        .unwrap();
    let changes = AttributeChanges { mode: Some(0o600), ..AttributeChanges::none() };
    client.call(SetAttributes { at: at("f"), follow: true, changes }).unwrap();
    world.core.sync().unwrap();
    let gone = client.create("gone");
    world.power_loss();
    let again = client.join(&mut world).unwrap();
    assert_eq!(again.tell(&[&gone], false).unwrap(), [gone.open_id]);
    assert_eq!(again.tell_as(again.define(1000), &[&shut], true).unwrap(), [shut.open_id]);
    assert_eq!(world.status().open_files, 0);
    let renewed = again.call(RenewCapability {
        open_id: shut.open_id,
        file: shut.attributes.file,
        rights: Rights::WRITE,
    });
    assert_eq!(renewed.unwrap_err().status, Status::StaleHandle);
}

#[test]
fn records_are_uncertain_until_every_client_has_reclaimed() {
    let mut world = World::new(2);
    let client = reclaimed_client(&mut world);
    let other = world.client();
    let opened = open(&client, "f", Rights::WRITE);
    world.write(&opened, 9000).unwrap();
    world.power_loss();
    let other = other.reclaim(&mut world).unwrap();
    assert_eq!(listed(&other), Some(ByteCount(9000)), "the daemons were asked");
    assert_eq!(other.stat("f").unwrap().bytes, ByteCount(9000), "here too");
    assert_eq!(world.status().sizes_in_objects, 1, "and what disagreed is marked");
    world.settle();
    assert_eq!(
        world.status().sizes_in_objects,
        1,
        "no mark ends while a writer may not have reclaimed yet"
    );
    client.reclaim(&mut world).unwrap();
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 0);
    assert_eq!(other.stat("f").unwrap().bytes, ByteCount(9000));
    world.iods.state().log.clear();
    other.call(braid_wire::message::mds::Stat { at: PathRef::root(b"f"), follow: true }).unwrap();
    assert_eq!(world.iods.state().log, [], "nobody is asked any more");
}

#[test]
fn doubt_ends_with_the_grace_period_when_a_client_never_comes() {
    let mut world = World::new(1);
    reclaimed_client(&mut world);
    world.restart();
    let other = world.client();
    world.iods.state().log.clear();
    other.stat("f").unwrap();
    assert_eq!(world.iods.state().log.len(), 1);
    world.pass(GRACE_MS + 1000);
    world.iods.state().log.clear();
    other.stat("f").unwrap();
    assert_eq!(world.iods.state().log, []);
}
