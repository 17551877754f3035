//! The handshake of an accepted connection, with its limits on time and memory.

use std::{
    io::IoSlice,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use braid_types::{Failure, Status};
use braid_wire::{
    CHANNEL_BINDING_BYTES, FrameHeader,
    message::{OP_AUTH, OP_HELLO},
};

use super::{
    Peer, ServerConnection,
    connection_limits::ConnectionPermit,
    listener::{ListenerState, loopback},
};
use crate::{
    frames::FrameBuffer,
    handshake::{
        AuthenticatedClient, HANDSHAKE_BODY_BYTES_MAX, Refusal, ServerHandshake, ServerIdentity,
        refuse_malformed,
    },
    random::random_bytes,
    tls,
    transport::{Transport, Wait},
};

/// Buffer size; the frames of a usual handshake fit.
const BUFFER_BYTES: usize = 1024;
/// How long a refused peer may take to read the reason.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes that a refused peer may still send while it reads the reason.
const LINGER_BYTES: usize = 64 * 1024;

/// Why a connection was not admitted. A peer that is gone or silent gets no reason.
enum AdmissionError {
    Refused(Refusal),
    Gone,
}

/// A peer that proved its key and does not know yet that it is admitted. It has sent no call, and
/// its connection has no other user.
#[derive(Debug)]
pub struct AdmittedPeer {
    shared: Arc<ListenerState>,
    peer: Peer,
    transport: Arc<Transport>,
    reply: Vec<u8>,
    deadline: Wait,
}

impl AdmittedPeer {
    /// The authenticated peer.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Sends the last handshake frame. Do before this call whatever must hold before the peer's
    /// first call, and before others can name this connection. `None` when the peer is gone.
    pub fn accept(self) -> Option<ServerConnection> {
        let Self { shared, peer, transport, reply, deadline } = self;
        if send(&transport, &reply, deadline).is_err() {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        shared.accepted.fetch_add(1, Ordering::Relaxed);
        let inflow = shared.interfaces.receive_limit(&transport);
        let config = &shared.config;
        Some(ServerConnection::new(peer, transport, inflow, config.credits, config.stall_timeout))
    }
}

/// Runs the handshake up to its last frame; `None` when it fails.
pub(super) fn admit(
    shared: &Arc<ListenerState>,
    transport: Arc<Transport>,
    address: SocketAddr,
    permit: &ConnectionPermit,
) -> Option<AdmittedPeer> {
    shake_hands(shared, &transport, address, permit)
        .map_err(|rejected| reject(shared, &transport, rejected))
        .ok()
}

fn reject(shared: &ListenerState, transport: &Transport, rejected: AdmissionError) {
    shared.refused.fetch_add(1, Ordering::Relaxed);
    if let AdmissionError::Refused(refusal) = rejected {
        send_refusal(transport, &refusal);
    }
}

fn shake_hands(
    shared: &Arc<ListenerState>,
    transport: &Arc<Transport>,
    address: SocketAddr,
    permit: &ConnectionPermit,
) -> Result<AdmittedPeer, AdmissionError> {
    let deadline = Wait::Until(Instant::now() + shared.config.handshake_timeout);
    let loopback = loopback(&address);
    let mut buffer = FrameBuffer::with_body_max(BUFFER_BYTES, HANDSHAKE_BODY_BYTES_MAX);
    let mut handshake = ServerHandshake::new(identity(shared), loopback);

    let (header, body) = receive(transport, &mut buffer, OP_HELLO, deadline)?;
    nothing_behind(&buffer, OP_HELLO)?;
    let (reply, tls) =
        handshake.hello(&header, &body, random_bytes()).map_err(AdmissionError::Refused)?;
    send(transport, &reply, deadline)?;
    let binding = if tls {
        let channel = tls::accept(&shared.tls);
        channel
            .and_then(|channel| transport.start_tls(channel, deadline))
            .map_err(|_| AdmissionError::Gone)?
    } else {
        [0; CHANNEL_BINDING_BYTES]
    };

    let (header, body) = receive(transport, &mut buffer, OP_AUTH, deadline)?;
    let proved = handshake
        .auth(&header, &body, binding, &*shared.authorizer)
        .map_err(AdmissionError::Refused)?;
    nothing_behind(&buffer, OP_AUTH)?;
    let AuthenticatedClient { frame: reply, role, credential, connection: id } = proved;
    permit.authenticate(role, &credential).map_err(|full| {
        shared.over_limit.fetch_add(1, Ordering::Relaxed);
        AdmissionError::Refused(Refusal::new(OP_AUTH, full))
    })?;
    let connection = permit.number();
    let peer =
        Peer { role, credential, address: address.to_string(), loopback, tls, connection, id };
    Ok(AdmittedPeer {
        shared: Arc::clone(shared),
        peer,
        transport: Arc::clone(transport),
        reply,
        deadline,
    })
}

fn identity(shared: &ListenerState) -> ServerIdentity {
    let config = &shared.config;
    ServerIdentity {
        node: config.node,
        node_id: shared.node_id.load(Ordering::Acquire),
        cluster: config.cluster,
        credits: config.credits,
        tls: config.tls,
    }
}

fn receive(
    transport: &Transport,
    buffer: &mut FrameBuffer,
    op: u16,
    deadline: Wait,
) -> Result<(FrameHeader, Vec<u8>), AdmissionError> {
    loop {
        match buffer.frame() {
            Ok(Some((header, body))) => return Ok((header, body.to_vec())),
            Ok(None) => {}
            Err(error) => return Err(AdmissionError::Refused(refuse_malformed(op, error))),
        }
        match transport.recv_into(buffer.space(), deadline) {
            Ok(bytes @ 1..) => buffer.filled(bytes),
            _ => return Err(AdmissionError::Gone),
        }
    }
}

/// A client waits for each answer of the handshake. Bytes behind a frame would cross the start of
/// TLS.
fn nothing_behind(buffer: &FrameBuffer, op: u16) -> Result<(), AdmissionError> {
    if buffer.is_empty() {
        return Ok(());
    }
    let failure = Failure::new(Status::Malformed, "bytes behind a frame of the handshake");
    Err(AdmissionError::Refused(Refusal::new(op, failure)))
}

fn send(transport: &Transport, frame: &[u8], deadline: Wait) -> Result<(), AdmissionError> {
    transport
        .send_all(&mut [IoSlice::new(frame)], false, deadline)
        .map_err(|_| AdmissionError::Gone)
}

/// Sends the refusal, then reads until the peer closes, within limits. To close immediately with
/// bytes unread would reset the connection, and the peer would not get the reason.
fn send_refusal(transport: &Transport, refusal: &Refusal) {
    let deadline = Wait::Until(Instant::now() + LINGER);
    if send(transport, &refusal.frame, deadline).is_err() {
        return;
    }
    transport.finish_sending();
    let (mut buffer, mut left) = ([0; 4096], LINGER_BYTES);
    while left > 0 {
        match transport.recv_into(&mut buffer, deadline) {
            Ok(bytes @ 1..) => left = left.saturating_sub(bytes),
            _ => return,
        }
    }
}
