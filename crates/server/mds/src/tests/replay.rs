//! The server dies between commit and answer: the retry is answered, nothing is done twice (I7).

use braid_types::{ByteCount, FileIndex, Status};
use braid_wire::{
    Call as WireCall, Deny, Rights,
    message::{
        FileKind,
        lease::LeaseMode,
        mds::*,
        types::{Attributes, LayoutHint, PathRef},
    },
};

use super::world::{Client, World, at, create, set_size};
use crate::session::{OpenFile, SESSION_OPENS_MAX};

/// Makes a call, kills the server before the answer arrives, and retries the call: both answers.
fn retried<M: WireCall + Clone>(
    world: &mut World,
    client: &Client,
    message: M,
) -> (M::Reply, M::Reply, Client) {
    let envelope = client.next();
    let first = client.call_as(envelope.clone(), message.clone()).unwrap();
    world.restart();
    let client = client.reclaim(world).unwrap();
    let second = client.call_as(envelope, message).unwrap();
    (first, second, client)
}

fn world() -> (World, Client) {
    let mut world = World::new(2);
    let client = world.client();
    client.call(MakeDirectory { at: at("d"), mode: 0o755, umask: 0 }).unwrap();
    let opened = client.create("d/f");
    client.close(&opened);
    (world, client)
}

#[test]
fn every_call_that_makes_a_name_is_answered_from_its_record() {
    let (mut world, client) = world();
    let (a, b, client) =
        retried(&mut world, &client, MakeDirectory { at: at("d/new"), mode: 0o700, umask: 0 });
    assert_eq!(a.attributes.file, b.attributes.file);
    let node =
        MakeNode { at: at("d/fifo"), kind: FileKind::Fifo, mode: 0o600, umask: 0, device: 0 };
    let (a, b, client) = retried(&mut world, &client, node);
    assert_eq!(a.file, b.file);
    let (a, b, client) =
        retried(&mut world, &client, MakeSymlink { at: at("d/ln"), target: b"f".to_vec() });
    assert_eq!(a.file, b.file);
    let (a, b, client) = retried(&mut world, &client, MakeLink { from: at("d/f"), to: at("d/g") });
    assert_eq!((a.file, a.links, b.links), (b.file, 2, 2));
    assert_eq!(client.stat("d/f").unwrap().links, 2);
}

#[test]
fn every_call_that_takes_a_name_away_is_answered_from_its_record() {
    let (mut world, client) = world();
    client.call(MakeDirectory { at: at("d/sub"), mode: 0o755, umask: 0 }).unwrap();
    let (_, _, client) = retried(&mut world, &client, RemoveDirectory { at: at("d/sub") });
    let rename = Rename { from: at("d/f"), to: at("d/h"), mode: RenameMode::Replace };
    let (_, _, client) = retried(&mut world, &client, rename);
    let other = client.create("d/f");
    client.close(&other);
    let exchange = Rename { from: at("d/f"), to: at("d/h"), mode: RenameMode::Exchange };
    let before = client.stat("d/f").unwrap().file;
    let (_, _, client) = retried(&mut world, &client, exchange);
    assert_eq!(client.stat("d/h").unwrap().file, before, "exchanged once, not back");
    let (_, _, client) = retried(&mut world, &client, Unlink { at: at("d/h") });
    assert_eq!(client.stat("d/h").unwrap_err().status, Status::NotFound);
}

#[test]
fn an_exclusive_create_is_answered_as_made_and_its_file_can_be_written() {
    let (mut world, client) = world();
    let (a, b, client) = retried(&mut world, &client, create("d/new"));
    assert!(a.created && b.created);
    assert_eq!(a.attributes.file, b.attributes.file);
    let opened = b.opened.unwrap();
    world.write(&opened, 4000).unwrap();
    assert_eq!(client.stat("d/new").unwrap().bytes, ByteCount(4000));
    client.close(&opened);
    world.pass(1000);
    assert_eq!(world.status().open_files, 0, "opened once");
}

#[test]
fn an_open_is_counted_once() {
    for rights in [Rights::READ, Rights::WRITE, Rights::READ_WRITE] {
        let (mut world, client) = world();
        let open = Open {
            at: at("d/f"),
            rights,
            truncate: false,
            lease: LeaseMode::None,
            deny: Deny::NONE,
        };
        let (_, again, client) = retried(&mut world, &client, open);
        assert_eq!(world.status().open_files, 1, "{rights:?}");
        client.close(&again);
        assert_eq!(world.status().open_files, 0, "{rights:?}");
    }
}

