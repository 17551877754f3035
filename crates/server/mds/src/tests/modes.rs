//! Open modes: what an open denies to others, in a server with leases, restarts and fences. ADR
//! 0009.

use braid_types::{
    ByteCount, FileIndex, Status,
    limits::{GRACE_MS, SESSION_SILENT_MS},
};
use braid_wire::{
    Deny, Rights,
    message::{
        lease::{LeaseKind, LeaseMode, ReturnedLease},
        mds::*,
    },
};

use super::world::{Client, Pending, World, at, create, set_size};

fn open(rights: Rights, deny: Deny) -> Open {
    Open { at: at("f"), rights, truncate: false, lease: LeaseMode::None, deny }
}

/// Two clients, and a file that was written and closed.
fn scene() -> (World, Client, Client) {
    let mut world = World::new(2);
    let (one, two) = (world.client(), world.client());
    let made = one.create("f");
    world.write(&made, 100).unwrap();
    one.close(&made);
    world.settle();
    (world, one, two)
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, braid_types::Failure>) -> String {
    let failure = outcome.unwrap_err();
    assert_eq!(failure.status, Status::SharingViolation, "{failure}");
    failure.detail
}

#[test]
fn while_writing_is_denied_others_may_read_and_nobody_may_write_or_cut() {
    let (world, one, two) = scene();
    let held = one.call(open(Rights::READ, Deny::WRITE)).unwrap();
    two.call(open(Rights::READ, Deny::NONE)).unwrap();
    let why = refused(two.call(open(Rights::WRITE, Deny::NONE)));
    assert!(why.contains("denies writing"), "{why}");
    refused(two.call(Open { truncate: true, ..open(Rights::WRITE, Deny::NONE) }));
    refused(two.call(Create { exclusive: false, rights: Some(Rights::WRITE), ..create("f") }));
    refused(two.call(set_size("f", 1)));
    refused(one.call(set_size("f", 1)));
    assert_eq!(two.stat("f").unwrap().bytes, ByteCount(100), "what was refused has done nothing");
    one.close(&held);
    two.call(set_size("f", 1)).unwrap();
    assert_eq!(
        two.call(Open { truncate: true, ..open(Rights::WRITE, Deny::NONE) })
            .unwrap()
            .attributes
            .bytes
            .0,
        0
    );
    drop(world);
}

#[test]
fn an_open_excludes_its_denial_until_it_is_closed() {
    let (_world, one, two) = scene();
    let writes = two.call(open(Rights::READ_WRITE, Deny::NONE)).unwrap();
    assert!(refused(one.call(open(Rights::READ, Deny::WRITE))).contains("has it open for writing"));
    assert!(refused(one.call(open(Rights::READ, Deny::READ))).contains("has it open for reading"));
    one.call(open(Rights::READ, Deny::NONE)).unwrap();
    two.close(&writes);
    one.call(open(Rights::READ, Deny::WRITE)).unwrap();
    refused(one.call(open(Rights::READ, Deny::READ)));
}

#[test]
fn a_retried_open_that_denies_gets_the_first_answer() {
    let (_world, one, _two) = scene();
    let alone = open(Rights::READ_WRITE, Deny::ALL);
    let envelope = one.next();
    let first = one.call_as(envelope.clone(), alone.clone()).unwrap();
    assert_eq!(one.call_as(envelope, alone.clone()).unwrap(), first);
    refused(one.call(alone.clone()));
    let plain = one.call_as(Envelope::PLAIN, alone).unwrap_err();
    assert_eq!(plain.status, Status::Malformed, "without a slot a repetition would exclude itself");
}

