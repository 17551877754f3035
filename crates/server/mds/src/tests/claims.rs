//! What a key, a ticket or a message may claim.

use braid_types::{KeyId, MdsEpoch, SessionId, Status};
use braid_wire::{
    Credential, Role, Ticket,
    message::{
        mds::{
            AgentCheck, DefineIdentity, Envelope, KeyAdd, KeyList, KeyRights, MakeDirectory,
            OpenSession, SetAttributes,
        },
        types::Identity,
    },
};

use super::world::{World, at, create};
use crate::connection::GROUPS_MAX;

fn ticket(key: KeyId, agent_session: SessionId, epoch: MdsEpoch, uid: u64) -> Credential {
    Credential::Ticket(Ticket {
        key,
        agent_session,
        epoch,
        uid,
        gid: uid,
        groups: vec![],
        nonce: [7; 16],
    })
}

/// An agent, and a user with its ticket.
fn agent_and_user(world: &mut World, uid: u64) -> (super::world::Client, super::world::Client) {
    let agent = world.client();
    let check = agent.call_as(Envelope::PLAIN, AgentCheck {}).unwrap();
    let mut user = world.connect(Role::Client, ticket(check.key, check.session, check.epoch, uid));
    user.session = user.call(OpenSession { session: None, client: "user".into() }).unwrap().session;
    (agent, user)
}

#[test]
fn a_ticket_is_its_user_whatever_its_messages_say() {
    let mut world = World::new(1);
    let (agent, user) = agent_and_user(&mut world, 1000);
    let define = DefineIdentity { number: 1, identity: Identity::root() };
    assert_eq!(user.call_as(Envelope::PLAIN, define).unwrap_err().status, Status::NotPermitted);
    let as_root = Envelope { identity: 1, ..user.next() };
    let refused =
        user.call_as(as_root, MakeDirectory { at: at("d"), mode: 0o755, umask: 0 }).unwrap_err();
    assert_eq!(refused.status, Status::NotPermitted);
    assert_eq!(
        user.call(MakeDirectory { at: at("d"), mode: 0o755, umask: 0 }).unwrap_err().status,
        Status::PermissionDenied
    );
    agent.call(MakeDirectory { at: at("open"), mode: 0o777, umask: 0 }).unwrap();
    let changes = braid_wire::message::mds::AttributeChanges {
        mode: Some(0o777),
        ..braid_wire::message::mds::AttributeChanges::none()
    };
    agent.call(SetAttributes { at: at("open"), follow: true, changes }).unwrap();
    assert_eq!(user.create("open/mine").attributes.uid, 1000);
}

#[test]
fn a_host_vouches_for_its_users() {
    let mut world = World::new(1);
    let host = world.client();
    let identity = Identity { uid: 1000, gid: 100, groups: vec![], checked: false };
    host.call_as(Envelope::PLAIN, DefineIdentity { number: 1, identity }).unwrap();
    let refused = host.call_as(Envelope { identity: 1, ..host.next() }, create("f")).unwrap_err();
    assert_eq!(refused.status, Status::PermissionDenied);
    let unknown = host.call_as(Envelope { identity: 2, ..host.next() }, create("f")).unwrap_err();
    assert_eq!(unknown.status, Status::Invalid);
}

#[test]
fn a_host_that_checked_a_user_is_trusted_and_a_squashed_one_is_not() {
    let mut world = World::new(1);
    let host = world.client();
    let squash = world.key(KeyRights { squash: Some((65534, 65534)), ..KeyRights::full() });
    let squashed = world.client_of(squash);
    for client in [&host, &squashed] {
        let define = DefineIdentity { number: 1, identity: Identity::checked(1000, 100) };
        client.call_as(Envelope::PLAIN, define).unwrap();
    }
    let made = host.call_as(Envelope { identity: 1, ..host.next() }, create("f")).unwrap();
    assert_eq!((made.attributes.uid, made.attributes.gid), (1000, 100));
    let refused =
        squashed.call_as(Envelope { identity: 1, ..squashed.next() }, create("g")).unwrap_err();
    assert_eq!(refused.status, Status::PermissionDenied, "the directory is root's");
}

#[test]
fn a_ticket_cannot_say_that_somebody_was_checked() {
    let mut world = World::new(1);
    let (_agent, user) = agent_and_user(&mut world, 1000);
    let define = DefineIdentity { number: 1, identity: Identity::checked(1000, 1000) };
    assert_eq!(user.call_as(Envelope::PLAIN, define).unwrap_err().status, Status::NotPermitted);
    let as_checked = Envelope { identity: 1, ..user.next() };
    assert_eq!(user.call_as(as_checked, create("f")).unwrap_err().status, Status::NotPermitted);
}

