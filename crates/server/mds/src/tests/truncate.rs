//! Truncate and punch, killed between any two steps (I5). ADR 0004 numbers them.

use braid_types::{
    ByteCount, FileOffset, IodId, Status, Timestamp,
    limits::{GRACE_MS, SESSION_SILENT_MS},
};
use braid_wire::{
    Credential, Deny, Rights, Role,
    message::{
        lease::LeaseMode,
        mds::{
            AttributeChanges, Envelope, ExtendGrowthGrant, MakeDirectory, Open, OpenReply,
            PunchHole, RegisterIod, RenewCapability, SetAttributes, SetTime, Stat, Unlink,
        },
        types::Attributes,
    },
};

use super::world::{Client, World, at, create, register, set_size};
use crate::{TICK_MS, size::GATE_WAIT_MS_MAX};

/// A file of 40,000 bytes on three daemons, open for writing.
fn written() -> (World, Client, OpenReply) {
    let mut world = World::new(3);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 40_000).unwrap();
    (world, client, opened)
}

#[test]
fn down_up_and_into_the_middle_of_a_stripe() {
    let (_world, client, _) = written();
    for bytes in [40_000, 4096, 5000, 0, 1, 12_289, 1 << 30, 4095] {
        assert_eq!(client.truncate("f", bytes).unwrap().bytes, ByteCount(bytes));
        assert_eq!(client.stat("f").unwrap().bytes, ByteCount(bytes));
    }
}

#[test]
fn a_write_of_the_old_generation_is_refused_until_renewal() {
    let (world, client, opened) = written();
    client.truncate("f", 100).unwrap();
    assert_eq!(world.write(&opened, 50_000), Err(Status::StaleGeneration));
    let (open_id, file) = (opened.open_id, opened.attributes.file);
    let fresh = client.call(RenewCapability { open_id, file, rights: Rights::READ_WRITE }).unwrap();
    world.write(&fresh, 200).unwrap();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(200));
}

#[test]
fn a_truncate_beside_a_writer_reaches_the_parts_that_have_no_object_yet() {
    for writes_on in [true, false] {
        let mut world = World::new(3);
        let client = world.client();
        let opened = client.create("f");
        world.write(&opened, 100).unwrap();
        if !writes_on {
            client.close(&opened);
            world.settle();
        }
        client.truncate("f", 10).unwrap();
        assert_eq!(world.objects_of(opened.attributes.file), if writes_on { 3 } else { 1 });
        if writes_on {
            assert_eq!(world.write(&opened, 40_000), Err(Status::StaleGeneration));
            assert_eq!(client.stat("f").unwrap().bytes, ByteCount(10));
        }
    }
}

#[test]
fn during_a_truncate_no_half_state_is_seen_and_no_capability_is_given() {
    let (mut world, client, opened) = written();
    let other = world.client();
    world.iods.hold();
    let truncate = client.begin(1, set_size("f", 10));
    assert!(world.iods.step(), "one daemon has cut, two have not");
    let stat = other.begin(1, Stat { at: at("f"), follow: true });
    let open = other.begin(
        2,
        Open {
            at: at("f"),
            rights: Rights::WRITE,
            truncate: false,
            lease: LeaseMode::None,
            deny: Deny::NONE,
        },
    );
    let (open_id, file) = (opened.open_id, opened.attributes.file);
    let renew = client.begin(2, RenewCapability { open_id, file, rights: Rights::READ_WRITE });
    assert!(!truncate.has_come() && !stat.has_come() && !open.has_come() && !renew.has_come());
    world.iods.release();
    let size = |pending: &super::world::Pending| {
        let attributes: braid_wire::message::types::Attributes = pending.take().unwrap().unwrap();
        attributes.bytes
    };
    assert_eq!((size(&truncate), size(&stat)), (ByteCount(10), ByteCount(10)));
    let renewed: OpenReply = renew.take().unwrap().unwrap();
    world.write(&renewed, 20).unwrap();
    let opened: OpenReply = open.take().unwrap().unwrap();
    world.write(&opened, 20).unwrap();
}

