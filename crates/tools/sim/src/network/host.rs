//! The server's side of a connection: the service that runs on a host.

use std::sync::Arc;

use braid_net::{
    handshake::{ServerHandshake, ServerIdentity},
    server::{Authorizer, Peer},
};
use braid_types::Failure;
use braid_wire::{FrameFlags, FrameHeader, encode_failure};

use super::{Direction, Network, Transmission};

/// A server process.
pub trait Service: Send + Sync {
    /// The identity that it presents.
    fn identity(&self) -> ServerIdentity;

    /// Supplies the key that a peer must prove.
    fn authorizer(&self) -> &dyn Authorizer;

    /// A peer has authenticated.
    ///
    /// # Errors
    /// Why the peer is refused.
    fn connected(&self, peer: &Peer) -> Result<Box<dyn Session>, Failure>;
}

/// One connection of a server, dropped when the connection ends.
pub trait Session: Send {
    /// A request arrived.
    fn request(&mut self, header: FrameHeader, body: Vec<u8>, payload: Vec<u8>, replies: Replies);
}

/// The state of a connection at its server.
pub(crate) enum ServerSide {
    /// Nothing arrived yet.
    New,
    /// The handshake is in progress.
    Handshake(ServerHandshake, Arc<dyn Service>),
    /// It is served. Taken out while the session runs.
    Open(Option<Box<dyn Session>>),
    /// It is refused; every request gets this failure.
    Refused(Failure),
}

/// Sends the reply frames of one request.
#[derive(Clone, Debug)]
pub struct Replies {
    network: Network,
    connection: u64,
    op: u16,
    request_id: u64,
}

impl Replies {
    pub(super) fn new(network: Network, connection: u64, header: &FrameHeader) -> Self {
        Self { network, connection, op: header.op, request_id: header.request_id }
    }

    /// Sends a data frame; `false` when the connection is gone.
    pub fn data(&self, payload: &[u8]) -> bool {
        self.send(FrameFlags::DATA, &[], payload)
    }

    /// Sends the final frame; `false` when the connection is gone.
    pub fn finish(&self, body: &[u8], payload: &[u8]) -> bool {
        self.send(FrameFlags::FINAL, body, payload)
    }

    /// Ends the call with a failure.
    pub fn fail(&self, failure: &Failure) -> bool {
        self.finish(&encode_failure(failure), &[])
    }

    fn send(&self, flags: FrameFlags, body: &[u8], payload: &[u8]) -> bool {
        let frame = frame(self.op, flags, self.request_id, body, &[payload]);
        self.network.send(self.connection, Direction::ToClient, Transmission::Frame(frame))
    }
}

/// Encodes a frame.
pub(crate) fn frame(
    op: u16,
    flags: FrameFlags,
    request_id: u64,
    body: &[u8],
    payload: &[&[u8]],
) -> Vec<u8> {
    let payload_bytes: usize = payload.iter().map(|piece| piece.len()).sum();
    let header = FrameHeader {
        op,
        flags,
        request_id,
        body_bytes: body.len() as u32,
        payload_bytes: payload_bytes as u32,
    };
    let mut out = Vec::with_capacity(braid_wire::FRAME_HEADER_BYTES + body.len() + payload_bytes);
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(body);
    payload.iter().for_each(|piece| out.extend_from_slice(piece));
    out
}

/// Decodes a frame; `None` when the bytes are not a frame.
pub(crate) fn parse(frame: &[u8]) -> Option<(FrameHeader, &[u8], &[u8])> {
    let (header, rest) = frame.split_first_chunk()?;
    let header = FrameHeader::from_bytes(header).ok()?;
    let (body, payload) = rest.split_at_checked(header.body_bytes as usize)?;
    (payload.len() == header.payload_bytes as usize).then_some((header, body, payload))
}