#[test]
fn a_ticket_of_a_dead_agent_an_old_epoch_or_another_key_is_refused() {
    let mut world = World::new(1);
    let agent = world.client();
    let other = world.client();
    let (key, epoch) = (agent.connection.owner.key, world.core.epoch());
    let other_key = other.connection.owner.key;
    let refused = |world: &mut World, credential| {
        world.try_connect(Role::Client, credential).err().map(|failure| failure.status)
    };
    assert_eq!(refused(&mut world, ticket(key, agent.session, epoch, 5)), None);
    let denied = Some(Status::AuthenticationFailed);
    assert_eq!(refused(&mut world, ticket(other_key, agent.session, epoch, 5)), denied);
    assert_eq!(refused(&mut world, ticket(key, SessionId(999), epoch, 5)), denied);
    assert_eq!(refused(&mut world, ticket(key, agent.session, MdsEpoch(epoch.0 - 1), 5)), denied);
    agent.call_as(Envelope::PLAIN, braid_wire::message::mds::CloseSession {}).unwrap();
    assert_eq!(refused(&mut world, ticket(key, agent.session, epoch, 5)), denied);
}

#[test]
fn another_user_of_the_same_key_cannot_join_a_session() {
    let mut world = World::new(1);
    let (agent, user) = agent_and_user(&mut world, 1000);
    let epoch = world.core.epoch();
    let thief =
        world.connect(Role::Client, ticket(agent.connection.owner.key, agent.session, epoch, 1001));
    let join = OpenSession { session: Some(user.session), client: "thief".into() };
    assert_eq!(thief.call(join).unwrap_err().status, Status::NoSession);
}

#[test]
fn roles_are_what_their_keys_prove() {
    let mut world = World::new(1);
    let key = world.key(KeyRights::full());
    let refused =
        |world: &mut World, role, credential| world.try_connect(role, credential).is_err();
    for role in [Role::Iod, Role::Mds, Role::Admin] {
        assert!(refused(&mut world, role, Credential::Client(key)), "{role:?}");
    }
    assert!(refused(&mut world, Role::Client, Credential::Server));
    assert!(refused(&mut world, Role::Client, Credential::Client(KeyId(99))));
    let admin = world.key(KeyRights { admin: true, ..KeyRights::full() });
    let admin = world.connect(Role::Admin, Credential::Client(admin));
    assert_eq!(admin.call(KeyList {}).unwrap().len(), 2);
    let client = world.client();
    let add = KeyAdd { name: "mine".into(), rights: KeyRights::full() };
    assert_eq!(client.call(add).unwrap_err().status, Status::WrongRole);
}

#[test]
fn rights_of_a_key_hold_read_only_squash_and_subtree() {
    let mut world = World::new(1);
    let root = world.client();
    root.call(MakeDirectory { at: at("sub"), mode: 0o777, umask: 0 }).unwrap();
    root.create("secret");
    root.create("sub/inside");
    let key = world.key(KeyRights { read_only: true, ..KeyRights::full() });
    let reader = world.client_of(key);
    assert!(reader.stat("secret").is_ok());
    assert_eq!(reader.call(create("x")).unwrap_err().status, Status::ReadOnly);
    let key = world.key(KeyRights { squash: Some((77, 78)), ..KeyRights::full() });
    let squashed = world.client_of(key);
    assert_eq!(squashed.call(create("x")).unwrap_err().status, Status::PermissionDenied);
    let key = world.key(KeyRights { subtree: b"/sub".to_vec(), ..KeyRights::full() });
    let below = world.client_of(key);
    assert!(below.stat("inside").is_ok());
    assert_eq!(below.stat("secret").unwrap_err().status, Status::NotFound);
    assert_eq!(below.stat("../secret").unwrap_err().status, Status::PermissionDenied);
    let secret = root.stat("secret").unwrap().file;
    let by_index = braid_wire::message::mds::Stat {
        at: braid_wire::message::types::PathRef::file(secret),
        follow: true,
    };
    assert_eq!(below.call(by_index).unwrap_err().status, Status::PermissionDenied);
}

#[test]
fn a_message_that_is_not_understood_is_refused() {
    use braid_net::server::{CallService, Responder};
    let mut world = World::new(1);
    let client = world.client();
    for (op, body, status) in [
        (0x7777, &[0u8; 16][..], Status::UnknownMessage),
        (0x0110, &[0u8; 3][..], Status::Malformed),
        (0x0103, &[0u8; 17][..], Status::Malformed),
    ] {
        let pending = super::world::Pending::default();
        let answer = pending.clone();
        let responder = Responder::new(move |body| answer.set(body));
        client.core.handle(&client.connection, op, body, responder);
        assert_eq!(pending.take::<()>().unwrap().unwrap_err().status, status, "{op:#x}");
    }
}

#[test]
fn the_groups_of_all_identities_of_a_connection_are_bounded_together() {
    let mut world = World::new(1);
    let client = world.client();
    let define = |number, groups| {
        let identity = Identity { uid: 1000, gid: 100, groups: vec![7; groups], checked: false };
        client.call_as(Envelope::PLAIN, DefineIdentity { number, identity })
    };
    for number in 1..=4 {
        define(number, GROUPS_MAX).unwrap();
    }
    assert_eq!(define(5, 1).unwrap_err().status, Status::LimitExceeded);
    define(4, 0).unwrap();
    define(5, GROUPS_MAX).unwrap();
    assert_eq!(define(6, 1).unwrap_err().status, Status::LimitExceeded);
}