#[test]
fn a_truncate_at_a_hung_daemon_fails_in_time_and_is_done_once() {
    let (mut world, client, opened) = written();
    let punch = |file| PunchHole { file, offset: FileOffset(0), bytes: ByteCount(4096) };
    let file = opened.attributes.file;
    type Begin<'a> = &'a dyn Fn(&Client) -> super::world::Pending;
    let calls: [Begin<'_>; 2] =
        [&|client| client.begin(1, set_size("f", 10)), &|client| client.begin(2, punch(file))];
    for begin in calls {
        world.iods.hold();
        let waits = begin(&client);
        assert!(
            world.iods.step() && world.iods.step(),
            "two daemons answer, the third lives and does not"
        );
        world.pass(GATE_WAIT_MS_MAX);
        assert!(!waits.has_come());
        world.pass(2 * TICK_MS);
        let failure = waits.take::<Attributes>().unwrap().unwrap_err();
        assert_eq!(
            (failure.status, failure.blamed()),
            (Status::TryAgain, Some("I/O daemon 3 at 127.0.0.1:7003")),
            "{failure}"
        );
        // The held call is done now, and the repeated one after it.
        world.iods.release();
        world.pass(2000);
        assert_eq!(world.status().intents_pending, 0);
        assert_eq!(client.stat("f").unwrap().bytes, ByteCount(10));
    }
    let other = world.client();
    let again = Open {
        at: at("f"),
        rights: Rights::WRITE,
        truncate: false,
        lease: LeaseMode::None,
        deny: Deny::NONE,
    };
    let again = other.call(again).unwrap();
    world.write(&again, 6000).unwrap();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(6000));
}

#[test]
fn killed_after_any_number_of_daemons_it_is_finished_once_at_restart() {
    for steps in 0..=3 {
        let (mut world, client, _) = written();
        world.iods.hold();
        let envelope = client.next();
        let truncate = client.begin_as(envelope.clone(), set_size("f", 5000));
        (0..steps).for_each(|_| assert!(world.iods.step()));
        assert_eq!(truncate.has_come(), steps == 3);
        world.restart();
        world.pass(1000);
        assert_eq!(world.status().intents_pending, 0, "after {steps} daemons");
        let client = client.reclaim(&mut world).unwrap();
        let stat = Stat { at: at("f"), follow: true };
        assert_eq!(
            client.call_as(Envelope::PLAIN, stat).unwrap().bytes,
            ByteCount(5000),
            "after {steps} daemons"
        );
        // Another client makes it longer: the retry must not truncate it again.
        let other = world.client();
        let longer = other
            .call(Open {
                at: at("f"),
                rights: Rights::WRITE,
                truncate: false,
                lease: LeaseMode::None,
                deny: Deny::NONE,
            })
            .unwrap();
        world.write(&longer, 6000).unwrap();
        let again = client.begin_as(envelope, set_size("f", 5000)).take();
        let again: braid_wire::message::types::Attributes = again.unwrap().unwrap();
        assert_eq!(again.bytes, ByteCount(6000), "after {steps} daemons");
    }
}

#[test]
fn killed_before_the_intent_was_committed_nothing_happened() {
    let (mut world, client, opened) = written();
    let objects = world.iods.state().objects.clone();
    world.iods.state().log.clear();
    // The log accepts no batch any more: the server dies before the intent is on record.
    world.store.set_faults(braid_meta::Faults {
        failing_commits: (0..100).collect(),
        ..Default::default()
    });
    let envelope = client.next();
    let failure = client.call_as(envelope.clone(), set_size("f", 5000)).unwrap_err();
    assert_eq!(failure.status, Status::DiskError, "{failure}");
    let asked = world.iods.state().log.clone();
    assert!(
        !asked.iter().any(|(_, call)| *call == "Truncate"),
        "no daemon cuts before the intent is on record: {asked:?}"
    );
    world.restart();
    assert_eq!(world.status().intents_pending, 0);
    let client = client.reclaim(&mut world).unwrap();
    let stat = Stat { at: at("f"), follow: true };
    let found = client.call_as(Envelope::PLAIN, stat).unwrap();
    assert_eq!(
        (found.bytes, found.size_generation),
        (ByteCount(40_000), opened.attributes.size_generation)
    );
    assert_eq!(world.iods.state().objects, objects);
    // Nothing is on record: the same call runs, and is not answered from a record.
    assert_eq!(client.call_as(envelope, set_size("f", 5000)).unwrap().bytes, ByteCount(5000));
}

