//! Handles for NFS data servers.

use braid_types::{ByteCount, IodId, PartIndex, Status};
use braid_wire::{
    DataServerHandle, Deny, Rights, Secret,
    message::{
        lease::LeaseMode,
        mds::{
            Create, DataServerHandlesReply, GetDataServerHandles, GetGatewaySecret, KeyRights,
            Open, OpenReply,
        },
        types::{DistributionHint, LayoutHint},
    },
};

use super::world::{self, Client, KEY, World, at};

fn create(client: &Client, name: &str, hint: LayoutHint) -> OpenReply {
    let create = Create { layout_hint: hint, ..world::create(name) };
    client.call(create).unwrap().opened.unwrap()
}

fn megabyte_stripes() -> LayoutHint {
    LayoutHint { stripe_bytes: Some(1 << 20), ..LayoutHint::none() }
}

fn handles(
    client: &Client,
    opened: &OpenReply,
    rights: Rights,
) -> Result<DataServerHandlesReply, Status> {
    let file = opened.attributes.file;
    let handles = client.call(GetDataServerHandles { open_id: opened.open_id, file, rights });
    handles.map_err(|failure| failure.status)
}

#[test]
fn each_part_of_an_open_file_has_a_handle_for_its_daemon() {
    let mut world = World::new(3);
    let client = world.client();
    let opened = create(&client, "f", megabyte_stripes());
    let reply = handles(&client, &opened, Rights::READ).unwrap();
    let key = Secret::from_bytes(KEY);
    assert_eq!(reply.handles.len(), 3);
    for (ordinal, handle) in reply.handles.iter().enumerate() {
        let handle = DataServerHandle::verify(handle, &key).unwrap();
        assert_eq!(handle.file, opened.attributes.file);
        assert_eq!((handle.part, handle.parts), (PartIndex(ordinal as u16), 3));
        assert_eq!((handle.rights, handle.stripe_bytes()), (Rights::READ, Some(1 << 20)));
        let iod = reply.layout.placement(handle.part).unwrap().iods[0];
        let mine = handle.layout(iod).parts_on(iod);
        assert!(mine.contains(handle.part), "on daemon {iod}");
        assert_ne!(iod, IodId(0));
    }
}

#[test]
fn handles_are_for_the_rights_of_an_open_of_the_caller() {
    let mut world = World::new(2);
    let (client, other) = (world.client(), world.client());
    let opened = create(&client, "f", megabyte_stripes());
    assert_eq!(handles(&other, &opened, Rights::READ), Err(Status::StaleHandle));
    let reading = Open {
        at: at("f"),
        rights: Rights::READ,
        truncate: false,
        lease: LeaseMode::None,
        deny: Deny::NONE,
    };
    let reading = client.call(reading).unwrap();
    assert_eq!(handles(&client, &reading, Rights::READ_WRITE), Err(Status::Invalid));
    client.close(&opened);
    assert_eq!(handles(&client, &opened, Rights::READ), Err(Status::StaleHandle));
}

#[test]
fn a_layout_that_nfs_cannot_express_has_no_handles() {
    let mut world = World::new(2);
    let client = world.client();
    let small = LayoutHint { stripe_bytes: Some(64 << 10), ..LayoutHint::none() };
    let opened = create(&client, "small", small);
    assert_eq!(handles(&client, &opened, Rights::READ), Err(Status::Unsupported));
    let single = LayoutHint { distribution: Some(DistributionHint::Single), ..LayoutHint::none() };
    let opened = create(&client, "single", single);
    assert_eq!(handles(&client, &opened, Rights::READ).unwrap().handles.len(), 1);
}

#[test]
fn a_size_after_write_handles_is_asked_of_daemons_also_after_the_close() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = create(&client, "f", megabyte_stripes());
    handles(&client, &opened, Rights::READ_WRITE).unwrap();
    world.write(&opened, 3000).unwrap();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(3000));
    client.close(&opened);
    world.settle();
    // An NFS client that keeps its layout writes once more.
    world.write(&opened, 9000).unwrap();
    assert_eq!(world.client().stat("f").unwrap().bytes, ByteCount(9000));
}

#[test]
fn gateways_share_a_secret_that_only_whole_client_keys_get() {
    let mut world = World::new(1);
    let secret = |client: &Client| client.call(GetGatewaySecret {});
    let (one, other) = (world.client(), world.client());
    let first = secret(&one).unwrap();
    assert_eq!(secret(&other).unwrap(), first);
    assert_ne!(first.secret, KEY, "the server key stays where it is");
    let squashed = KeyRights { squash: Some((7, 7)), ..KeyRights::full() };
    let read_only = KeyRights { read_only: true, ..KeyRights::full() };
    for rights in [squashed, read_only] {
        let key = world.key(rights);
        let refused = secret(&world.client_of(key)).unwrap_err();
        assert_eq!(refused.status, Status::NotPermitted);
    }
}
