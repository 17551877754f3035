//! Clients, sessions and connections.

use bytes::Bytes;

use crate::nfs4::args::{ChannelAttributes, StateProtectOps};
use crate::nfs4::types::{
    ClientId, ImplementationId, MESSAGE_LIMITED, OPAQUE_BYTES_MAX, SequenceId, ServerOwner,
    SessionId, SlotId,
};
use crate::nfs4::{CreateSessionFlags, ExchangeIdFlags, SequenceStatus};
use crate::xdr::{xdr_enum, xdr_struct, xdr_union};

/// Maximum RPCSEC_GSS handles of SSV in EXCHANGE_ID's result.
pub const GSS_HANDLES_MAX: usize = 1024;

xdr_struct! {
    /// `SEQUENCE4resok`. RFC 8881 18.46.2.
    #[derive(Copy)]
    pub struct SequenceResult {
        /// The session.
        pub session_id: SessionId,
        /// Sequence number of the slot.
        pub sequence_id: SequenceId,
        /// The slot.
        pub slot_id: SlotId,
        /// Highest slot that the server accepts.
        pub highest_slot_id: SlotId,
        /// Highest slot that the client should use.
        pub target_highest_slot_id: SlotId,
        /// State of the client's lease and callbacks.
        pub status_flags: SequenceStatus,
    }

    /// `EXCHANGE_ID4resok`. RFC 8881 18.35.2.
    pub struct ExchangeIdResult {
        /// The client.
        pub client_id: ClientId,
        /// Sequence number of the first CREATE_SESSION.
        pub sequence_id: SequenceId,
        /// Roles of the server, and whether the client is confirmed.
        pub flags: ExchangeIdFlags,
        /// How state is protected.
        pub state_protect: StateProtectResult,
        /// The server.
        pub server_owner: ServerOwner,
        /// Servers of one scope understand each other's state and file handles.
        pub server_scope: Bytes [OPAQUE_BYTES_MAX],
        /// The server's implementation.
        pub implementation: Option<ImplementationId>,
    }

    /// `ssv_prot_info4`.
    pub struct SsvInfo {
        /// Operations.
        pub ops: StateProtectOps,
        /// Index of the hash algorithm.
        pub hash_algorithm: u32,
        /// Index of the encryption algorithm.
        pub encryption_algorithm: u32,
        /// Bytes of the SSV.
        pub ssv_length: u32,
        /// Versions of the SSV that are kept.
        pub window: u32,
        /// RPCSEC_GSS handles.
        pub handles: Vec<GssHandle> [GSS_HANDLES_MAX],
    }

    /// `gsshandle4_t`.
    pub struct GssHandle {
        /// Its bytes.
        pub handle: Bytes [MESSAGE_LIMITED],
    }

    /// `CREATE_SESSION4resok`. RFC 8881 18.36.2.
    #[derive(Copy)]
    pub struct CreateSessionResult {
        /// The session.
        pub session_id: SessionId,
        /// Sequence number of the client's CREATE_SESSION.
        pub sequence: SequenceId,
        /// Granted wishes.
        pub flags: CreateSessionFlags,
        /// Limits of requests.
        pub fore_channel: ChannelAttributes,
        /// Limits of callbacks.
        pub back_channel: ChannelAttributes,
    }

    /// `BIND_CONN_TO_SESSION4resok`. RFC 8881 18.34.2.
    #[derive(Copy)]
    pub struct BindConnToSessionResult {
        /// The session.
        pub session_id: SessionId,
        /// Channels of the connection.
        pub direction: ChannelDirFromServer,
        /// Whether RDMA is used.
        pub use_rdma: bool,
    }

    /// `SET_SSV4resok`. RFC 8881 18.47.2.
    pub struct SetSsvResult {
        /// Digest of SEQUENCE's result.
        pub digest: Bytes [MESSAGE_LIMITED],
    }
}

xdr_union! {
    /// `state_protect4_r`.
    pub enum StateProtectResult {
        /// No protection.
        None = 0,
        /// The machine credential protects state.
        MachineCredential(StateProtectOps) = 1,
        /// A secret state verifier protects state.
        Ssv(SsvInfo) = 2,
    }
}

xdr_enum! {
    /// `channel_dir_from_server4`.
    pub enum ChannelDirFromServer {
        /// Requests.
        Fore = 1,
        /// Callbacks.
        Back = 2,
        /// Requests and callbacks.
        Both = 3,
    }
}