#[test]
fn a_daemon_that_is_down_is_named_and_its_truncate_ends_when_it_is_back() {
    let (world, client, _) = written();
    world.iods.state().dead.insert(IodId(2));
    let envelope = client.next();
    let failure = client.call_as(envelope.clone(), set_size("f", 10)).unwrap_err();
    assert_eq!(failure.status, Status::TryAgain);
    assert!(failure.detail.contains("I/O daemon 2"), "{failure}");
    let waits = client.begin(1, Stat { at: at("f"), follow: true });
    assert!(!waits.has_come(), "it may be back with the next heartbeat");
    world.pass(crate::size::GATE_WAIT_KNOWN_REASON_MS_MAX + 2 * crate::TICK_MS);
    let failure = waits.take::<braid_wire::message::types::Attributes>().unwrap().unwrap_err();
    assert!(failure.detail.contains("I/O daemon 2"), "{failure}");
    world.iods.state().dead.clear();
    let retry = client.begin_as(envelope, set_size("f", 10));
    world.pass(2000);
    let attributes: braid_wire::message::types::Attributes = retry.take().unwrap().unwrap();
    assert_eq!(attributes.bytes, ByteCount(10));
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(10));
}

#[test]
fn a_file_removed_while_its_truncate_waits_leaves_no_object_behind() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    client.close(&opened);
    world.settle();
    world.iods.state().dead.insert(IodId(2));
    client.truncate("f", 2 * 4096).unwrap_err();
    let file = opened.attributes.file;
    assert!(world.objects_of(file) > 0, "the other daemon has grown its object");
    client.call(Unlink { at: at("f") }).unwrap();
    world.iods.state().dead.clear();
    world.pass(10_000);
    assert_eq!((world.objects_of(file), world.status().intents_pending), (0, 0));
}

#[test]
fn a_file_removed_while_its_truncate_is_in_flight_leaves_no_object() {
    let mut world = World::new(1);
    let client = world.client();
    let opened = client.create("f");
    client.close(&opened);
    world.settle();
    world.iods.hold();
    let truncate = client.begin(1, set_size("f", 4096));
    client.call(Unlink { at: at("f") }).unwrap();
    world.pass(1000);
    assert_eq!(world.iods.waiting(), 1, "the truncate alone");
    world.iods.release();
    assert!(truncate.has_come());
    world.pass(10_000);
    assert_eq!(world.objects_of(opened.attributes.file), 0);
}

#[test]
fn a_call_at_a_gate_without_a_known_reason_fails_within_its_attempt() {
    let (world, client, _) = written();
    world.iods.hold();
    let _truncate = client.begin(1, set_size("f", 100));
    let waits = client.begin(2, Stat { at: at("f"), follow: true });
    world.pass(crate::size::GATE_WAIT_KNOWN_REASON_MS_MAX + 2 * crate::TICK_MS);
    assert!(!waits.has_come(), "a truncate that goes on is waited for");
    world.pass(crate::size::GATE_WAIT_MS_MAX);
    let failure = waits.take::<braid_wire::message::types::Attributes>().unwrap().unwrap_err();
    assert_eq!(failure.blamed(), Some("I/O daemon 1 at 127.0.0.1:7001"), "{failure}");
    const {
        assert!(
            crate::size::GATE_WAIT_MS_MAX * 3 < braid_types::limits::TIMEOUT_SECONDS_DEFAULT * 1000
        )
    }
}

#[test]
fn two_truncates_of_one_file_are_done_one_after_the_other() {
    let (world, client, _) = written();
    world.iods.hold();
    let first = client.begin(1, set_size("f", 100));
    let second = client.begin(2, set_size("f", 9000));
    world.iods.release();
    let size = |pending: super::world::Pending| {
        pending.take::<braid_wire::message::types::Attributes>().unwrap().unwrap().bytes.0
    };
    assert_eq!((size(first), size(second)), (100, 9000));
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(9000));
}

#[test]
fn opening_with_truncation_empties_what_is_there() {
    let (world, client, _) = written();
    let opened = client
        .call(Open {
            at: at("f"),
            rights: Rights::WRITE,
            truncate: true,
            lease: LeaseMode::None,
            deny: Deny::NONE,
        })
        .unwrap();
    assert_eq!(opened.attributes.bytes, ByteCount(0));
    world.write(&opened, 77).unwrap();
    let again =
        braid_wire::message::mds::Create { exclusive: false, truncate: true, ..create("f") };
    let made = client.call(again).unwrap();
    assert!(!made.created);
    assert_eq!(made.attributes.bytes, ByteCount(0));
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(0));
}

