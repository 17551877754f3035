//! A man in the middle that terminates TLS with both sides and relays every frame.

use std::{
    io::IoSlice,
    net::TcpListener,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use braid_types::{ClusterUuid, Failure, Status};
use braid_wire::{Credential, FRAME_HEADER_BYTES, FrameHeader, NodeKind, Role, Secret};

use crate::{
    Blocking, Driver, Endpoint, NetError, TlsPolicy, block_on,
    server::{AdmittedPeer, Authorizer, Handler, Listener, ServerConfig},
    tls,
    transport::{Transport, Wait},
};

const CLUSTER: ClusterUuid = ClusterUuid([3; 16]);
const LONG: Duration = Duration::from_secs(60);

struct Key;

impl Authorizer for Key {
    fn secret(&self, _: Role, _: &Credential) -> Result<Secret, Failure> {
        Ok(Secret::from_bytes([5; 32]))
    }
}

struct Nothing;

impl Handler for Nothing {
    fn run(&self, admitted: AdmittedPeer) {
        drop(admitted.accept());
    }
}

fn pass_one_frame(from: &Transport, to: &Transport, wait: Wait) {
    let mut frame = vec![0; FRAME_HEADER_BYTES];
    receive_exactly(from, &mut frame, wait);
    let header = FrameHeader::from_bytes(frame[..].try_into().unwrap()).unwrap();
    frame.resize(FRAME_HEADER_BYTES + header.body_bytes as usize, 0);
    receive_exactly(from, &mut frame[FRAME_HEADER_BYTES..], wait);
    to.send_all(&mut [IoSlice::new(&frame)], false, wait).unwrap();
}

fn receive_exactly(from: &Transport, into: &mut [u8], wait: Wait) {
    let mut done = 0;
    while done < into.len() {
        done += match from.recv_into(&mut into[done..], wait).unwrap() {
            0 => panic!("the connection ended"),
            bytes => bytes,
        };
    }
}

/// Relays one handshake. With `end_tls`, it terminates TLS on both sides.
fn relay(listener: &TcpListener, server: &str, end_tls: bool) {
    let wait = Wait::Until(Instant::now() + LONG);
    let client = Transport::new(listener.accept().unwrap().0).unwrap();
    let server = Transport::new(std::net::TcpStream::connect(server).unwrap()).unwrap();
    pass_one_frame(&client, &server, wait);
    pass_one_frame(&server, &client, wait);
    if end_tls {
        server.start_tls(tls::initiate().unwrap(), wait).unwrap();
        client.start_tls(tls::accept(&tls::server_config().unwrap()).unwrap(), wait).unwrap();
    }
    pass_one_frame(&client, &server, wait);
    pass_one_frame(&server, &client, wait);
}

fn connect_through_relay(tls: TlsPolicy) -> Result<(), NetError> {
    let config = ServerConfig::new(NodeKind::Mds, 0, CLUSTER);
    let listener = Listener::bind(&["127.0.0.1:0".to_string()], config, Arc::new(Key)).unwrap();
    listener.serve(Arc::new(Nothing)).unwrap();
    let middle = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint {
        node: NodeKind::Mds,
        node_id: 0,
        cluster: Some(CLUSTER),
        addresses: vec![middle.local_addr().unwrap().to_string()],
        role: Role::Client,
        credential: Credential::Server,
        secret: Secret::from_bytes([5; 32]),
        tls,
    };
    let server = listener.local_addrs()[0].to_string();
    let relay = thread::spawn(move || relay(&middle, &server, tls == TlsPolicy::Always));
    let outcome = block_on(Blocking::new().connect(&endpoint, LONG)).map(|_| ());
    relay.join().unwrap();
    outcome
}

#[test]
fn a_man_in_the_middle_of_tls_is_refused() {
    match connect_through_relay(TlsPolicy::Always) {
        Err(NetError::Refused { failure, .. }) => {
            assert_eq!(failure.status, Status::AuthenticationFailed)
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn the_same_relay_without_tls_is_only_a_wire() {
    connect_through_relay(TlsPolicy::Never).unwrap();
}
