//! The handshake between two state machines, with an attacker in between.

use crate::support::{CLUSTER, Keys, server_key};
use braid_net::{
    Endpoint, NetError, TlsPolicy,
    frames::FrameBuffer,
    handshake::{ClientHandshake, Established, ServerHandshake, ServerIdentity},
};
use braid_types::{ClusterUuid, KeyId, Status};
use braid_wire::{
    Auth, Credential, FrameHeader, Hello, HelloReply, NodeKind, Role, Secret, Wire, decode_outcome,
    encode_success,
};

fn server() -> ServerIdentity {
    ServerIdentity {
        node: NodeKind::Iod,
        node_id: 3,
        cluster: CLUSTER,
        credits: 16,
        tls: TlsPolicy::UnlessLoopback,
    }
}

fn client() -> Endpoint {
    Endpoint {
        node: NodeKind::Iod,
        node_id: 3,
        cluster: Some(CLUSTER),
        addresses: vec!["iod3:7001".into()],
        role: Role::Mds,
        credential: Credential::Server,
        secret: server_key(),
        tls: TlsPolicy::UnlessLoopback,
    }
}

/// The messages between the two, which an attacker may change.
struct Between {
    loopback: bool,
    hello: fn(Hello) -> Hello,
    hello_reply: fn(HelloReply) -> HelloReply,
    auth: fn(Auth) -> Auth,
    client_binding: [u8; 32],
    server_binding: [u8; 32],
}

impl Default for Between {
    fn default() -> Self {
        Self {
            loopback: true,
            hello: |m| m,
            hello_reply: |m| m,
            auth: |m| m,
            client_binding: [0; 32],
            server_binding: [0; 32],
        }
    }
}

fn parse(frame: &[u8]) -> (FrameHeader, Vec<u8>) {
    let mut buffer = FrameBuffer::new(frame.len());
    buffer.space()[..frame.len()].copy_from_slice(frame);
    buffer.filled(frame.len());
    let (header, body) = buffer.frame().unwrap().unwrap();
    (header, body.to_vec())
}

/// The client's outcome. A server's refusal reaches the client as a frame.
fn converse(
    endpoint: &Endpoint,
    identity: ServerIdentity,
    wire: &Between,
) -> Result<(Established, bool), NetError> {
    let mut client = ClientHandshake::new(endpoint, wire.loopback, [1; 32]);
    let mut server = ServerHandshake::new(identity, wire.loopback);

    let (header, body) = parse(&client.hello());
    let body = (wire.hello)(Hello::from_bytes(&body).unwrap()).to_bytes();
    let reply = match server.hello(&header, &body, [2; 32]) {
        Ok((frame, _)) => {
            let (header, body) = parse(&frame);
            let reply = (wire.hello_reply)(decode_outcome(&body).unwrap().unwrap());
            (header, encode_success(&reply))
        }
        Err(refusal) => parse(&refusal.frame),
    };
    let tls = client.hello_reply(&reply.0, &reply.1)?;

    let (header, body) = parse(&client.auth(wire.client_binding));
    let body = (wire.auth)(Auth::from_bytes(&body).unwrap()).to_bytes();
    let mut id = None;
    let (header, body) = match server.auth(&header, &body, wire.server_binding, &Keys) {
        Ok(proved) => {
            assert_eq!(
                (proved.role, proved.credential),
                (endpoint.role, endpoint.credential.clone())
            );
            id = Some(proved.connection);
            parse(&proved.frame)
        }
        Err(refusal) => parse(&refusal.frame),
    };
    let established = client.auth_reply(&header, &body)?;
    assert_eq!(Some(established.connection), id, "both ends know the connection by the same id");
    Ok((established, tls))
}

