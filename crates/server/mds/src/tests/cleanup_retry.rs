//! Closes, ends of sessions and orphans while the store fails for a while.

use braid_meta::Faults;
use braid_types::{
    FileIndex, Status,
    limits::{GRACE_MS, SESSION_SILENT_MS},
};
use braid_wire::message::mds::{Close, CloseSession, OpenReply, Unlink};

use super::world::{Client, World, at};

/// Another client, and a client that has a file of 9000 bytes open for writing.
fn written() -> (World, Client, Client, OpenReply) {
    let mut world = World::new(2);
    let (other, client) = (world.client(), world.client());
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    (world, other, client, opened)
}

fn fill_disk(world: &World) {
    world.store.set_faults(Faults { full_commits: (0..1000).collect(), ..Faults::default() });
}

fn free_space(world: &World) {
    world.store.set_faults(Faults::default());
}

/// Nobody has the file open, so its objects are deleted with its name.
fn is_nobodys(world: &World, other: &Client, file: FileIndex) {
    assert_eq!(world.core.namespace.opens_of(file), []);
    other.call(Unlink { at: at("f") }).unwrap();
    world.pass(1000);
    assert_eq!(world.objects_of(file), 0);
}

#[test]
fn a_close_that_the_store_refuses_is_done_when_it_is_asked_again() {
    let (world, other, client, opened) = written();
    let close = || Close { open_ids: vec![opened.open_id] };
    fill_disk(&world);
    assert_eq!(client.call(close()).unwrap_err().status, Status::NoSpace);
    assert_eq!(
        client.call(close()).unwrap_err().status,
        Status::NoSpace,
        "it is still to be closed"
    );
    free_space(&world);
    client.call(close()).unwrap();
    client.call(close()).unwrap();
    is_nobodys(&world, &other, opened.attributes.file);
}

#[test]
fn a_session_whose_end_the_store_refuses_ends_as_soon_as_it_can() {
    for says_so in [true, false] {
        let (world, other, client, opened) = written();
        fill_disk(&world);
        if says_so {
            client.call_as(braid_wire::message::mds::Envelope::PLAIN, CloseSession {}).unwrap();
        }
        for _ in 0..SESSION_SILENT_MS / 1000 + 15 {
            world.pass(1000);
            other
                .call_as(
                    braid_wire::message::mds::Envelope::PLAIN,
                    braid_wire::message::mds::Renew {},
                )
                .unwrap();
        }
        let file = opened.attributes.file;
        assert_eq!(world.core.namespace.writers(file), [client.session]);
        free_space(&world);
        world.pass(1000);
        assert_eq!(world.core.namespace.session(client.session).unwrap(), None);
        assert_eq!(other.stat("f").unwrap().bytes.0, 9000);
        world.settle();
        assert!(
            !world.core.namespace.getattr(file).unwrap().size_in_objects,
            "its size is collected"
        );
        is_nobodys(&world, &other, file);
    }
}

#[test]
fn an_open_that_can_be_neither_given_nor_undone_is_closed_later() {
    use crate::session::OpenFile;
    let (world, other, client, opened) = written();
    let file = opened.attributes.file;
    client.close(&opened);
    let open =
        OpenFile { file, rights: braid_wire::Rights::READ_WRITE, deny: braid_wire::Deny::NONE };
    let count = |session| {
        let who = braid_meta::Identity::root();
        let call = braid_meta::Call { who: &who, now: Default::default(), replay: None };
        let args = braid_meta::OpenArgs::plain(session, braid_meta::Access::BOTH);
        world.core.namespace.open_file(&call, file, args).unwrap();
        world.core.state().sessions.close_handle_later(session, open);
    };
    count(client.session);
    client.call_as(braid_wire::message::mds::Envelope::PLAIN, CloseSession {}).unwrap();
    count(client.session);
    count(other.session);
    fill_disk(&world);
    world.pass(1000);
    assert_eq!(world.core.namespace.writers(file).len(), 2);
    free_space(&world);
    world.pass(1000);
    is_nobodys(&world, &other, file);
}

#[test]
fn orphans_that_the_store_cannot_delete_after_the_grace_period_go_later() {
    let (mut world, _, client, _) = written();
    let names = ["a", "b", "c"];
    let opened = names.map(|name| client.create(name));
    opened.iter().for_each(|opened| world.write(opened, 9000).unwrap());
    for name in names {
        client.call(Unlink { at: at(name) }).unwrap();
    }
    world.restart();
    world.pass(GRACE_MS - 1000);
    fill_disk(&world);
    world.pass(15_000);
    assert_eq!(world.core.namespace.orphans().unwrap().len(), 3);
    // One fails once more, and delays no other.
    world.store.set_faults(Faults { full_commits: vec![0], ..Faults::default() });
    world.pass(1000);
    assert_eq!(world.core.namespace.orphans().unwrap(), []);
    opened.iter().for_each(|opened| assert_eq!(world.objects_of(opened.attributes.file), 0));
}
