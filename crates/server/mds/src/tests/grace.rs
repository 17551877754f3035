//! Restart and the grace period after it.

use braid_types::{ByteCount, Status, limits::GRACE_MS};
use braid_wire::{
    Rights,
    message::mds::{OpenReply, OpenSession, RenewCapability, Unlink},
};

use super::world::{World, at};

fn renewal(opened: &OpenReply) -> RenewCapability {
    RenewCapability {
        open_id: opened.open_id,
        file: opened.attributes.file,
        rights: Rights::READ_WRITE,
    }
}

#[test]
fn a_reclaimed_session_goes_on_writing_under_the_new_epoch() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 5000).unwrap();
    world.restart();
    let client = client.reclaim_with(&mut world, &[&opened]).unwrap();
    assert_eq!(world.write(&opened, 6000), Err(Status::Fenced), "the old epoch is shut out");
    let fresh = client.call(renewal(&opened)).unwrap();
    assert_eq!(fresh.open_id, opened.open_id);
    world.write(&fresh, 7000).unwrap();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(7000));
    client.close(&fresh);
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 0);
}

#[test]
fn a_session_that_is_not_reclaimed_in_time_has_ended() {
    let mut world = World::new(1);
    let client = world.client();
    client.create("f");
    world.restart();
    assert!(world.status().grace);
    world.pass(GRACE_MS + 1000);
    assert!(!world.status().grace);
    assert_eq!(client.reclaim(&mut world).err().unwrap().status, Status::NoSession);
    assert_eq!(world.status().open_files, 0);
}

#[test]
fn a_session_is_reclaimed_by_its_owner_alone() {
    let mut world = World::new(1);
    let (client, thief) = (world.client(), world.client());
    world.restart();
    let key = thief.connection.owner.key;
    let thief = world.connect(braid_wire::Role::Client, braid_wire::Credential::Client(key));
    let steal = OpenSession { session: Some(client.session), client: "thief".into() };
    assert_eq!(thief.call(steal).unwrap_err().status, Status::NoSession);
    assert!(client.reclaim(&mut world).is_ok());
}

#[test]
fn an_orphan_is_kept_in_grace_and_deleted_if_nobody_reclaimed_it() {
    let mut world = World::new(1);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 100).unwrap();
    client.call(Unlink { at: at("f") }).unwrap();
    world.restart();
    world.pass(GRACE_MS / 2);
    assert_eq!(world.objects_of(opened.attributes.file), 1);
    world.pass(GRACE_MS);
    assert_eq!(world.objects_of(opened.attributes.file), 0);
}

#[test]
fn an_orphan_that_is_reclaimed_lives_until_it_is_closed() {
    let mut world = World::new(1);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 100).unwrap();
    client.call(Unlink { at: at("f") }).unwrap();
    world.restart();
    let client = client.reclaim_with(&mut world, &[&opened]).unwrap();
    let file = opened.attributes.file;
    world.pass(GRACE_MS + 1000);
    assert_eq!(world.objects_of(file), 1);
    client.close(&opened);
    world.pass(1000);
    assert_eq!(world.objects_of(file), 0);
}

#[test]
fn the_epoch_rises_with_each_start_and_no_sessions_mean_no_grace() {
    let mut world = World::new(1);
    let first = world.core.epoch();
    world.restart();
    assert!(world.core.epoch() > first);
    assert!(!world.status().grace);
}