#[test]
fn attributes_xattrs_sizes_and_layouts_are_answered_from_their_records() {
    let (mut world, client) = world();
    let changes = AttributeChanges { mode: Some(0o600), ..AttributeChanges::none() };
    let chmod = SetAttributes { at: at("d/f"), follow: true, changes };
    let recorded = |world: &World, attributes: &Attributes| {
        world.core.namespace.getattr(attributes.file).unwrap().change
    };
    let envelope = client.next();
    let a = client.call_as(envelope.clone(), chmod.clone()).unwrap();
    let before = recorded(&world, &a);
    world.restart();
    let client = client.reclaim(&mut world).unwrap();
    let b = client.call_as(envelope, chmod).unwrap();
    assert_eq!((a.mode, before), (b.mode, recorded(&world, &b)), "changed once");
    let (a, b, client) = retried(&mut world, &client, set_size("d/f", 9000));
    assert_eq!((a.bytes, a.size_generation), (b.bytes, b.size_generation), "cut once");
    let set = SetXattr {
        at: at("d/f"),
        name: b"user.a".to_vec(),
        value: b"1".to_vec(),
        mode: XattrMode::Create,
        drop_setgid: false,
    };
    let (_, _, client) = retried(&mut world, &client, set);
    let (_, _, client) =
        retried(&mut world, &client, RemoveXattr { at: at("d/f"), name: b"user.a".to_vec() });
    let wish = LayoutHint { parts: Some(1), ..LayoutHint::none() };
    let (_, _, client) = retried(&mut world, &client, LayoutSet { at: at("d"), layout_hint: wish });
    assert_eq!(client.call(LayoutShow { at: at("d") }).unwrap().layout_hint.parts, Some(1));
}

#[test]
fn a_hole_is_punched_once() {
    let (mut world, client) = world();
    let opened = client.create("d/p");
    world.write(&opened, 9000).unwrap();
    let file = opened.attributes.file;
    let punch = PunchHole { file, offset: braid_types::FileOffset(0), bytes: ByteCount(10) };
    let envelope = client.next();
    let a = client.call_as(envelope.clone(), punch.clone()).unwrap();
    world.restart();
    let b = client.reclaim_with(&mut world, &[&opened]).unwrap().call_as(envelope, punch).unwrap();
    assert_eq!(a.size_generation, b.size_generation);
}

#[test]
fn a_retry_on_another_connection_gets_the_first_answer() {
    let (mut world, client) = world();
    let envelope = client.next();
    let first = client.call_as(envelope.clone(), create("d/x")).unwrap();
    let other = client.join(&mut world).unwrap();
    let second = other.call_as(envelope.clone(), create("d/x")).unwrap();
    assert_eq!(first, second);
    let plain = Envelope { sequence: 0, ..envelope };
    assert_eq!(other.call_as(plain, create("d/y")).unwrap_err().status, Status::Malformed);
}

#[test]
fn a_closed_handle_is_closed_once() {
    let (mut world, client) = world();
    let opened = client.create("d/c");
    let envelope = client.next();
    let close = Close { open_ids: vec![opened.open_id, 12345] };
    client.call_as(envelope.clone(), close.clone()).unwrap();
    let again = client
        .call(Open {
            at: PathRef::file(opened.attributes.file),
            rights: Rights::READ,
            truncate: false,
            lease: LeaseMode::None,
            deny: Deny::NONE,
        })
        .unwrap();
    assert_ne!(again.open_id, opened.open_id);
    assert_eq!(world.status().open_files, 1);
}

/// Uses up the open files of a session: a handle to close, which frees one.
fn fill(world: &World, client: &Client) -> u64 {
    let mut state = world.core.state();
    let live = state.sessions.live.get_mut(client.session).unwrap();
    let open = OpenFile { file: FileIndex(1 << 40), rights: Rights::READ, deny: Deny::NONE };
    (0..SESSION_OPENS_MAX).map_while(|_| live.open(open).ok()).last().unwrap()
}

#[test]
fn a_record_of_an_open_for_reading_gives_no_right_to_write() {
    let (mut world, root) = world();
    root.call(create("d/file")).unwrap();
    let key = world.key(KeyRights { squash: Some((7, 7)), ..KeyRights::full() });
    let user = world.client_of(key);
    let reading = Create { exclusive: false, rights: Some(Rights::READ), ..create("d/file") };
    let writing = create("d/file");
    let envelope = user.next();
    let open_id = fill(&world, &user);
    assert_eq!(user.call_as(envelope.clone(), reading).unwrap_err().status, Status::TooManyOpen);
    world.core.state().sessions.live.get_mut(user.session).unwrap().close(open_id);
    assert_eq!(user.call_as(envelope, writing).unwrap_err().status, Status::Malformed);
}

