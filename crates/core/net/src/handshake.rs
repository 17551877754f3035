//! Both sides of the handshake as state machines without I/O. `braid_wire::Transcript` has the
//! picture.
//!
//! Frames go in, and frames to send come out. The driver moves the bytes. Between the second and
//! the third frame it sets up TLS, if both sides agreed on it.
//!
//! Invariants:
//! 1. TLS is used exactly when both sides agree. A side whose policy requires TLS never continues
//!    without.
//! 2. Neither side acts on any other message before the other has proved its key.
//! 3. Until then, a body is at most [`HANDSHAKE_BODY_BYTES_MAX`] (I9).
//! 4. A refusal is a final frame with a reason that a person can act on. It does not reveal which
//!    keys exist.
//!
//! These are checks of what a peer sends, not assertions: `check_versions` and `decide_tls` (1),
//! the order of the methods (2), the size of the frame buffer (3), and one text for every wrong key
//! (4).

use braid_types::{ClusterUuid, ConnectionId, Failure, Status};
use braid_wire::{
    Auth, AuthReply, CHANNEL_BINDING_BYTES, Credential, FrameFlags, FrameHeader, Hello, HelloReply,
    NodeKind, PROTOCOL_VERSION, Role, Transcript, Wire, WireError, decode_outcome, encode_failure,
    encode_success,
    message::{OP_AUTH, OP_HELLO},
};

use crate::{
    driver::Endpoint, driver::NetError, driver::TlsPolicy, frames::push_frame, server::Authorizer,
};

/// Body of a handshake frame: a ticket with 4,000 groups, and some space.
pub const HANDSHAKE_BODY_BYTES_MAX: usize = 32 * 1024;

/// The result of a client's handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Established {
    /// Requests that it may have in flight.
    pub credits: u32,
    /// The cluster that the server belongs to.
    pub cluster: ClusterUuid,
    /// The connection's id; the server has the same.
    pub connection: ConnectionId,
}

/// The client's side. Call the methods in their order.
#[derive(Debug)]
pub struct ClientHandshake<'a> {
    endpoint: &'a Endpoint,
    nonce: [u8; 32],
    hello: Hello,
    reply: Option<HelloReply>,
    proof: Option<(Transcript, Auth)>,
}

impl<'a> ClientHandshake<'a> {
    /// A handshake with `endpoint`. `loopback` says whether the peer is on loopback; `nonce` is
    /// fresh random bytes.
    pub fn new(endpoint: &'a Endpoint, loopback: bool, nonce: [u8; 32]) -> Self {
        let want_tls = match endpoint.tls {
            TlsPolicy::UnlessLoopback => !loopback,
            TlsPolicy::Always => true,
            TlsPolicy::Never => false,
        };
        let hello = Hello {
            version_min: PROTOCOL_VERSION,
            version_max: PROTOCOL_VERSION,
            features: 0,
            want_tls,
        };
        Self { endpoint, nonce, hello, reply: None, proof: None }
    }

    /// The first frame to send.
    pub fn hello(&self) -> Vec<u8> {
        request_frame(OP_HELLO, &self.hello)
    }

    /// Takes the server's first frame. Returns whether to set up TLS now.
    ///
    /// # Errors [`NetError::Refused`] with the server's reason. It has a reason of ours when
    /// another server answers, or when only one side wants TLS. [`NetError::PeerMisbehaved`] for
    /// anything else.
    pub fn hello_reply(&mut self, header: &FrameHeader, body: &[u8]) -> Result<bool, NetError> {
        let reply: HelloReply = self.read(header, OP_HELLO, body)?;
        self.check_identity(&reply)?;
        self.check_versions(&reply)?;
        let tls = reply.tls;
        self.reply = Some(reply);
        Ok(tls)
    }

    /// The second frame to send. `channel_binding` is the value of the TLS exporter; zeros without
    /// TLS.
    pub fn auth(&mut self, channel_binding: [u8; CHANNEL_BINDING_BYTES]) -> Vec<u8> {
        let reply = self.reply.as_ref().expect("the server's hello comes before the proof");
        let transcript = Transcript::new(&self.hello, reply, channel_binding);
        let Endpoint { role, credential, secret, .. } = self.endpoint;
        let auth = transcript.auth(*role, credential.clone(), secret, self.nonce);
        let frame = request_frame(OP_AUTH, &auth);
        self.proof = Some((transcript, auth));
        frame
    }