fn refused_with(outcome: Result<(Established, bool), NetError>) -> Status {
    match outcome {
        Err(NetError::Refused { server, failure }) => {
            assert!(server.contains("I/O daemon"), "the error names the server: {server}");
            failure.status
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn both_sides_with_the_same_key_agree() {
    let (established, tls) = converse(&client(), server(), &Between::default()).unwrap();
    assert_eq!((established.credits, established.cluster), (16, CLUSTER));
    assert!(!tls, "loopback needs no TLS");
}

#[test]
fn away_from_loopback_tls_is_the_default() {
    let wire = Between {
        loopback: false,
        client_binding: [9; 32],
        server_binding: [9; 32],
        ..Between::default()
    };
    assert!(converse(&client(), server(), &wire).unwrap().1);
}

#[test]
fn a_client_key_and_a_session_prove_themselves() {
    for credential in [Credential::Client(KeyId(5)), Credential::Client(KeyId(6))] {
        let secret = credential.secret(&server_key());
        let endpoint = Endpoint { role: Role::Client, credential, secret, ..client() };
        converse(&endpoint, server(), &Between::default()).unwrap();
    }
}

#[test]
fn a_wrong_key_is_refused() {
    let endpoint = Endpoint { secret: Secret::from_bytes([8; 32]), ..client() };
    assert_eq!(
        refused_with(converse(&endpoint, server(), &Between::default())),
        Status::AuthenticationFailed
    );
}

#[test]
fn the_holder_of_one_client_key_cannot_claim_another() {
    let secret = Credential::Client(KeyId(5)).secret(&server_key());
    let endpoint = Endpoint {
        role: Role::Client,
        credential: Credential::Client(KeyId(6)),
        secret,
        ..client()
    };
    assert_eq!(
        refused_with(converse(&endpoint, server(), &Between::default())),
        Status::AuthenticationFailed
    );
}

#[test]
fn a_client_key_does_not_make_an_io_daemon() {
    let credential = Credential::Client(KeyId(5));
    let endpoint = Endpoint {
        role: Role::Iod,
        secret: credential.secret(&server_key()),
        credential,
        ..client()
    };
    assert_eq!(refused_with(converse(&endpoint, server(), &Between::default())), Status::WrongRole);
}

#[test]
fn a_role_changed_on_the_way_is_noticed() {
    let wire = Between { auth: |auth| Auth { role: Role::Admin, ..auth }, ..Between::default() };
    assert_eq!(refused_with(converse(&client(), server(), &wire)), Status::AuthenticationFailed);
}

#[test]
fn another_version_is_refused_with_both_versions_named() {
    let wire = Between {
        hello: |hello| Hello { version_min: 2, version_max: 9, ..hello },
        ..Between::default()
    };
    match converse(&client(), server(), &wire) {
        Err(NetError::Refused { failure, .. }) => {
            assert_eq!(failure.status, Status::UnknownMessage);
            assert!(
                failure.detail.contains("2 to 9") && failure.detail.contains("try:"),
                "{failure}"
            );
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn stripped_tls_is_noticed_by_the_server_that_demands_it() {
    let strip = |hello| Hello { want_tls: false, ..hello };
    let wire = Between { loopback: false, hello: strip, ..Between::default() };
    assert_eq!(refused_with(converse(&client(), server(), &wire)), Status::PermissionDenied);
}

#[test]
fn stripped_tls_is_noticed_by_the_client_that_wants_it() {
    let strip = |reply| HelloReply { tls: false, ..reply };
    let wire = Between { loopback: false, hello_reply: strip, ..Between::default() };
    assert_eq!(refused_with(converse(&client(), server(), &wire)), Status::PermissionDenied);
}

#[test]
fn tls_taken_off_one_side_only_fails_the_proof() {
    // The client wants TLS. The server sees that it does not, and does not require it. The man in
    // the middle uses TLS with the client and plain frames with the server.
    let wire = Between {
        hello: |hello| Hello { want_tls: false, ..hello },
        hello_reply: |reply| HelloReply { tls: true, ..reply },
        client_binding: [9; 32],
        ..Between::default()
    };
    let endpoint = Endpoint { tls: TlsPolicy::Always, ..client() };
    assert_eq!(refused_with(converse(&endpoint, server(), &wire)), Status::AuthenticationFailed);
}

#[test]
fn a_man_in_the_middle_with_two_channels_fails_the_proof() {
    let wire = Between {
        loopback: false,
        client_binding: [8; 32],
        server_binding: [9; 32],
        ..Between::default()
    };
    assert_eq!(refused_with(converse(&client(), server(), &wire)), Status::AuthenticationFailed);
}

#[test]
fn a_server_that_does_not_know_the_key_is_noticed() {
    let mut client_side = ClientHandshake::new(Box::leak(Box::new(client())), true, [1; 32]);
    let mut server_side = ServerHandshake::new(server(), true);
    let (header, body) = parse(&client_side.hello());
    let (reply, _) = server_side.hello(&header, &body, [2; 32]).unwrap();
    let (header, body) = parse(&reply);
    client_side.hello_reply(&header, &body).unwrap();
    let (_, body) = parse(&client_side.auth([0; 32]));
    let Auth { proof, .. } = Auth::from_bytes(&body).unwrap();
    // The client's own proof, reflected.
    let forged = encode_success(&braid_wire::AuthReply { proof, credits: 1 });
    let header = FrameHeader {
        op: braid_wire::message::OP_AUTH,
        flags: braid_wire::FrameFlags::FINAL,
        request_id: 0,
        body_bytes: forged.len() as u32,
        payload_bytes: 0,
    };
    let outcome = client_side.auth_reply(&header, &forged);
    assert!(matches!(outcome, Err(NetError::PeerMisbehaved { .. })), "{outcome:?}");
}

#[test]
fn another_server_than_was_meant_is_refused_by_the_client() {
    let iod_4 = ServerIdentity { node_id: 4, ..server() };
    assert_eq!(refused_with(converse(&client(), iod_4, &Between::default())), Status::StaleEpoch);
    let mds = ServerIdentity { node: NodeKind::Mds, ..server() };
    assert_eq!(refused_with(converse(&client(), mds, &Between::default())), Status::StaleEpoch);
    let foreign = ServerIdentity { cluster: ClusterUuid([1; 16]), ..server() };
    assert_eq!(
        refused_with(converse(&client(), foreign, &Between::default())),
        Status::PermissionDenied
    );
    let any = Endpoint { cluster: None, ..client() };
    assert_eq!(
        converse(&any, foreign, &Between::default()).unwrap().0.cluster,
        ClusterUuid([1; 16])
    );
}

#[test]
fn policies_that_do_not_fit_are_refused_with_what_to_try() {
    for (ours, theirs) in
        [(TlsPolicy::Never, TlsPolicy::Always), (TlsPolicy::Always, TlsPolicy::Never)]
    {
        let endpoint = Endpoint { tls: ours, ..client() };
        match converse(&endpoint, ServerIdentity { tls: theirs, ..server() }, &Between::default()) {
            Err(NetError::Refused { failure, .. }) => {
                assert!(failure.detail.contains("try:"), "{failure}")
            }
            other => panic!("not refused: {other:?}"),
        }
    }
}