#[test]
fn modes_are_raised_and_lowered_and_a_change_that_is_excluded_leaves_them() {
    let (world, one, two) = scene();
    let mine = one.call(open(Rights::READ, Deny::NONE)).unwrap();
    let other = two.call(open(Rights::READ, Deny::NONE)).unwrap();
    let to = |rights, deny| SetOpenModes {
        open_id: mine.open_id,
        file: mine.attributes.file,
        rights,
        deny,
    };
    refused(one.call(to(Rights::READ, Deny::READ)));
    let raised = one.call(to(Rights::READ_WRITE, Deny::WRITE)).unwrap();
    assert_eq!(raised.open_id, mine.open_id);
    world.write(&raised, 200).unwrap();
    refused(two.call(open(Rights::WRITE, Deny::NONE)));
    let denies = SetOpenModes { open_id: other.open_id, ..to(Rights::READ, Deny::WRITE) };
    refused(two.call(denies.clone()));
    assert_eq!(one.call(to(Rights::READ, Deny::NONE)).unwrap().attributes.bytes, ByteCount(200));
    assert_eq!(
        one.call(to(Rights::READ, Deny::NONE)).unwrap().open_id,
        mine.open_id,
        "twice is once"
    );
    two.call(denies).unwrap();
    assert_eq!(two.stat("f").unwrap().bytes, ByteCount(200));
    one.close(&mine);
    assert_eq!(one.call(to(Rights::READ, Deny::NONE)).unwrap_err().status, Status::StaleHandle);
}

#[test]
fn the_last_writer_that_becomes_a_reader_has_the_size_recorded() {
    let (world, one, two) = scene();
    let mine = one.call(open(Rights::WRITE, Deny::NONE)).unwrap();
    world.write(&mine, 300).unwrap();
    let (open_id, file) = (mine.open_id, mine.attributes.file);
    one.call(SetOpenModes { open_id, file, rights: Rights::READ, deny: Deny::NONE }).unwrap();
    world.settle();
    let collects = world.iods.state().collects().len();
    assert_eq!(two.stat("f").unwrap().bytes, ByteCount(300));
    assert_eq!(world.iods.state().collects().len(), collects, "no daemon was asked");
}

#[test]
fn denying_deletes_keeps_the_name_until_the_close() {
    let (_world, one, two) = scene();
    let held = one.call(open(Rights::READ, Deny::DELETE)).unwrap();
    let rename = Rename { from: at("f"), to: at("g"), mode: RenameMode::Replace };
    refused(two.call(Unlink { at: at("f") }));
    refused(two.call(rename.clone()));
    two.call(open(Rights::READ_WRITE, Deny::NONE)).unwrap();
    one.close(&held);
    two.call(rename).unwrap();
}

/// A client that holds the names lease of the root.
fn names_holder(client: &Client) -> u64 {
    client
        .call_as(Envelope::PLAIN, LeaseNames { dir: FileIndex::ROOT })
        .unwrap()
        .expect("nothing conflicts with it")
        .number
}

/// Whether the names lease of the root is recalled; if so, returns it.
fn returns_recalled(client: &Client, seen: u64) -> bool {
    let recalls: Pending =
        client.begin_as(Envelope::PLAIN, AwaitRecalls { seen, io_under_leases: true });
    let Some(recalls) = recalls.take::<Vec<braid_wire::message::lease::Recall>>() else {
        return false;
    };
    let recall = recalls.unwrap().pop().expect("it has something to say");
    let (kind, number, keep) = (LeaseKind::Names, recall.number, LeaseMode::None);
    let leases = vec![ReturnedLease { kind, file: recall.file, number, keep }];
    client.call_as(Envelope::PLAIN, ReturnLeases { leases }).unwrap();
    true
}

#[test]
fn denying_reads_recalls_the_names_lease_also_from_its_own_client() {
    for own in [false, true] {
        let (_world, one, two) = scene();
        let holder = if own { &one } else { &two };
        let seen = names_holder(holder);
        assert!(!holder.stat("f").unwrap().uncacheable);
        let asked = one.begin(1, open(Rights::READ, Deny::READ));
        assert!(!asked.has_come(), "a mount may have the file open without an open at the server");
        assert!(returns_recalled(holder, seen));
        asked.take::<OpenReply>().expect("it is done").unwrap();
        names_holder(holder);
        assert!(
            holder.stat("f").unwrap().uncacheable,
            "no mount opens it without an open at the server any more"
        );
        refused(holder.call(open(Rights::READ, Deny::NONE)));
    }
}

#[test]
fn an_open_sent_at_the_recall_of_the_names_lease_excludes_the_denial() {
    let (_world, one, two) = scene();
    let seen = names_holder(&two);
    let asked = one.begin(1, open(Rights::READ, Deny::READ));
    assert!(!asked.has_come());
    // The mount had it open lazily: it sends the open before it returns the lease.
    two.call(open(Rights::READ, Deny::NONE)).unwrap();
    assert!(returns_recalled(&two, seen));
    assert!(refused(asked.take::<OpenReply>().unwrap()).contains("has it open for reading"));
}

