//! Attacks by clients that had a right and lost it (I4): a client that uses its capabilities and
//! its session's secret after it closed the session, or after its key was revoked.

use braid_types::{
    ByteCount, IodId, Status,
    limits::{HEARTBEAT_FENCED_MS, HEARTBEAT_MS},
};
use braid_wire::{
    Credential, Rights, Role, Ticket,
    message::mds::{
        AgentCheck, AgentCheckReply, CloseSession, Envelope, KeyRevoke, KeyRights, MakeDirectory,
        Open, OpenReply, OpenSession, Unlink,
    },
};

use super::world::{Client, World, at};

fn revoke(key: braid_types::KeyId) -> KeyRevoke {
    KeyRevoke { key }
}

fn leave(client: &Client) {
    client.call_as(Envelope::PLAIN, CloseSession {}).unwrap();
}

fn refused_everywhere(world: &World, session: braid_types::SessionId, daemons: u32) -> bool {
    let state = world.iods.state();
    (1..=daemons)
        .all(|iod| state.fenced.get(&IodId(iod)).is_some_and(|fenced| fenced.contains(&session)))
}

#[test]
fn a_capability_kept_over_close_session_writes_no_more() {
    let mut world = World::new(2);
    let thief = world.client();
    let opened = thief.create("f");
    world.write(&opened, 5000).unwrap();
    leave(&thief);
    assert_eq!(world.write(&opened, 9000), Err(Status::Fenced));
    assert!(refused_everywhere(&world, thief.session, 2));
}

#[test]
fn a_session_closed_before_its_key_was_revoked_does_not_outlive_the_key() {
    let mut world = World::new(2);
    let key = world.key(KeyRights::full());
    let thief = world.client_of(key);
    let opened = thief.create("f");
    thief.close(&opened);
    leave(&thief);
    world.admin().call(revoke(key)).unwrap();
    assert_eq!(world.write(&opened, 9000), Err(Status::Fenced));
}

#[test]
fn a_session_that_only_read_is_refused_by_the_next_heartbeat() {
    let mut world = World::new(2);
    let (thief, owner) = (world.client(), world.client());
    owner.create("f");
    let open = Open {
        at: at("f"),
        rights: Rights::READ,
        truncate: false,
        lease: braid_wire::message::lease::LeaseMode::None,
        deny: braid_wire::Deny::NONE,
    };
    thief.call(open).unwrap();
    leave(&thief);
    world.pass(HEARTBEAT_MS);
    assert!(refused_everywhere(&world, thief.session, 2));
}

#[test]
fn a_revocation_is_answered_when_every_daemon_refuses_the_key() {
    let mut world = World::new(2);
    let key = world.key(KeyRights::full());
    let thief = world.client_of(key);
    let opened = thief.create("f");
    world.iods.hold();
    let admin = world.admin();
    let revoked = admin.begin_as(Envelope::PLAIN, revoke(key));
    assert_eq!(world.iods.waiting(), 2, "a fence for each daemon");
    for _ in 0..2 {
        assert!(!revoked.has_come(), "a daemon still serves the key");
        world.iods.step();
    }
    assert_eq!(revoked.take::<()>(), Some(Ok(())));
    assert_eq!(world.write(&opened, 9000), Err(Status::Fenced));
}

#[test]
fn a_revocation_waits_until_a_daemon_that_is_cut_off_has_stopped() {
    let mut world = World::new(2);
    let key = world.key(KeyRights::full());
    world.client_of(key).create("f");
    world.iods.state().dead.insert(IodId(2));
    let admin = world.admin();
    let revoked = admin.begin_as(Envelope::PLAIN, revoke(key));
    world.pass_with(HEARTBEAT_FENCED_MS - 1000, |iod| iod != 2);
    assert!(!revoked.has_come(), "daemon 2 may still serve the key");
    world.pass_with(2000, |iod| iod != 2);
    assert_eq!(revoked.take::<()>(), Some(Ok(())));
}

