//! Limits on the number of connections.

use std::{io::Read, thread};

use crate::support::{LONG, config, connect, echo, endpoint, listen, raw, server_key};
use braid_net::{Blocking, Driver, Endpoint, NetError, block_on, server::Listener};
use braid_types::{Failure, KeyId, MdsEpoch, SessionId, Status};
use braid_wire::{Credential, NodeKind, Role};

type Connected = <Blocking as Driver>::Connection;

fn listen_to(connections_max: usize, unauthenticated_max: usize) -> Listener {
    let mut config = config(NodeKind::Iod, 0);
    config.handshake_timeout = 10 * LONG;
    (config.connections_max, config.unauthenticated_max) = (connections_max, unauthenticated_max);
    listen(config, echo())
}

fn of_server(listener: &Listener) -> Endpoint {
    endpoint(listener, NodeKind::Iod, 0)
}

fn of_session(listener: &Listener, session: u64) -> Endpoint {
    of_user(listener, None, session)
}

fn of_user(listener: &Listener, user: Option<u64>, session: u64) -> Endpoint {
    let key = KeyId(1);
    let credential =
        Credential::Session { session: SessionId(session), key, user, epoch: MdsEpoch(1) };
    let secret = credential.secret(&server_key());
    Endpoint { role: Role::Client, credential, secret, ..endpoint(listener, NodeKind::Iod, 0) }
}

fn refused(endpoint: &Endpoint) -> Failure {
    match block_on(Blocking::new().connect(endpoint, LONG)) {
        Err(NetError::Refused { failure, .. }) => failure,
        other => panic!("not refused: {other:?}"),
    }
}

fn all(endpoints: impl Iterator<Item = Endpoint>) -> Vec<Connected> {
    endpoints.map(|endpoint| connect(&endpoint)).collect()
}

#[test]
fn one_connection_too_many_is_refused_and_served_when_one_has_ended() {
    let listener = listen_to(1, 8);
    let first = connect(&of_server(&listener));
    assert_eq!(refused(&of_server(&listener)).status, Status::TooManyOpen);
    assert_eq!(listener.counters().over_limit, 1);
    drop(first);
    while listener.counters().connections > 0 {
        thread::yield_now();
    }
    connect(&of_server(&listener));
}

#[test]
fn silent_peers_are_displaced_and_never_displace_authenticated_ones() {
    let listener = listen_to(4, 2);
    let proved = connect(&of_server(&listener));
    let mut silent: Vec<_> = (0..20).map(|_| raw(&listener)).collect();
    let mut rest = Vec::new();
    assert_eq!(
        silent[0].read_to_end(&mut rest).unwrap(),
        0,
        "closed, long before the time of a handshake is over"
    );
    connect(&of_server(&listener));
    drop(proved);
}

#[test]
fn clients_leave_places_to_servers() {
    let listener = listen_to(16, 8);
    let clients = all((0..15).map(|session| of_session(&listener, session)));
    assert_eq!(refused(&of_session(&listener, 99)).status, Status::TooManyOpen);
    let server = connect(&of_server(&listener));
    assert_eq!(refused(&of_server(&listener)).status, Status::TooManyOpen);
    drop((clients, server));
}

#[test]
fn a_session_has_its_share_and_no_more() {
    let listener = listen_to(16, 8);
    let its = all((0..4).map(|_| of_session(&listener, 1)));
    let failure = refused(&of_session(&listener, 1));
    assert_eq!(failure.status, Status::TooManyOpen);
    assert_eq!(
        failure.detail,
        "this session has 4 connections here, its limit; try: close some of them"
    );
    connect(&of_session(&listener, 2));
    drop(its);
}

#[test]
fn a_user_with_many_sessions_leaves_half_the_places_to_others() {
    let listener = listen_to(16, 8);
    let its = all((0..8).map(|session| of_user(&listener, Some(7), session)));
    let failure = refused(&of_user(&listener, Some(7), 8));
    assert_eq!(
        failure.detail,
        "this user has 8 connections here, its limit; try: close some of them"
    );
    let others = [connect(&of_user(&listener, Some(8), 9)), connect(&of_session(&listener, 10))];
    drop((its, others));
    while listener.counters().connections > 0 {
        thread::yield_now();
    }
    connect(&of_user(&listener, Some(7), 8));
}