#[test]
fn a_hole_is_punched_only_with_the_file_open_for_writing() {
    let (mut world, client, opened) = written();
    let file = opened.attributes.file;
    let punch = || PunchHole { file, offset: FileOffset(10), bytes: ByteCount(5000) };
    let stranger = world.client();
    assert_eq!(stranger.call(punch()).unwrap_err().status, Status::Invalid);
    let attributes = client.call(punch()).unwrap();
    assert_eq!(attributes.bytes, ByteCount(40_000), "the size stays");
    assert!(attributes.size_generation > opened.attributes.size_generation);
    assert_eq!(world.write(&opened, 10), Err(Status::StaleGeneration));
}

#[test]
fn the_largest_size_is_a_file_and_one_more_is_not() {
    let (_world, client, _) = written();
    let largest = braid_types::limits::FILE_BYTES_MAX;
    assert_eq!(client.truncate("f", largest).unwrap().bytes, ByteCount(largest));
    assert_eq!(client.truncate("f", largest + 1).unwrap_err().status, Status::TooLarge);
}

#[test]
fn a_truncate_with_other_changes_does_all_of_them_or_none() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 5000).unwrap();
    client.close(&opened);
    world.settle();
    let changes = |uid| AttributeChanges {
        bytes: Some(ByteCount(100)),
        mode: Some(0o600),
        uid: Some(uid),
        mtime: Some(SetTime { time: Some(Timestamp { seconds: 77, nanos: 123_456_789 }) }),
        ..AttributeChanges::none()
    };
    let set = |uid| SetAttributes { at: at("f"), follow: true, changes: changes(uid) };
    let user = client.define(0x1000);
    let chmod = AttributeChanges { mode: Some(0o666), ..AttributeChanges::none() };
    client.call(SetAttributes { at: at("f"), follow: true, changes: chmod }).unwrap();
    let refused = client.call_as(Envelope { identity: user, ..client.next() }, set(5)).unwrap_err();
    assert_eq!(refused.status, Status::NotPermitted, "it may write the file, and not give it away");
    let before = client.stat("f").unwrap();
    assert_eq!((before.bytes, before.mode, before.uid), (ByteCount(5000), 0o666, 0));

    world.iods.hold();
    let pending = client.begin(1, set(5));
    world.restart();
    let client = client.reclaim(&mut world).unwrap();
    assert!(!pending.has_come(), "the server died before it answered");
    world.pass(2000);
    let after = client.stat("f").unwrap();
    assert_eq!(
        (after.bytes, after.mode, after.uid),
        (ByteCount(100), 0o600, 5),
        "what was begun is done, all of it"
    );
}

#[test]
fn a_time_that_is_set_with_a_size_is_the_time_returned() {
    let mut world = World::new(1);
    let client = world.client();
    client.call(create("f")).unwrap();
    let time = Timestamp { seconds: -77, nanos: 123_456_789 };
    let changes = AttributeChanges {
        bytes: Some(ByteCount(100)),
        mtime: Some(SetTime { time: Some(time) }),
        ..AttributeChanges::none()
    };
    let set = client.call(SetAttributes { at: at("f"), follow: true, changes }).unwrap();
    assert_eq!((set.mtime, set.bytes), (time, ByteCount(100)));
    assert!(set.ctime.seconds >= 1_000_000, "that is the server's");
}

#[test]
fn set_ids_are_dropped_from_the_mode_as_it_is_alone_or_with_a_size() {
    let (_world, client, opened) = written();
    let set = |changes| client.call(SetAttributes { at: at("f"), follow: true, changes }).unwrap();
    let drop = || AttributeChanges { drop_set_ids: true, ..AttributeChanges::none() };
    for (mode, left) in
        [(0o6755, 0o755), (0o4600, 0o600), (0o2711, 0o711), (0o2644, 0o2644), (0o600, 0o600)]
    {
        for bytes in [None, Some(ByteCount(100))] {
            let before = set(AttributeChanges { mode: Some(mode), ..AttributeChanges::none() });
            let after = set(AttributeChanges { bytes, ..drop() });
            assert_eq!((after.mode, after.uid), (left, before.uid), "{mode:o}");
        }
    }
    client.call(MakeDirectory { at: at("d"), mode: 0o2755, umask: 0 }).unwrap();
    let kept = client.call(SetAttributes { at: at("d"), follow: true, changes: drop() }).unwrap();
    assert_eq!(kept.mode, 0o2755, "new files of a directory get its group");
    // A user who has the file open for writing may write, whatever the mode is now; another user
    // may not.
    let user = client.define(0x1000);
    set(AttributeChanges { mode: Some(0o4700), ..AttributeChanges::none() });
    let drops = || SetAttributes { at: at("f"), follow: true, changes: drop() };
    let by_user = client.call_as(Envelope { identity: user, ..client.next() }, drops()).unwrap();
    assert_eq!(by_user.mode, 0o700, "its session has it open for writing");
    set(AttributeChanges { mode: Some(0o4700), ..AttributeChanges::none() });
    client.close(&opened);
    let refused =
        client.call_as(Envelope { identity: user, ..client.next() }, drops()).unwrap_err();
    assert_eq!(refused.status, Status::PermissionDenied);
}