#[test]
fn what_a_session_writes_between_its_end_and_its_fence_is_in_the_size() {
    let mut world = World::new(2);
    let (leaving, other) = (world.client(), world.client());
    let opened = leaving.create("f");
    world.write(&opened, 5000).unwrap();
    world.iods.hold();
    leave(&leaving);
    world.write(&opened, 9000).unwrap();
    world.iods.release();
    assert_eq!(world.write(&opened, 12_000), Err(Status::Fenced));
    world.settle();
    assert_eq!(other.stat("f").unwrap().bytes, ByteCount(9000));
    assert_eq!(world.status().sizes_in_objects, 0);
}

#[test]
fn a_daemon_that_restarts_refuses_every_session_that_ever_ended() {
    let mut world = World::new(1);
    let mut stolen: Vec<(Client, OpenReply)> = Vec::new();
    for round in 0..3 {
        let thief = world.client();
        let opened = thief.create(&format!("f{round}"));
        leave(&thief);
        stolen.push((thief, opened));
        world.client();
    }
    world.restart_daemon(IodId(1));
    for (_, opened) in &stolen {
        assert_eq!(world.write(opened, 9000), Err(Status::Fenced));
    }
    // Also after a restart of the server: sessions that are not on record have ended.
    world.restart();
    let state = world.iods.state();
    assert!(stolen.iter().all(|(thief, _)| state.fenced[&IodId(1)].contains(&thief.session)));
}

#[test]
fn a_hundred_sessions_that_end_while_a_daemon_is_slow_take_two_messages() {
    let mut world = World::new(1);
    let clients: Vec<Client> = (0..100).map(|_| world.client()).collect();
    for (at, client) in clients.iter().enumerate() {
        client.create(&format!("f{at}"));
    }
    world.iods.hold();
    clients.iter().for_each(leave);
    assert_eq!(world.iods.waiting(), 1, "one push is in flight");
    world.iods.release();
    let pushed = world.iods.state().log.iter().filter(|(_, name)| *name == "Fence").count();
    assert_eq!(pushed, 2);
    assert!(clients.iter().all(|client| refused_everywhere(&world, client.session, 1)));
    assert_eq!(world.status().open_files, 0);
}

/// A user whom a host vouched for, with a session of its own.
fn user(world: &mut World, agent: &Client) -> Client {
    let check = agent.call_as(Envelope::PLAIN, AgentCheck {}).unwrap();
    let AgentCheckReply { session: agent_session, key, epoch } = check;
    let ticket = Ticket {
        key,
        agent_session,
        epoch,
        uid: 1000,
        gid: 1000,
        groups: Vec::new(),
        nonce: [7; 16],
    };
    let mut user = world.connect(Role::Client, Credential::Ticket(ticket));
    user.session = user.call(OpenSession { session: None, client: "user".into() }).unwrap().session;
    user
}

#[test]
fn what_a_user_writes_after_its_close_is_in_the_size() {
    let mut world = World::new(2);
    let agent = world.client();
    agent.call(MakeDirectory { at: at("d"), mode: 0o777, umask: 0 }).unwrap();
    let user = user(&mut world, &agent);
    let opened = user.create("d/f");
    world.write(&opened, 5000).unwrap();
    user.close(&opened);
    world.settle();
    assert_eq!(agent.stat("d/f").unwrap().bytes, ByteCount(5000));
    // It kept the capability.
    world.write(&opened, 9000).unwrap();
    assert_eq!(
        agent.stat("d/f").unwrap().bytes,
        ByteCount(9000),
        "no recorded size hides what it wrote"
    );
    leave(&user);
    assert_eq!(world.write(&opened, 12_000), Err(Status::Fenced));
    world.settle();
    assert_eq!(
        (agent.stat("d/f").unwrap().bytes, world.status().sizes_in_objects),
        (ByteCount(9000), 0)
    );
}

#[test]
fn a_file_that_its_user_closed_and_removed_goes_before_the_session_ends() {
    let mut world = World::new(2);
    let agent = world.client();
    agent.call(MakeDirectory { at: at("d"), mode: 0o777, umask: 0 }).unwrap();
    let user = user(&mut world, &agent);
    let opened = user.create("d/f");
    world.write(&opened, 9000).unwrap();
    user.close(&opened);
    user.call(Unlink { at: at("d/f") }).unwrap();
    world.pass(1000);
    assert_eq!(world.objects_of(opened.attributes.file), 0);
    leave(&user);
    world.settle();
    assert_eq!(world.status().sizes_in_objects, 0);
}
