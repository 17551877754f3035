//! I/O daemons: registration, heartbeats, draining. New files avoid daemons that are down or
//! draining.

use braid_types::{ClusterUuid, FileIndex, IodId, Status, limits::HEARTBEAT_DOWN_MS};
use braid_wire::{
    Credential, Role,
    message::{
        mds::{Heartbeat, RegisterIod, SetIodState, StatFs},
        types::IodState,
    },
};

use super::world::{World, register, space};

#[test]
fn a_claimed_id_and_a_foreign_cluster_are_refused() {
    let mut world = World::new(2);
    let daemon = world.connect(Role::Iod, Credential::Server);
    for (id, directory) in [(1, 2), (2, 9), (7, 9)] {
        assert_eq!(daemon.call(register(id, directory)).unwrap_err().status, Status::NotPermitted);
    }
    let foreign = RegisterIod { cluster: ClusterUuid([3; 16]), ..register(0, 9) };
    assert_eq!(daemon.call(foreign).unwrap_err().status, Status::NotPermitted);
    assert_eq!(daemon.call(register(0, 9)).unwrap().id, IodId(3));
    world.restart();
    let daemon = world.connect(Role::Iod, Credential::Server);
    assert_eq!(daemon.call(register(3, 1)).unwrap_err().status, Status::NotPermitted);
    assert_eq!(daemon.call(register(3, 9)).unwrap().id, IodId(3));
}

#[test]
fn a_heartbeat_needs_a_registration_on_its_connection() {
    let mut world = World::new(1);
    let daemon = world.connect(Role::Iod, Credential::Server);
    let beat =
        Heartbeat { space: space(), verifier: braid_types::WriteVerifier(1), fence_applied: 0 };
    assert_eq!(daemon.call(beat).unwrap_err().status, Status::NoSession);
}

#[test]
fn only_the_server_key_registers_a_daemon() {
    let mut world = World::new(1);
    let key = world.key(braid_wire::message::mds::KeyRights::full());
    let refused = world.try_connect(Role::Iod, Credential::Client(key)).err().unwrap();
    assert_eq!(refused.status, Status::AuthenticationFailed);
    let client = world.client();
    assert_eq!(client.call(register(0, 9)).unwrap_err().status, Status::WrongRole);
}

fn placed_on(opened: &braid_wire::message::mds::OpenReply) -> Vec<u32> {
    let mut ids: Vec<u32> =
        opened.layout.components[0].parts.iter().map(|part| part.iods[0].0).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_daemon_that_fell_silent_is_shown_as_down_and_gets_no_new_files() {
    let mut world = World::new(3);
    let client = world.client();
    assert_eq!(placed_on(&client.create("before")), [1, 2, 3]);
    let epoch = world.status().map.epoch;
    world.pass_with(HEARTBEAT_DOWN_MS + 500, |id| id != 2);
    assert_eq!(placed_on(&client.create("while")), [1, 3]);
    let status = world.status();
    assert_eq!(status.map.iods[1].state, IodState::Down);
    assert!(status.map.epoch > epoch && status.last_contact_ms[1] > HEARTBEAT_DOWN_MS);
    world.pass(500);
    assert_eq!(placed_on(&client.create("after")), [1, 2, 3]);
}

#[test]
fn a_draining_daemon_gets_no_new_files_also_after_a_restart() {
    let mut world = World::new(2);
    world.admin().call(SetIodState { iod: IodId(1), state: IodState::Draining }).unwrap();
    world.restart();
    let client = world.client();
    assert_eq!(placed_on(&client.create("f")), [2]);
    world.admin().call(SetIodState { iod: IodId(1), state: IodState::Up }).unwrap();
    assert_eq!(placed_on(&client.create("g")), [1, 2]);
}

#[test]
fn without_a_daemon_a_file_is_refused_and_a_directory_is_not() {
    let mut world = World::new(0);
    let client = world.client();
    assert_eq!(client.call(super::world::create("f")).unwrap_err().status, Status::NoIods);
    client
        .call(braid_wire::message::mds::MakeDirectory {
            at: super::world::at("d"),
            mode: 0o755,
            umask: 0,
        })
        .unwrap();
}

#[test]
fn a_shared_disk_is_counted_once() {
    let mut world = World::new(2);
    let reply = world.client().call(StatFs { file: FileIndex::ROOT }).unwrap();
    assert_eq!((reply.iods, reply.iods_up), (2, 2));
    assert_eq!(reply.total, space().total);
}
