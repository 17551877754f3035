//! The handshake: version, TLS or not, then key proofs in both directions, before any other
//! message.
//!
//! ```text
//!   client                                   server
//!     | Hello(versions, features, want TLS) --> |   plain frames
//!     | <-- HelloReply(version, TLS?, nonce)    |
//!     | <======== TLS 1.3, when agreed =======> |   keys are not certified: the proof below is
//!     | Auth(role, credential, nonce, proof) -> |   bound to the channel (RFC 9266 exporter)
//!     | <-- AuthReply(proof, credits)           |
//! ```
//!
//! Both proofs are HMACs of the whole transcript, including the TLS channel binding, under the key
//! that the credential names. A man in the middle, a replay, or removed TLS changes the transcript,
//! so the proof fails. An unauthenticated peer makes a server read at most two small frames.

use braid_types::{ClusterUuid, ConnectionId, Failure, KeyId, MdsEpoch, SessionId, Status};

use crate::{
    codec::{Decoder, Wire, WireError, wire_enum, wire_struct},
    key::{KEY_BYTES, Secret, constant_time_eq},
};

/// Bytes of the TLS exporter that binds the proof to its channel; zeros without TLS.
pub const CHANNEL_BINDING_BYTES: usize = 32;

/// Optional features, as bits. None is defined yet. Features that both sides know are used.
pub type Features = u64;

wire_enum! {
    /// The role of a peer, which limits the messages that it may send.
    pub enum Role {
        /// A client: file access.
        Client = 1,
        /// An I/O daemon to the metadata server: register, heartbeat.
        Iod = 2,
        /// The metadata server to an I/O daemon: truncate, delete, fence.
        Mds = 3,
        /// An administrator: keys, status, drain, fsck.
        Admin = 4,
    }

    /// The kind of a server.
    pub enum NodeKind {
        /// The metadata server.
        Mds = 1,
        /// An I/O daemon.
        Iod = 2,
    }
}

wire_struct! {
    /// First frame, from the client.
    pub struct Hello {
        /// Oldest protocol version that the client speaks.
        version_min: u16,
        /// Newest protocol version that the client speaks.
        version_max: u16,
        /// Features that the client knows.
        features: Features,
        /// Whether the client wants TLS.
        want_tls: bool,
    }

    /// First frame, from the server.
    pub struct HelloReply {
        /// The version that both will use.
        version: u16,
        /// Features that both know.
        features: Features,
        /// Whether TLS follows.
        tls: bool,
        /// The kind of server.
        node: NodeKind,
        /// Its cluster.
        cluster: ClusterUuid,
        /// Its stable I/O daemon id, 0 for the metadata server.
        node_id: u32,
        /// Fresh random bytes.
        nonce: [u8; 32],
    }

    /// A user's ticket: an identity that the holder of a client key vouches for.
    pub struct Ticket {
        /// The client key that vouches.
        key: KeyId,
        /// The session of the agent that issued it. The ticket starts no session after this session
        /// ended.
        agent_session: SessionId,
        /// Epoch of the metadata server when it was issued.
        epoch: MdsEpoch,
        /// User id.
        uid: u64,
        /// Primary group id.
        gid: u64,
        /// Supplementary groups.
        groups: Vec<u64>,
        /// Fresh random bytes.
        nonce: [u8; 16],
    }

    /// Second frame, from the client.
    pub struct Auth {
        /// The role that the client wants.
        role: Role,
        /// The key that it proves.
        credential: Credential,
        /// Fresh random bytes.
        nonce: [u8; 32],
        /// HMAC of the transcript.
        proof: [u8; KEY_BYTES],
    }

    /// Second frame, from the server (the success body of a final frame).
    pub struct AuthReply {
        /// HMAC of the transcript, for the other direction.
        proof: [u8; KEY_BYTES],
        /// Requests that the client may have in flight on this connection.
        credits: u32,
    }
}

impl Ticket {
    /// The ticket's own key, derived from the client key that vouches.
    pub fn secret(&self, client_key: &Secret) -> Secret {
        client_key.derive("braid ticket", &self.to_bytes())
    }
}

/// The key that a peer proves.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Credential {
    /// The server key: metadata server, I/O daemons, administrator.
    Server,
    /// A client key.
    Client(KeyId),
    /// A user's ticket.
    Ticket(Ticket),
    /// A client's session, for an I/O daemon.
    Session {
        /// The session.
        session: SessionId,
        /// The key that started it, or that vouched for its user.
        key: KeyId,
        /// The user whose ticket started it; `None`: the holder of the key.
        user: Option<u64>,
        /// Epoch of the metadata server in which the secret was issued.
        epoch: MdsEpoch,
    },
}