#[test]
fn a_size_too_large_for_the_disks_is_refused_before_it_is_recorded() {
    const MIB: u64 = 1 << 20;
    let mut world = World::new(2);
    for id in [1, 2] {
        let daemon = world.connect(Role::Iod, Credential::Server);
        daemon
            .call(RegisterIod { object_bytes_max: ByteCount(MIB), ..register(id, id as u8) })
            .unwrap();
    }
    let client = world.client();
    let opened = client.create("f");
    assert_eq!(opened.growth_grant, Some(MIB), "whatever the stripes, that much fits");
    world.write(&opened, 5000).unwrap();
    assert_eq!(
        client.truncate("f", 2 * MIB).unwrap().bytes,
        ByteCount(2 * MIB),
        "1 MiB on each disk"
    );
    world.iods.state().log.clear();
    for bytes in [2 * MIB + 1, 70 << 40] {
        let refused = client.truncate("f", bytes).unwrap_err();
        assert_eq!(refused.status, Status::TooLarge, "{refused}");
        assert!(refused.detail.contains("I/O daemon"), "{refused}");
    }
    assert!(
        !world.iods.state().log.iter().any(|(_, call)| *call == "Truncate"),
        "no daemon was asked"
    );
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(2 * MIB));
    let (open_id, file) = (opened.open_id, opened.attributes.file);
    let extend = |end| client.call(ExtendGrowthGrant { open_id, file, end });
    assert_eq!(extend(MIB + 1).unwrap(), Some(2 * MIB));
    assert_eq!(extend(2 * MIB + 1).unwrap_err().status, Status::TooLarge);
}

/// A daemon refuses to make objects longer than 1 MiB, which the server does not know.
fn refusing() -> (World, Client, OpenReply) {
    let mut world = World::new(3);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 40_000).unwrap();
    world.iods.state().refusing.insert(IodId(2), (1 << 20, Status::TooLarge));
    (world, client, opened)
}

fn is_usable(world: &mut World, client: &Client) {
    assert_eq!(world.status().intents_pending, 0);
    let open = Open {
        at: at("f"),
        rights: Rights::READ_WRITE,
        truncate: false,
        lease: LeaseMode::None,
        deny: Deny::NONE,
    };
    let opened = client.call(open).unwrap();
    world.write(&opened, 50_000).unwrap();
    client.close(&opened);
    client.truncate("f", 100).unwrap();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(100));
    client.call(Unlink { at: at("f") }).unwrap();
}

#[test]
fn a_truncate_that_a_daemon_refuses_is_undone_and_the_file_stays_usable() {
    let (mut world, client, opened) = refusing();
    client.close(&opened);
    world.settle();
    let refused = client.truncate("f", 70 << 40).unwrap_err();
    assert_eq!(
        (refused.status, refused.blamed()),
        (Status::TooLarge, Some("I/O daemon 2 at 127.0.0.1:7002"))
    );
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(40_000));
    let longest = world.iods.state().objects.values().map(|object| object.bytes).max();
    assert!(longest < Some(40_000), "what the others had grown is cut back: {longest:?}");
    is_usable(&mut world, &client);
    world.pass(10_000);
    assert_eq!(world.objects_of(opened.attributes.file), 0, "nothing of it is left behind");
}

#[test]
fn a_refused_truncate_loses_no_bytes_written_past_the_recorded_size() {
    let (mut world, client, opened) = refusing();
    let refused = client.truncate("f", 70 << 40).unwrap_err();
    assert_eq!(refused.status, Status::TooLarge, "{refused}");
    assert!(client.stat("f").unwrap().bytes >= ByteCount(40_000));
    assert_eq!(
        world.write(&opened, 50_000),
        Err(Status::StaleGeneration),
        "the capability is of before"
    );
    is_usable(&mut world, &client);
}

