//! Servers and endpoints for the tests.
#![allow(dead_code)]

use std::{sync::Arc, time::Duration};

use braid_net::{
    Blocking, Driver, Endpoint, TlsPolicy, block_on,
    server::{
        AdmittedPeer, Authorizer, CallHandler, CallService, Handler, Listener, Peer, Responder,
        ServerConfig, ServerConnection,
    },
};
use braid_types::{ClusterUuid, Failure, Status, limits::REPLY_DATA_BYTES_MAX};
use braid_wire::{Credential, FrameFlags, FrameHeader, NodeKind, Role, Secret};

pub const CLUSTER: ClusterUuid = ClusterUuid(*b"cluster of tests");
/// Long enough to mean "never" on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

pub fn server_key() -> Secret {
    Secret::from_bytes([7; 32])
}

/// Knows the server key. Clients may only have the client role.
pub struct Keys;

impl Authorizer for Keys {
    fn secret(&self, role: Role, credential: &Credential) -> Result<Secret, Failure> {
        match (role, credential) {
            (Role::Client, Credential::Server) => {
                Err(Failure::new(Status::WrongRole, "a client has a client key"))
            }
            (Role::Client, _) | (_, Credential::Server) => Ok(credential.secret(&server_key())),
            _ => Err(Failure::new(Status::WrongRole, "that key is for clients")),
        }
    }
}

pub fn config(node: NodeKind, node_id: u32) -> ServerConfig {
    ServerConfig::new(node, node_id, CLUSTER)
}

pub fn listen(config: ServerConfig, handler: Arc<dyn Handler>) -> Listener {
    let listener = Listener::bind(&["127.0.0.1:0".to_string()], config, Arc::new(Keys)).unwrap();
    listener.serve(handler).unwrap();
    listener
}

pub fn endpoint(listener: &Listener, node: NodeKind, node_id: u32) -> Endpoint {
    Endpoint {
        node,
        node_id,
        cluster: Some(CLUSTER),
        addresses: vec![listener.local_addrs()[0].to_string()],
        role: Role::Mds,
        credential: Credential::Server,
        secret: server_key(),
        tls: TlsPolicy::UnlessLoopback,
    }
}

/// Answers each call with its own body.
pub struct Echo;

impl CallService for Echo {
    type Session = ();
    fn connected(&self, _: &Peer) -> Result<(), Failure> {
        Ok(())
    }
    fn handle(&self, _: &Arc<()>, _: u16, body: &[u8], responder: Responder) {
        responder.send(body.to_vec());
    }
    fn disconnected(&self, _: &Arc<()>) {}
}

pub fn echo() -> Arc<dyn Handler> {
    Arc::new(CallHandler::new(Arc::new(Echo)))
}

/// Sends each request's payload back. For each byte `b` of its body it sends a data frame of `4 b²`
/// bytes (up to 254 KiB; none for 0), and the rest in the final frame, whose body is the request's.
pub struct Mirror;

impl Handler for Mirror {
    fn run(&self, admitted: AdmittedPeer) {
        let Some(mut connection) = admitted.accept() else { return };
        while let Ok(Some(header)) = connection.next_header(None) {
            let body = connection.body().unwrap().to_vec();
            let mut payload = vec![0; connection.payload_left()];
            if connection.payload(&mut payload).is_err()
                || mirror(&connection, &header, &body, &payload).is_none()
            {
                return;
            }
        }
    }
}

fn mirror(
    connection: &ServerConnection,
    header: &FrameHeader,
    body: &[u8],
    mut payload: &[u8],
) -> Option<()> {
    use std::io::IoSlice;
    let FrameHeader { op, request_id, .. } = *header;
    let mut cuts = body.iter().filter(|cut| **cut > 0).map(|cut| 4 * usize::from(*cut).pow(2));
    while !payload.is_empty()
        && let Some(cut) =
            cuts.next().or((payload.len() > REPLY_DATA_BYTES_MAX).then_some(REPLY_DATA_BYTES_MAX))
    {
        let (now, rest) = payload.split_at(payload.len().min(cut));
        let flags = FrameFlags::DATA;
        let header =
            FrameHeader { op, flags, request_id, body_bytes: 0, payload_bytes: now.len() as u32 };
        connection.sender().send(&header, &[], &[IoSlice::new(now)]).ok()?;
        payload = rest;
    }
    let (body_bytes, payload_bytes) = (body.len() as u32, payload.len() as u32);
    let header =
        FrameHeader { op, flags: FrameFlags::FINAL, request_id, body_bytes, payload_bytes };
    connection.sender().send(&header, body, &[IoSlice::new(payload)]).ok()
}

pub fn connect(endpoint: &Endpoint) -> <Blocking as Driver>::Connection {
    let driver = Blocking::new();
    block_on(driver.connect(endpoint, LONG)).unwrap()
}

/// A foreign client: raw bytes to the server.
pub fn raw(listener: &Listener) -> std::net::TcpStream {
    let stream = std::net::TcpStream::connect(listener.local_addrs()[0]).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// How long a server that [trickles](trickle) may be silent: 40 times its pauses.
pub const SILENCE: Duration = Duration::from_secs(4);
/// Bytes that a trickling server sends.
pub const TRICKLED: usize = 60;

/// Answers one call a byte at a time, for longer than [`SILENCE`].
pub fn trickle(connection: &mut ServerConnection) {
    let Ok(Some(FrameHeader { op, request_id, .. })) = connection.next_header(None) else { return };
    let send = |flags, payload: &[u8]| {
        let header = FrameHeader {
            op,
            flags,
            request_id,
            body_bytes: 0,
            payload_bytes: payload.len() as u32,
        };
        connection.sender().send(&header, &[], &[std::io::IoSlice::new(payload)]).is_ok()
    };
    for _ in 0..TRICKLED {
        std::thread::sleep(Duration::from_millis(100));
        if !send(FrameFlags::DATA, &[7]) {
            return;
        }
    }
    send(FrameFlags::FINAL, &[]);
    let _ = connection.next_header(None);
}

/// Receives a call and answers nothing.
pub fn stay_silent(connection: &mut ServerConnection) {
    while let Ok(Some(_)) = connection.next_header(None) {}
}

/// Receives calls and answers none.
pub fn answer_nothing(connection: &mut ServerConnection) {
    let Ok(Some(FrameHeader { op, request_id, .. })) = connection.next_header(None) else { return };
    for _ in 0..100 {
        let header = FrameHeader {
            op,
            flags: FrameFlags::DATA,
            request_id,
            body_bytes: 0,
            payload_bytes: 0,
        };
        if connection.sender().send(&header, &[], &[]).is_err() {
            return;
        }
    }
}

/// A server that runs the handshake correctly and then follows a script.
pub struct Script(pub fn(&mut ServerConnection));

impl Handler for Script {
    fn run(&self, admitted: AdmittedPeer) {
        let Some(mut connection) = admitted.accept() else { return };
        (self.0)(&mut connection);
    }
}
