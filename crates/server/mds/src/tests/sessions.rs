//! Sessions and fences (I4).

use braid_types::{
    ByteCount, IodId, Status,
    limits::{HEARTBEAT_FENCED_MS, SESSION_SILENT_MS},
};
use braid_wire::message::mds::{CloseSession, Envelope, KeyRevoke, OpenSession, Renew, Unlink};

use super::world::{World, at};
use crate::size::RECORD_SIZE_MS;

/// Time in which `who` renews and all other clients are silent.
fn pass_renewing(world: &World, who: &super::world::Client, ms: u64, beats: impl Fn(u32) -> bool) {
    for _ in 0..ms / 1000 {
        world.pass_with(1000, &beats);
        who.call_as(Envelope::PLAIN, Renew {}).unwrap();
    }
}

#[test]
fn a_silent_session_is_ended_and_fenced_before_its_sizes_are_collected() {
    let mut world = World::new(2);
    let (silent, alive) = (world.client(), world.client());
    let opened = silent.create("f");
    world.write(&opened, 5000).unwrap();
    pass_renewing(&world, &alive, SESSION_SILENT_MS - 1000, |_| true);
    world.write(&opened, 6000).unwrap();
    pass_renewing(&world, &alive, 3000, |_| true);
    assert_eq!(silent.call_as(Envelope::PLAIN, Renew {}).unwrap_err().status, Status::NoSession);
    assert_eq!(world.write(&opened, 7000), Err(Status::Fenced));
    assert_eq!(alive.stat("f").unwrap().bytes, ByteCount(6000));
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 0);
}

#[test]
fn a_size_is_not_recorded_before_the_fence_holds_on_every_daemon() {
    let mut world = World::new(2);
    let (silent, alive) = (world.client(), world.client());
    let opened = silent.create("f");
    world.write(&opened, 5000).unwrap();
    // Daemon 2 can be reached by clients, not by the server.
    world.iods.state().dead.insert(IodId(2));
    pass_renewing(&world, &alive, 2000, |_| true);
    pass_renewing(&world, &alive, SESSION_SILENT_MS, |id| id != 2);
    assert_eq!(world.status().sizes_in_objects, 1, "daemon 2 may still serve the session");
    // It missed its heartbeats and has therefore stopped by itself; now it comes back.
    pass_renewing(&world, &alive, HEARTBEAT_FENCED_MS, |id| id != 2);
    world.iods.state().dead.clear();
    world.pass(3000);
    assert_eq!(alive.stat("f").unwrap().bytes, ByteCount(5000));
    assert_eq!(world.write(&opened, 7000), Err(Status::Fenced));
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 0);
}

#[test]
fn closing_a_session_closes_what_it_has_open() {
    let mut world = World::new(1);
    let (leaving, other) = (world.client(), world.client());
    let opened = leaving.create("f");
    world.write(&opened, 10).unwrap();
    leaving.call_as(Envelope::PLAIN, CloseSession {}).unwrap();
    assert_eq!(world.status().open_files, 0);
    assert_eq!(other.stat("f").unwrap().bytes, ByteCount(10));
    assert_eq!(leaving.call_as(Envelope::PLAIN, Renew {}).unwrap_err().status, Status::NoSession);
}

#[test]
fn an_unlinked_files_objects_are_deleted_after_its_last_close() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    client.call(Unlink { at: at("f") }).unwrap();
    world.pass(1000);
    assert_eq!(world.objects_of(opened.attributes.file), 2);
    client.close(&opened);
    world.pass(1000);
    assert_eq!(
        (world.objects_of(opened.attributes.file), world.status().deletions_pending),
        (0, 1)
    );
    world.pass(RECORD_SIZE_MS);
    assert_eq!(world.status().deletions_pending, 0);
}

#[test]
fn objects_that_a_loss_of_power_brings_back_are_deleted_again() {
    let mut world = World::new(2);
    let client = world.client();
    // Both daemons lose power before and after the durable deletion.
    for (lost_after_ms, comes_back) in [(1000, true), (1000 + RECORD_SIZE_MS, false)] {
        let opened = client.create("f");
        let file = opened.attributes.file;
        world.write(&opened, 9000).unwrap();
        client.close(&opened);
        world.pass(3 * RECORD_SIZE_MS);
        client.call(Unlink { at: at("f") }).unwrap();
        world.pass(lost_after_ms);
        assert_eq!(world.objects_of(file), 0);
        for iod in [IodId(1), IodId(2)] {
            world.iods.state().lose_power(iod);
        }
        assert_eq!(world.objects_of(file), if comes_back { 2 } else { 0 });
        world.pass(2 * RECORD_SIZE_MS);
        assert_eq!((world.objects_of(file), world.status().deletions_pending), (0, 0));
    }
    let asked =
        |world: &World| world.iods.state().log.iter().filter(|(_, name)| *name == "Delete").count();
    let before = asked(&world);
    world.pass(4 * RECORD_SIZE_MS);
    assert_eq!(asked(&world), before, "what is done is done");
}

