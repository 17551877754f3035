//! Any frames in the handshake, to the server and to the client: no panic, and no peer without the
//! key is accepted.
#![no_main]

use arbitrary::Arbitrary;
use braid_net::{
    Endpoint, TlsPolicy,
    handshake::{ClientHandshake, ServerHandshake, ServerIdentity},
    server::Authorizer,
};
use braid_types::{ClusterUuid, Failure};
use braid_wire::{
    Auth, CHANNEL_BINDING_BYTES, Credential, FRAME_HEADER_BYTES, FrameFlags, FrameHeader, Hello,
    HelloReply, NodeKind, Role, Secret, Wire, encode_success,
    message::{OP_AUTH, OP_HELLO},
};
use libfuzzer_sys::fuzz_target;

const CLUSTER: ClusterUuid = ClusterUuid([3; 16]);
const BINDING: [u8; CHANNEL_BINDING_BYTES] = [9; CHANNEL_BINDING_BYTES];

/// What the other side sends: bytes, or fields at their places, so that the fuzzer gets further.
#[derive(Arbitrary, Debug)]
enum Sent {
    Bytes { op: u16, flags: u8, body: Vec<u8> },
    Hello { min: u16, max: u16, features: u64, tls: bool },
    Reply { version: u16, features: u64, tls: bool, node_id: u32 },
    Proof { credential: Vec<u8>, rest: Vec<u8> },
}

#[derive(Arbitrary, Debug)]
struct Input {
    policy: u8,
    loopback: bool,
    first: Sent,
    second: Sent,
}

struct Keys;

impl Authorizer for Keys {
    fn secret(&self, _: Role, _: &Credential) -> Result<Secret, Failure> {
        Ok(Secret::from_bytes([5; 32]))
    }
}

impl Sent {
    fn frame(&self, to_server: bool) -> (FrameHeader, Vec<u8>) {
        let flags = if to_server { FrameFlags::REQUEST } else { FrameFlags::FINAL };
        let (op, flags, body) = match self {
            Self::Bytes { op, flags: bits, body } => {
                let all = [flags, FrameFlags::REQUEST, FrameFlags::DATA, FrameFlags::FINAL];
                (*op, all[usize::from(*bits) % all.len()], body.clone())
            }
            Self::Hello { min, max, features, tls } => {
                let (version_min, version_max, features, want_tls) = (*min, *max, *features, *tls);
                (OP_HELLO, flags, Hello { version_min, version_max, features, want_tls }.to_bytes())
            }
            Self::Reply { version, features, tls, node_id } => {
                let (node, cluster, nonce) = (NodeKind::Iod, CLUSTER, [1; 32]);
                let (version, features, tls, node_id) = (*version, *features, *tls, *node_id);
                let reply = HelloReply { version, features, tls, node, cluster, node_id, nonce };
                (OP_HELLO, flags, encode_success(&reply))
            }
            Self::Proof { credential, rest } => (OP_AUTH, flags, [&credential[..], rest].concat()),
        };
        let body_bytes = body.len() as u32;
        let header = FrameHeader { op, flags, request_id: 0, body_bytes, payload_bytes: 0 };
        let read = FrameHeader::from_bytes(
            header.to_bytes()[..].first_chunk::<FRAME_HEADER_BYTES>().unwrap(),
        );
        (read.unwrap_or(header), body)
    }
}

fn policy(n: u8) -> TlsPolicy {
    [TlsPolicy::UnlessLoopback, TlsPolicy::Always, TlsPolicy::Never][usize::from(n % 3)]
}

fn server(input: &Input) {
    let identity = ServerIdentity {
        node: NodeKind::Iod,
        node_id: 7,
        cluster: CLUSTER,
        credits: 4,
        tls: policy(input.policy),
    };
    let mut handshake = ServerHandshake::new(identity, input.loopback);
    let (header, body) = input.first.frame(true);
    let Ok((_, tls)) = handshake.hello(&header, &body, [1; 32]) else { return };
    assert!(tls || identity.tls != TlsPolicy::Always, "a server that demands TLS went on without");
    let (header, body) = input.second.frame(true);
    if let Ok(proved) = handshake.auth(&header, &body, BINDING, &Keys) {
        panic!("let in as {:?} without the key by {:?}", proved.role, Auth::from_bytes(&body));
    }
}

fn client(input: &Input) {
    let endpoint = Endpoint {
        node: NodeKind::Iod,
        node_id: 7,
        cluster: Some(CLUSTER),
        addresses: Vec::new(),
        role: Role::Client,
        credential: Credential::Server,
        secret: Secret::from_bytes([5; 32]),
        tls: policy(input.policy),
    };
    let mut handshake = ClientHandshake::new(&endpoint, input.loopback, [2; 32]);
    let (header, body) = input.first.frame(false);
    let Ok(tls) = handshake.hello_reply(&header, &body) else { return };
    assert!(tls || endpoint.tls != TlsPolicy::Always, "a client that demands TLS went on without");
    handshake.auth(BINDING);
    let (header, body) = input.second.frame(false);
    assert!(handshake.auth_reply(&header, &body).is_err(), "a server without the key was believed");
}

fuzz_target!(|input: Input| {
    server(&input);
    client(&input);
});
