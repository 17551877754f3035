//! The next start of a gateway continues the sessions of the earlier one. ADR 0040.

use std::sync::atomic::Ordering;

use braid_net::server::CallService;
use braid_types::{Failure, KeyId, SessionId, Status, limits::GATEWAY_RECORD_BYTES_MAX};
use braid_wire::{
    Credential, Rights, Role,
    message::{
        lock::{LockReply, LockRequest, LockSpace},
        mds::{
            AdoptSession, KeyRights, ListGatewaySessions, ListLocks, ListOpens, LockSet,
            OpenSession, SetGatewayRecord,
        },
    },
};

use super::world::{Client, World};

/// Longer than a gateway that is connected is silent.
const GONE_MS: u64 = 20_001;

fn set(client: &Client, gateway: &str, record: &[u8]) -> Result<(), Status> {
    let call = SetGatewayRecord { gateway: gateway.into(), record: record.to_vec() };
    client.call(call).map_err(|failure| failure.status)
}

fn listed(client: &Client, gateway: &str) -> Vec<(SessionId, Vec<u8>)> {
    let call = ListGatewaySessions { gateway: gateway.into(), after: SessionId(0) };
    let listed = client.call(call).unwrap().into_iter();
    listed.map(|found| (found.session, found.record)).collect()
}

/// Continues a session over a new connection.
fn adopt(
    world: &mut World,
    key: KeyId,
    session: SessionId,
    holder: SessionId,
) -> Result<Client, Status> {
    let mut client = world.connect(Role::Client, Credential::Client(key));
    let call = AdoptSession { session, holder, again: false, client: "adopted".into() };
    let reply = client.call(call).map_err(|failure: Failure| failure.status)?;
    client.session = reply.session;
    client.sequence.store(holder.0 << 32, Ordering::Relaxed);
    Ok(client)
}

/// A key, and the session of a gateway's client with a record.
fn client_of_a_gateway(world: &mut World) -> (KeyId, Client) {
    let key = world.key(KeyRights::full());
    let client = world.client_of(key);
    set(&client, "g", b"record").unwrap();
    (key, client)
}

fn lock(file: braid_types::FileIndex, start: u64) -> LockRequest {
    let (space, owner, last) = (LockSpace::Range, 7, start + 9);
    LockRequest { file, space, owner, pid: 0, start, last, exclusive: true }
}

#[test]
fn an_adopted_session_has_its_opens_and_locks_and_one_holder() {
    let mut world = World::new(1);
    let (key, earlier) = client_of_a_gateway(&mut world);
    let opened = earlier.create("f");
    let file = opened.attributes.file;
    for start in [0, 20] {
        earlier.call(LockSet { lock: lock(file, start), ticket: 0 }).unwrap();
    }
    world.core.disconnected(&earlier.connection);
    let own = world.client_of(key);
    set(&own, "g", b"").unwrap();
    let of_gateway = [(earlier.session, b"record".to_vec()), (own.session, Vec::new())];
    assert_eq!(listed(&own, "g"), of_gateway);
    let next = adopt(&mut world, key, earlier.session, own.session).unwrap();
    let opens = next.call(ListOpens { after: 0 }).unwrap();
    assert_eq!(opens.len(), 1);
    assert_eq!((opens[0].open_id, opens[0].file), (opened.open_id, file));
    assert!(opens[0].rights.allow(Rights::READ));
    assert_eq!(next.call(ListOpens { after: opened.open_id }).unwrap(), []);
    let locks = next.call(ListLocks { after: None }).unwrap();
    assert_eq!(locks, [lock(file, 0), lock(file, 20)]);
    assert_eq!(next.call(ListLocks { after: Some(lock(file, 0)) }).unwrap(), [lock(file, 20)]);

    let of_earlier = earlier.call(ListOpens { after: 0 });
    assert_eq!(of_earlier.unwrap_err().status, Status::NoSession);
    let back = world.connect(Role::Client, Credential::Client(key));
    let join = OpenSession { session: Some(earlier.session), client: "back".into() };
    assert_eq!(back.call(join).unwrap_err().status, Status::NoSession);
    // The same holder, over another connection.
    let again = adopt(&mut world, key, earlier.session, own.session).unwrap();
    assert_eq!(again.call(ListOpens { after: 0 }).unwrap().len(), 1);
    again.close(&opened);
    next.create("g");
}