#[test]
fn a_server_that_starts_undoes_the_truncate_that_a_daemon_refuses() {
    for steps in 0..=3 {
        let (mut world, client, opened) = refusing();
        client.close(&opened);
        world.settle();
        world.iods.hold();
        let _truncate = client.begin(1, set_size("f", 70 << 40));
        (0..steps).for_each(|_| assert!(world.iods.step()));
        world.restart();
        let client = client.reclaim(&mut world).unwrap();
        world.pass(2000);
        assert_eq!(client.stat("f").unwrap().bytes, ByteCount(40_000), "after {steps} daemons");
        is_usable(&mut world, &client);
    }
}

#[test]
fn a_hole_that_a_daemon_cannot_make_is_an_error_and_the_file_stays_usable() {
    for status in [Status::Unsupported, Status::NoSpace, Status::ObjectLost] {
        let (mut world, client, opened) = written();
        world.iods.state().refusing.insert(IodId(2), (u64::MAX, status));
        let file = opened.attributes.file;
        let punch = PunchHole { file, offset: FileOffset(0), bytes: ByteCount(30_000) };
        assert_eq!(client.call(punch).unwrap_err().status, status);
        assert_eq!(client.stat("f").unwrap().bytes, ByteCount(40_000));
        is_usable(&mut world, &client);
    }
}

#[test]
fn a_growing_truncate_without_disk_space_is_undone() {
    let (mut world, client, opened) = refusing();
    client.close(&opened);
    world.settle();
    world.iods.state().refusing.insert(IodId(2), (0, Status::NoSpace));
    assert_eq!(client.truncate("f", 40_001).unwrap_err().status, Status::NoSpace);
    // Undoing it needs the same daemon, which has no space for that either.
    assert_eq!(world.status().intents_pending, 1);
    world.iods.state().refusing.clear();
    world.pass(2000);
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(40_000));
    is_usable(&mut world, &client);
}

#[test]
fn a_truncate_without_disk_space_beside_a_writer_ends_and_opens_the_file() {
    for status in [Status::NoSpace, Status::Unsupported, Status::Invalid] {
        let (mut world, client, opened) = written();
        // It holds 16 KiB of the file.
        world.iods.state().refusing.insert(IodId(2), (20_000, status));
        let waits = client.begin(1, set_size("f", 100_000));
        let told = waits.take::<Attributes>().unwrap().unwrap_err();
        assert_eq!((told.status, told.blamed()), (status, Some("I/O daemon 2 at 127.0.0.1:7002")));
        assert!(client.stat("f").unwrap().bytes >= ByteCount(40_000), "no byte is lost");
        assert_eq!(world.write(&opened, 50_000), Err(Status::StaleGeneration));
        is_usable(&mut world, &client);
    }
}

#[test]
fn a_truncate_that_shrinks_beside_a_writer_is_tried_until_there_is_space() {
    let (mut world, client, opened) = written();
    let (open_id, file) = (opened.open_id, opened.attributes.file);
    client.truncate("f", 40_000).unwrap();
    client.call(RenewCapability { open_id, file, rights: Rights::READ_WRITE }).unwrap();
    world.iods.state().refusing.insert(IodId(2), (0, Status::NoSpace));
    assert_eq!(client.truncate("f", 30_000).unwrap_err().status, Status::NoSpace);
    assert_eq!(world.status().intents_pending, 1, "undoing it would need space, too");
    world.iods.state().refusing.clear();
    world.pass(2000);
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(30_000));
    is_usable(&mut world, &client);
}

#[test]
fn no_old_bytes_follow_new_ones_after_a_loss_of_power() {
    let mut world = World::new(2);
    let (writer, other) = (world.client(), world.client());
    let made = writer.create("f");
    writer.close(&made);
    world.settle();
    world.core.sync().unwrap();
    let open = |client: &Client, truncate| {
        let (rights, lease, deny) = (Rights::READ_WRITE, LeaseMode::None, Deny::NONE);
        client.call(Open { at: at("f"), rights, truncate, lease, deny }).unwrap()
    };
    let opened = open(&writer, false);
    world.write(&opened, 9000).unwrap();
    // The mark is lost with the power; the bytes are on the daemons. Nobody reclaims.
    world.power_loss();
    world.pass(GRACE_MS + SESSION_SILENT_MS);
    drop((writer, other));
    let client = world.client();
    let emptied = open(&client, true);
    world.write(&emptied, 10).unwrap();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(10));
}