    /// Takes the server's second frame.
    ///
    /// # Errors
    /// [`NetError::Refused`] with the server's reason; [`NetError::PeerMisbehaved`] when it did not
    /// prove the key.
    pub fn auth_reply(self, header: &FrameHeader, body: &[u8]) -> Result<Established, NetError> {
        let reply: AuthReply = self.read(header, OP_AUTH, body)?;
        let (transcript, auth) = self.proof.as_ref().expect("our proof comes before the server's");
        if !transcript.check_reply(auth, &reply, &self.endpoint.secret) {
            return Err(self.misbehaved(
                "it did not prove that it knows the key; \
                 try: check that nothing relays the connection",
            ));
        }
        if reply.credits == 0 {
            return Err(self.misbehaved("it granted no credits"));
        }
        let cluster = self.reply.as_ref().map(|reply| reply.cluster).unwrap_or_default();
        let connection = transcript.connection_id(auth, &self.endpoint.secret);
        Ok(Established { credits: reply.credits, cluster, connection })
    }

    /// The error for bytes that are not a frame; it names the server.
    pub fn not_a_frame(&self, error: WireError) -> NetError {
        self.misbehaved(&format!(
            "{error}; try: check that host and port are those of a BraidFS server"
        ))
    }

    fn read<R: Wire>(&self, header: &FrameHeader, op: u16, body: &[u8]) -> Result<R, NetError> {
        if header.op != op || header.flags != FrameFlags::FINAL || header.payload_bytes != 0 {
            return Err(self.misbehaved("its frame does not belong to the handshake"));
        }
        match decode_outcome(body) {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(failure)) => Err(NetError::Refused { server: self.endpoint.name(), failure }),
            Err(error) => Err(self.misbehaved(&format!("its handshake frame: {error}"))),
        }
    }

    fn check_identity(&self, reply: &HelloReply) -> Result<(), NetError> {
        let Endpoint { node, node_id, cluster, .. } = self.endpoint;
        let named = |node: NodeKind, id: u32| match node {
            NodeKind::Iod => format!("I/O daemon {id}"),
            _ => "a metadata server".to_string(),
        };
        if (reply.node, reply.node_id) != (*node, *node_id) {
            let what = named(reply.node, reply.node_id);
            return Err(self.refused(
                Status::StaleEpoch,
                format!("{what} answers there; try: check the address"),
            ));
        }
        match cluster {
            Some(cluster) if *cluster != reply.cluster => {
                let what = format!(
                    "it belongs to cluster {}, not {cluster}; try: check the address",
                    reply.cluster
                );
                Err(self.refused(Status::PermissionDenied, what))
            }
            _ => Ok(()),
        }
    }

    fn check_versions(&self, reply: &HelloReply) -> Result<(), NetError> {
        if reply.version != PROTOCOL_VERSION || reply.features & !self.hello.features != 0 {
            return Err(self.misbehaved("it chose a version or feature that was not offered"));
        }
        if self.hello.want_tls && !reply.tls {
            let what = "it does not offer TLS; try: enable TLS there, or set tls = \"never\" here";
            return Err(self.refused(Status::PermissionDenied, what.to_string()));
        }
        if !self.hello.want_tls && reply.tls {
            return Err(self.misbehaved("it began TLS that was not asked for"));
        }
        Ok(())
    }

    fn refused(&self, status: Status, detail: String) -> NetError {
        NetError::Refused { server: self.endpoint.name(), failure: Failure { status, detail } }
    }

    fn misbehaved(&self, what: &str) -> NetError {
        NetError::PeerMisbehaved { server: self.endpoint.name(), what: what.to_string() }
    }
}

/// A server's identity in the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerIdentity {
    /// The kind of server.
    pub node: NodeKind,
    /// Its stable I/O daemon id, 0 for the metadata server.
    pub node_id: u32,
    /// Its cluster.
    pub cluster: ClusterUuid,
    /// Requests that each connection may have in flight.
    pub credits: u32,
    /// When it uses TLS.
    pub tls: TlsPolicy,
}

/// A client that proved its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthenticatedClient {
    /// The final frame to send to the client.
    pub frame: Vec<u8>,
    /// The role that it may act in.
    pub role: Role,
    /// The key that it proved.
    pub credential: Credential,
    /// The connection's id. The client knows it once it has read the frame.
    pub connection: ConnectionId,
}

/// A handshake that ends here: the frame to send, and the reason for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The final frame to send to the client.
    pub frame: Vec<u8>,
    /// The reason.
    pub failure: Failure,
}

impl Refusal {
    /// A refusal of the frame `op`.
    pub fn new(op: u16, failure: Failure) -> Self {
        let mut frame = Vec::new();
        push_frame(&mut frame, op, FrameFlags::FINAL, 0, &encode_failure(&failure));
        Self { frame, failure }
    }
}

/// The server's side. Call the methods in their order.
#[derive(Debug)]
pub struct ServerHandshake {
    identity: ServerIdentity,
    loopback: bool,
    hellos: Option<(Hello, HelloReply)>,
}