#[test]
fn denying_writing_alone_recalls_nothing() {
    let (_world, one, two) = scene();
    let seen = names_holder(&two);
    one.call(open(Rights::READ, Deny::WRITE | Deny::DELETE)).unwrap();
    assert!(!returns_recalled(&two, seen));
    assert!(!two.stat("f").unwrap().uncacheable);
}

#[test]
fn after_a_restart_a_denial_holds_before_and_after_its_reclaim() {
    for power in [false, true] {
        let (mut world, one, two) = scene();
        let held = one.call(open(Rights::READ, Deny::WRITE)).unwrap();
        if power {
            world.power_loss();
        } else {
            world.restart();
        }
        let two = two.reclaim(&mut world).unwrap();
        refused(two.call(open(Rights::WRITE, Deny::NONE)));
        let again = two.call(open(Rights::READ, Deny::READ)).unwrap_err();
        assert_eq!(again.status, Status::TryAgain, "other readers may not have reclaimed yet");
        let one = one.join(&mut world).unwrap();
        assert_eq!(one.tell_denying(0, &[&held], Deny::WRITE, true).unwrap(), []);
        refused(two.call(open(Rights::WRITE, Deny::NONE)));
        one.close(&held);
        two.call(open(Rights::WRITE, Deny::NONE)).unwrap();
    }
}

#[test]
fn what_a_client_does_not_name_after_a_restart_is_denied_no_more() {
    let (mut world, one, two) = scene();
    one.call(open(Rights::READ, Deny::WRITE)).unwrap();
    world.restart();
    let two = two.reclaim(&mut world).unwrap();
    refused(two.call(open(Rights::WRITE, Deny::NONE)));
    one.reclaim(&mut world).unwrap();
    two.call(open(Rights::WRITE, Deny::NONE)).unwrap();
}

#[test]
fn a_denial_of_a_client_that_does_not_come_back_ends_with_grace() {
    let (mut world, one, two) = scene();
    one.call(open(Rights::READ, Deny::WRITE)).unwrap();
    world.restart();
    let two = two.reclaim(&mut world).unwrap();
    refused(two.call(open(Rights::WRITE, Deny::NONE)));
    for _ in 0..GRACE_MS / 5000 + 2 {
        two.call_as(Envelope::PLAIN, Renew {}).unwrap();
        world.pass(5000);
    }
    two.call(open(Rights::WRITE, Deny::NONE)).unwrap();
}

#[test]
fn what_a_dead_client_denied_stands_until_its_fence_holds() {
    let (mut world, one, two) = scene();
    let held = one.call(open(Rights::READ_WRITE, Deny::ALL)).unwrap();
    let mut waited = 0;
    while let Err(failure) = two.call(open(Rights::READ, Deny::NONE)) {
        assert_eq!(failure.status, Status::SharingViolation);
        assert!(waited <= SESSION_SILENT_MS + 10_000, "it is given up");
        world.pass(1000);
        waited += 1000;
    }
    assert!(waited > 1000);
    assert_eq!(world.write(&held, 500), Err(Status::Fenced));
    assert_eq!(world.status().sessions, 1);
}

#[test]
fn the_end_of_a_session_ends_what_it_denied() {
    let (_world, one, two) = scene();
    one.call(open(Rights::READ, Deny::ALL)).unwrap();
    refused(two.call(open(Rights::READ, Deny::NONE)));
    one.call_as(Envelope::PLAIN, CloseSession {}).unwrap();
    two.call(open(Rights::READ, Deny::NONE)).unwrap();
}

#[test]
fn a_new_file_is_denied_from_its_first_moment() {
    let (_world, one, two) = scene();
    let made = one.call(Create { deny: Deny::ALL, ..create("new") }).unwrap();
    assert!(made.attributes.uncacheable && two.stat("new").unwrap().uncacheable);
    refused(two.call(Open { at: at("new"), ..open(Rights::READ, Deny::NONE) }));
    refused(two.call(Create { exclusive: false, rights: Some(Rights::READ), ..create("new") }));
    two.call(Create { exclusive: false, rights: None, ..create("new") }).unwrap();
}