#[test]
fn after_a_restart_a_record_is_of_its_own_request_alone() {
    let (mut world, root) = world();
    root.call(create("d/file")).unwrap();
    let key = world.key(KeyRights { squash: Some((7, 7)), ..KeyRights::full() });
    let user = world.client_of(key);
    let create = Create { exclusive: false, rights: Some(Rights::READ), ..create("d/file") };
    let deny = Deny::DELETE;
    let open =
        Open { at: at("d/f"), rights: Rights::READ, truncate: false, lease: LeaseMode::None, deny };
    let (first, second) = (user.next(), Envelope { slot: 1, ..user.next() });
    user.call_as(first.clone(), create.clone()).unwrap();
    user.call_as(second.clone(), open.clone()).unwrap();
    world.restart();
    let user = user.reclaim(&mut world).unwrap();
    root.reclaim(&mut world).unwrap();
    let more = Create { exclusive: true, rights: Some(Rights::READ_WRITE), ..create.clone() };
    assert_eq!(user.call_as(first.clone(), more).unwrap_err().status, Status::Malformed);
    user.call_as(first, create).unwrap();
    let more = Open { truncate: true, ..open.clone() };
    assert_ne!(
        user.call_as(second.clone(), more).map(drop).map_err(|failure| failure.status),
        Ok(())
    );
    user.call_as(second, open).unwrap();
}

#[test]
fn a_retry_of_an_undone_open_is_counted() {
    let (world, client) = world();
    let open = Open {
        at: at("d/f"),
        rights: Rights::READ_WRITE,
        truncate: false,
        lease: LeaseMode::None,
        deny: Deny::NONE,
    };
    let envelope = Envelope { slot: 1, ..client.next() };
    let open_id = fill(&world, &client);
    assert_eq!(
        client.call_as(envelope.clone(), open.clone()).unwrap_err().status,
        Status::TooManyOpen
    );
    world.core.state().sessions.live.get_mut(client.session).unwrap().close(open_id);
    let file = client.call_as(envelope, open).unwrap().attributes.file;
    assert_eq!(world.core.namespace.writers(file), [client.session]);
}

#[test]
fn another_message_of_a_privileged_host_is_not_answered_from_a_record() {
    let (mut world, client) = world();
    let first = client.next();
    client.call_as(first.clone(), create("d/one")).unwrap();
    world.restart();
    let client = client.reclaim(&mut world).unwrap();
    assert_eq!(
        client.call_as(first.clone(), create("d/two")).unwrap_err().status,
        Status::Malformed
    );
    assert!(client.call_as(first, create("d/one")).unwrap().created);
}

#[test]
fn a_listing_with_a_sequence_is_answered_and_not_kept() {
    let mut world = World::new(1);
    let client = world.client();
    client.create("f");
    let cached_bytes = |world: &World| world.core.state().sessions.live.cached_reply_bytes();
    let before = cached_bytes(&world);
    assert!(before > 0, "the answer of the create is kept");
    for slot in 1..crate::session::SESSION_SLOTS {
        let (dir, bytes_max) = (FileIndex::ROOT, 4096);
        let read = ReadDirectory { dir, cookie: 0, bytes_max, with_attributes: true };
        client.begin(slot, read).take::<ReadDirectoryReply>().unwrap().unwrap();
    }
    assert_eq!(cached_bytes(&world), before);
}

#[test]
fn a_change_whose_answer_was_not_cached_is_not_done_twice() {
    let mut world = World::new(1);
    let client = world.client();
    world.core.state().sessions.live.keep_at_most(0);
    let envelope = client.next();
    let first = client.call_as(envelope.clone(), create("f")).unwrap().opened.unwrap();
    let again = client.call_as(envelope, create("f")).unwrap().opened.unwrap();
    assert_eq!(first.attributes.file, again.attributes.file);
    assert_eq!(world.core.state().sessions.live.cached_reply_bytes(), 0);
    client.close(&first);
    assert_eq!(world.status().open_files, 1, "the handle of the retry is a handle");
    client.close(&again);
    assert_eq!(world.status().open_files, 0);
}

#[test]
fn a_key_that_is_added_with_a_retry_is_one_key() {
    let mut world = World::new(1);
    let mut admin = world.admin();
    admin.session =
        admin.call(OpenSession { session: None, client: "admin".into() }).unwrap().session;
    let envelope = admin.next();
    let add = || {
        admin
            .call_as(envelope.clone(), KeyAdd { name: "host".into(), rights: KeyRights::full() })
            .unwrap()
    };
    assert_eq!(add().key, add().key);
}

#[test]
fn slot_is_free_after_its_call_panicked() {
    let (world, client) = world();
    world.clock.1.store(true, std::sync::atomic::Ordering::Relaxed);
    let panicking = client.next();
    let call = std::panic::AssertUnwindSafe(|| {
        client
            .begin_as(panicking.clone(), MakeDirectory { at: at("d/one"), mode: 0o700, umask: 0 });
    });
    assert!(std::panic::catch_unwind(call).is_err(), "the fault did not happen");
    world.pass(crate::TICK_MS);
    let next = client.call(MakeDirectory { at: at("d/next"), mode: 0o700, umask: 0 });
    assert_eq!(next.map(|made| made.attributes.links), Ok(2), "the slot stayed busy");
}