impl ServerHandshake {
    /// A handshake with a peer that is on loopback or not.
    pub fn new(identity: ServerIdentity, loopback: bool) -> Self {
        Self { identity, loopback, hellos: None }
    }

    /// Takes the client's first frame. Returns the frame to send, and whether to set up TLS after
    /// it. `nonce` is fresh random bytes.
    ///
    /// # Errors [`Refusal`] for another version, for a frame that is not a hello, and for a client
    /// without TLS where this server requires it.
    pub fn hello(
        &mut self,
        header: &FrameHeader,
        body: &[u8],
        nonce: [u8; 32],
    ) -> Result<(Vec<u8>, bool), Refusal> {
        let hello: Hello = read_request(header, OP_HELLO, body)?;
        check_version(&hello)?;
        let tls = self.decide_tls(hello.want_tls)?;
        let ServerIdentity { node, node_id, cluster, .. } = self.identity;
        let reply = HelloReply {
            version: PROTOCOL_VERSION,
            features: 0,
            tls,
            node,
            cluster,
            node_id,
            nonce,
        };
        let mut frame = Vec::new();
        push_frame(
            &mut frame,
            OP_HELLO,
            FrameFlags::FINAL,
            header.request_id,
            &encode_success(&reply),
        );
        self.hellos = Some((hello, reply));
        Ok((frame, tls))
    }

    /// Takes the client's second frame. The client knows the connection's id as soon as the reply
    /// is sent; register the connection before that.
    ///
    /// # Errors
    /// [`Refusal`] when the authorizer refuses role or credential, or the proof does not match.
    pub fn auth(
        &self,
        header: &FrameHeader,
        body: &[u8],
        channel_binding: [u8; CHANNEL_BINDING_BYTES],
        authorizer: &dyn Authorizer,
    ) -> Result<AuthenticatedClient, Refusal> {
        let auth: Auth = read_request(header, OP_AUTH, body)?;
        let (hello, reply) = self.hellos.as_ref().expect("the hellos come before the proof");
        let transcript = Transcript::new(hello, reply, channel_binding);
        let refuse = |failure| Refusal::new(OP_AUTH, failure);
        let secret = authorizer.secret(auth.role, &auth.credential).map_err(refuse)?;
        let proof = transcript.check_auth(&auth, &secret).map_err(refuse)?;
        let connection = transcript.connection_id(&auth, &secret);
        let reply = AuthReply { proof, credits: self.identity.credits };
        let mut frame = Vec::new();
        push_frame(
            &mut frame,
            OP_AUTH,
            FrameFlags::FINAL,
            header.request_id,
            &encode_success(&reply),
        );
        Ok(AuthenticatedClient { frame, role: auth.role, credential: auth.credential, connection })
    }

    fn decide_tls(&self, wanted: bool) -> Result<bool, Refusal> {
        let demanded = match self.identity.tls {
            TlsPolicy::UnlessLoopback => !self.loopback,
            TlsPolicy::Always => true,
            TlsPolicy::Never => return Ok(false),
        };
        if demanded && !wanted {
            let why = "this server requires TLS; \
                       try: remove tls = \"never\" from the client's configuration";
            return Err(Refusal::new(OP_HELLO, Failure::new(Status::PermissionDenied, why)));
        }
        Ok(wanted)
    }
}

/// The refusal of bytes that are not a frame.
pub fn refuse_malformed(op: u16, error: WireError) -> Refusal {
    let status =
        if error == WireError::TooLong { Status::LimitExceeded } else { Status::Malformed };
    Refusal::new(op, Failure::new(status, error.to_string()))
}

fn check_version(hello: &Hello) -> Result<(), Refusal> {
    if (hello.version_min..=hello.version_max).contains(&PROTOCOL_VERSION) {
        return Ok(());
    }
    let (min, max) = (hello.version_min, hello.version_max);
    let why = format!(
        "the client speaks protocol versions {min} to {max}, this server {PROTOCOL_VERSION}; \
         try: update the older side"
    );
    Err(Refusal::new(OP_HELLO, Failure::new(Status::UnknownMessage, why)))
}

fn read_request<R: Wire>(header: &FrameHeader, op: u16, body: &[u8]) -> Result<R, Refusal> {
    if header.op != op || header.flags != FrameFlags::REQUEST || header.payload_bytes != 0 {
        let why = format!("message {:#06x} where the handshake's {op:#06x} belongs", header.op);
        return Err(Refusal::new(op, Failure::new(Status::UnknownMessage, why)));
    }
    R::from_bytes(body).map_err(|error| refuse_malformed(op, error))
}

fn request_frame(op: u16, message: &impl Wire) -> Vec<u8> {
    let mut frame = Vec::new();
    push_frame(&mut frame, op, FrameFlags::REQUEST, 0, &message.to_bytes());
    frame
}