impl Credential {
    /// The key that proves this credential. Computed from the server key.
    pub fn secret(&self, server_key: &Secret) -> Secret {
        let client_key = |id: KeyId| server_key.derive("braid client key", &id.to_bytes());
        match self {
            Self::Server => server_key.clone(),
            Self::Client(id) => client_key(*id),
            Self::Ticket(ticket) => ticket.secret(&client_key(ticket.key)),
            Self::Session { .. } => server_key.derive("braid session", &self.to_bytes()),
        }
    }
}

impl Wire for Credential {
    const BYTES_MIN: usize = 1;
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Server => out.push(1),
            Self::Client(id) => {
                out.push(2);
                id.encode(out);
            }
            Self::Ticket(ticket) => {
                out.push(3);
                ticket.encode(out);
            }
            // Number 4 had no user.
            Self::Session { session, key, user, epoch } => {
                out.push(5);
                session.encode(out);
                key.encode(out);
                user.encode(out);
                epoch.encode(out);
            }
        }
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        match u8::decode(from)? {
            1 => Ok(Self::Server),
            2 => Ok(Self::Client(Wire::decode(from)?)),
            3 => Ok(Self::Ticket(Wire::decode(from)?)),
            5 => Ok(Self::Session {
                session: Wire::decode(from)?,
                key: Wire::decode(from)?,
                user: Wire::decode(from)?,
                epoch: Wire::decode(from)?,
            }),
            _ => Err(WireError::Unknown),
        }
    }
}

/// Everything that both sides sent before the proof. Each side builds it from the bytes it sent and
/// received.
#[derive(Clone, Debug)]
pub struct Transcript {
    hello: Vec<u8>,
    reply: Vec<u8>,
    channel_binding: [u8; CHANNEL_BINDING_BYTES],
}

impl Transcript {
    /// The transcript of a connection after the hellos, and after TLS is set up, if used.
    pub fn new(
        hello: &Hello,
        reply: &HelloReply,
        channel_binding: [u8; CHANNEL_BINDING_BYTES],
    ) -> Self {
        Self { hello: hello.to_bytes(), reply: reply.to_bytes(), channel_binding }
    }

    /// The client's second frame.
    pub fn auth(
        &self,
        role: Role,
        credential: Credential,
        secret: &Secret,
        nonce: [u8; 32],
    ) -> Auth {
        let mut auth = Auth { role, credential, nonce, proof: [0; KEY_BYTES] };
        auth.proof = self.mac(secret, "braid client proof", &auth);
        auth
    }

    /// Checks the client's proof. Returns the server's own proof.
    ///
    /// # Errors
    /// [`Status::AuthenticationFailed`], for every reason.
    pub fn check_auth(&self, auth: &Auth, secret: &Secret) -> Result<[u8; KEY_BYTES], Failure> {
        if constant_time_eq(&self.mac(secret, "braid client proof", auth), &auth.proof) {
            Ok(self.mac(secret, "braid server proof", auth))
        } else {
            Err(Failure::new(Status::AuthenticationFailed, "the proof does not match the key"))
        }
    }

    /// Whether the server proved the same key.
    pub fn check_reply(&self, auth: &Auth, reply: &AuthReply, secret: &Secret) -> bool {
        constant_time_eq(&self.mac(secret, "braid server proof", auth), &reply.proof)
    }

    /// The connection's id, derived from what both sides proved. A peer without the key cannot
    /// compute it. No two connections have the same id, since each side contributes fresh random
    /// bytes.
    pub fn connection_id(&self, auth: &Auth, secret: &Secret) -> ConnectionId {
        let mac = self.mac(secret, "braid connection id", auth);
        ConnectionId(std::array::from_fn(|at| mac[at]))
    }

    fn mac(&self, secret: &Secret, purpose: &str, auth: &Auth) -> [u8; KEY_BYTES] {
        let role = auth.role.to_bytes();
        let credential = auth.credential.to_bytes();
        let length = (credential.len() as u32).to_bytes();
        secret.mac(
            purpose,
            &[
                &self.hello,
                &self.reply,
                &self.channel_binding,
                &role,
                &length,
                &credential,
                &auth.nonce,
            ],
        )
    }
}