#[test]
fn a_daemon_that_is_down_for_a_durable_deletion_is_asked_again() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    client.close(&opened);
    world.pass(3 * RECORD_SIZE_MS);
    client.call(Unlink { at: at("f") }).unwrap();
    world.pass(1000);
    assert_eq!(world.objects_of(opened.attributes.file), 0);
    world.iods.state().dead.insert(IodId(2));
    world.pass(3 * RECORD_SIZE_MS);
    assert_eq!(world.status().deletions_pending, 1);
    world.iods.state().lose_power(IodId(2));
    world.iods.state().dead.clear();
    assert_eq!(world.objects_of(opened.attributes.file), 1);
    world.pass(3 * RECORD_SIZE_MS);
    assert_eq!(
        (world.objects_of(opened.attributes.file), world.status().deletions_pending),
        (0, 0)
    );
}

#[test]
fn deletions_wait_for_a_daemon_that_is_down_and_survive_a_restart() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 9000).unwrap();
    client.close(&opened);
    world.iods.state().dead.insert(IodId(2));
    client.call(Unlink { at: at("f") }).unwrap();
    world.pass(1000);
    assert_eq!(
        (world.objects_of(opened.attributes.file), world.status().deletions_pending),
        (1, 1)
    );
    world.restart();
    world.iods.state().dead.clear();
    world.pass(1000);
    assert_eq!(world.objects_of(opened.attributes.file), 0);
    world.pass(RECORD_SIZE_MS);
    assert_eq!(world.status().deletions_pending, 0);
}

#[test]
fn a_session_is_joined_by_its_owner_alone() {
    let mut world = World::new(1);
    let (one, two) = (world.client(), world.client());
    let join = || OpenSession { session: Some(one.session), client: "again".into() };
    let key = one.connection.owner.key;
    let again = world.connect(braid_wire::Role::Client, braid_wire::Credential::Client(key));
    assert_eq!(again.call(join()).unwrap().session, one.session);
    let key = two.connection.owner.key;
    let stranger = world.connect(braid_wire::Role::Client, braid_wire::Credential::Client(key));
    assert_eq!(stranger.call(join()).unwrap_err().status, Status::NoSession);
}

#[test]
fn a_revoked_key_ends_and_fences_its_sessions_and_opens_no_more() {
    let mut world = World::new(2);
    let (client, other) = (world.client(), world.client());
    let opened = client.create("f");
    world.write(&opened, 5000).unwrap();
    let key = client.connection.owner.key;
    world.admin().call(KeyRevoke { key }).unwrap();
    assert_eq!(client.stat("f").unwrap_err().status, Status::AuthenticationFailed);
    world.pass(1000);
    assert_eq!(world.write(&opened, 6000), Err(Status::Fenced));
    assert_eq!(other.stat("f").unwrap().bytes, ByteCount(5000));
    let refused = world.try_connect(braid_wire::Role::Client, braid_wire::Credential::Client(key));
    assert_eq!(refused.err().unwrap().status, Status::AuthenticationFailed);
    world.restart();
    let refused = world.try_connect(braid_wire::Role::Client, braid_wire::Credential::Client(key));
    assert_eq!(refused.err().unwrap().status, Status::AuthenticationFailed);
}

#[test]
fn a_revoked_key_does_nothing_more_on_connections_without_a_session() {
    use braid_wire::message::mds::{KeyList, KeyRights, Stat};
    use braid_wire::{Credential, Role};
    let mut world = World::new(1);
    let key = world.key(KeyRights { admin: true, ..KeyRights::full() });
    let admin = world.connect(Role::Admin, Credential::Client(key));
    let user = world.connect(Role::Client, Credential::Client(key));
    admin.call(KeyList {}).unwrap();
    world.admin().call(KeyRevoke { key }).unwrap();
    let refused =
        |failure: braid_types::Failure| assert_eq!(failure.status, Status::AuthenticationFailed);
    refused(admin.call(KeyList {}).unwrap_err());
    refused(user.call(Stat { at: at("/"), follow: true }).unwrap_err());
    refused(user.call(OpenSession { session: None, client: "late".into() }).unwrap_err());
    world.admin().call(KeyList {}).unwrap();
}

#[test]
fn a_connection_begins_one_session() {
    let mut world = World::new(1);
    let client = world.client();
    let again =
        client.call_as(Envelope::PLAIN, OpenSession { session: None, client: "again".into() });
    assert_eq!(again.unwrap_err().status, Status::Invalid);
    assert_eq!(world.core.namespace.sessions().unwrap().len(), 1);
}