#[test]
fn a_session_is_adopted_only_when_its_holder_is_gone() {
    let mut world = World::new(1);
    let (key, earlier) = client_of_a_gateway(&mut world);
    let (own, later) = (world.client_of(key), world.client_of(key));
    let refused = adopt(&mut world, key, earlier.session, own.session);
    assert_eq!(refused.err(), Some(Status::TryAgain));
    world.pass(GONE_MS);
    let next = adopt(&mut world, key, earlier.session, own.session).unwrap();
    let refused = adopt(&mut world, key, earlier.session, later.session);
    assert_eq!(refused.err(), Some(Status::TryAgain));
    world.core.disconnected(&next.connection);
    adopt(&mut world, key, earlier.session, later.session).unwrap();
    // An earlier start than the last one comes too late.
    let refused = adopt(&mut world, key, earlier.session, own.session);
    assert_eq!(refused.err(), Some(Status::NoSession));
}

#[test]
fn after_a_restart_only_the_last_holder_continues_a_session() {
    let mut world = World::new(1);
    let (key, earlier) = client_of_a_gateway(&mut world);
    let own = world.client_of(key);
    world.core.disconnected(&earlier.connection);
    adopt(&mut world, key, earlier.session, own.session).unwrap();
    world.restart();
    // A start that did not have the session does not know what to reclaim.
    let refused = adopt(&mut world, key, earlier.session, own.session);
    assert_eq!(refused.err(), Some(Status::NoSession));
    let (session, holder) = (earlier.session, own.session);
    let back = world.connect(Role::Client, Credential::Client(key));
    let again = AdoptSession { session, holder, again: true, client: "again".into() };
    assert_eq!(back.call(again).unwrap().session, session);
    let back = world.connect(Role::Client, Credential::Client(key));
    let join = OpenSession { session: Some(session), client: "earlier".into() };
    assert_eq!(back.call(join).unwrap_err().status, Status::NoSession);
}

#[test]
fn waits_for_locks_of_the_earlier_holder_end_with_the_adoption() {
    let mut world = World::new(1);
    let (key, earlier) = client_of_a_gateway(&mut world);
    let (own, other) = (world.client_of(key), world.client_of(key));
    let file = other.create("f").attributes.file;
    let held = LockRequest { owner: 1, ..lock(file, 0) };
    other.call(LockSet { lock: held.clone(), ticket: 0 }).unwrap();
    let waiting = earlier.wait(&lock(file, 0), 5);
    world.core.disconnected(&earlier.connection);
    let next = adopt(&mut world, key, earlier.session, own.session).unwrap();
    assert!(waiting.take::<LockReply>().is_some(), "it waits no longer");
    other.unlock(&held);
    assert_eq!(next.call(ListLocks { after: None }).unwrap(), []);
}

#[test]
fn sessions_of_other_keys_and_of_no_gateway_are_not_adopted() {
    let mut world = World::new(1);
    let (key, earlier) = client_of_a_gateway(&mut world);
    let plain = world.client_of(key);
    let stranger = world.key(KeyRights::full());
    let (own, other) = (world.client_of(key), world.client_of(stranger));
    world.core.disconnected(&earlier.connection);
    world.core.disconnected(&plain.connection);
    assert_eq!(listed(&other, "g"), []);
    assert_eq!(listed(&own, "another name"), []);
    let refused = adopt(&mut world, stranger, earlier.session, other.session);
    assert_eq!(refused.err(), Some(Status::NoSession));
    let refused = adopt(&mut world, key, plain.session, own.session);
    assert_eq!(refused.err(), Some(Status::NoSession));
    let refused = adopt(&mut world, key, SessionId(999), own.session);
    assert_eq!(refused.err(), Some(Status::NoSession));
    adopt(&mut world, key, earlier.session, own.session).unwrap();
}

#[test]
fn two_connected_gateways_have_two_names() {
    let mut world = World::new(1);
    let key = world.key(KeyRights::full());
    let (one, two) = (world.client_of(key), world.client_of(key));
    set(&one, "g", b"").unwrap();
    assert_eq!(set(&two, "g", b""), Err(Status::Busy));
    set(&two, "h", b"").unwrap();
    set(&one, "g", b"").unwrap();
    world.core.disconnected(&one.connection);
    set(&two, "g", b"").unwrap();
}

#[test]
fn names_and_records_are_bounded_and_replaced() {
    let mut world = World::new(1);
    let (key, client) = client_of_a_gateway(&mut world);
    let long = vec![1; GATEWAY_RECORD_BYTES_MAX + 1];
    assert_eq!(set(&client, "g", &long), Err(Status::LimitExceeded));
    assert_eq!(set(&client, "", b"x"), Err(Status::Invalid));
    assert_eq!(set(&client, &"g".repeat(1025), b"x"), Err(Status::Invalid));
    set(&client, "g", &long[1..]).unwrap();
    let own = world.client_of(key);
    assert_eq!(listed(&own, "g"), [(client.session, long[1..].to_vec())]);
}
