//! Files made without a name, over calls.

use braid_types::{ByteCount, Status, limits::GRACE_MS};
use braid_wire::{
    Rights,
    message::{
        mds::{CreateUnnamed, MakeLink, OpenReply, SetAttributes},
        types::{LayoutHint, PathRef},
    },
};

use super::world::{Client, World, at, set_size};

fn unnamed() -> CreateUnnamed {
    CreateUnnamed {
        at: at(""),
        mode: 0o600,
        umask: 0,
        rights: Rights::READ_WRITE,
        layout_hint: LayoutHint::none(),
    }
}

fn make(client: &Client) -> OpenReply {
    client.call(unnamed()).unwrap()
}

#[test]
fn what_was_written_to_a_file_without_a_name_is_there_once_it_has_one() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = make(&client);
    world.write(&opened, 5000).unwrap();
    let from = PathRef::file(opened.attributes.file);
    let linked = client.call(MakeLink { from: from.clone(), to: at("f") }).unwrap();
    assert_eq!((linked.links, linked.bytes), (1, ByteCount(5000)));
    client.close(&opened);
    world.settle();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(5000));
    let reading = CreateUnnamed { rights: Rights::READ, ..unnamed() };
    assert_eq!(client.call(reading).unwrap_err().status, Status::Invalid);
}

#[test]
fn an_unnamed_file_can_be_truncated_and_is_deleted_at_its_close() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = make(&client);
    let file = opened.attributes.file;
    world.write(&opened, 5000).unwrap();
    let cut = SetAttributes { at: PathRef::file(file), ..set_size("", 100) };
    assert_eq!(client.call(cut).unwrap().bytes, ByteCount(100));
    client.close(&opened);
    world.settle();
    assert_eq!(world.objects_of(file), 0);
}

#[test]
fn an_unnamed_file_survives_a_restart_only_with_its_client() {
    for comes_back in [true, false] {
        let mut world = World::new(1);
        let client = world.client();
        let opened = make(&client);
        world.write(&opened, 10).unwrap();
        world.restart();
        let client = comes_back.then(|| client.reclaim_with(&mut world, &[&opened]).unwrap());
        world.pass(GRACE_MS + 5000);
        world.settle();
        assert_eq!(world.objects_of(opened.attributes.file), usize::from(comes_back));
        let linked = client.map(|client| {
            let from = PathRef::file(opened.attributes.file);
            client.call(MakeLink { from, to: at("f") }).is_ok()
        });
        assert_eq!(linked.unwrap_or(false), comes_back);
    }
}
