//! Clients, sessions and connections.

use bytes::Bytes;

use crate::nfs4::types::{
    ClientId, ClientOwner, ImplementationId, MESSAGE_LIMITED, SequenceId, SessionId, SlotId,
};
use crate::nfs4::{Bitmap, CreateSessionFlags, ExchangeIdFlags};
use crate::rpc::auth_sys::AuthSys;
use crate::xdr::{xdr_enum, xdr_struct, xdr_union};

/// Maximum algorithms that a client offers for SSV; a few exist.
pub const ALGORITHMS_MAX: usize = 64;
/// Maximum security parameters of callbacks in one message: one for each flavour and handle.
pub const CALLBACK_SECURITY_MAX: usize = 64;

xdr_struct! {
    /// `SEQUENCE4args`. RFC 8881 18.46.1.
    #[derive(Copy)]
    pub struct SequenceArgs {
        /// The session.
        pub session_id: SessionId,
        /// Sequence number of the slot.
        pub sequence_id: SequenceId,
        /// The slot.
        pub slot_id: SlotId,
        /// Highest slot that the client uses.
        pub highest_slot_id: SlotId,
        /// Whether the reply must be cached.
        pub cache_this: bool,
    }

    /// `EXCHANGE_ID4args`. RFC 8881 18.35.1.
    pub struct ExchangeIdArgs {
        /// The client.
        pub client_owner: ClientOwner,
        /// Wishes.
        pub flags: ExchangeIdFlags,
        /// How state is protected.
        pub state_protect: StateProtectArgs,
        /// The client's implementation.
        pub implementation: Option<ImplementationId>,
    }

    /// `state_protect_ops4`.
    #[derive(Copy)]
    pub struct StateProtectOps {
        /// Operations that need the machine credential.
        pub must_enforce: Bitmap,
        /// Operations that may use the machine credential.
        pub must_allow: Bitmap,
    }

    /// `ssv_sp_parms4`.
    pub struct SsvParameters {
        /// Operations.
        pub ops: StateProtectOps,
        /// Object identifiers of hash algorithms.
        pub hash_algorithms: Vec<Oid> [ALGORITHMS_MAX],
        /// Object identifiers of encryption algorithms.
        pub encryption_algorithms: Vec<Oid> [ALGORITHMS_MAX],
        /// Versions of the SSV that are kept.
        pub window: u32,
        /// Number of RPCSEC_GSS handles.
        pub gss_handles: u32,
    }

    /// `sec_oid4`: a DER-encoded object identifier.
    pub struct Oid {
        /// Its bytes.
        pub der: Bytes [MESSAGE_LIMITED],
    }

    /// `channel_attrs4`. RFC 8881 18.36.1.
    #[derive(Copy)]
    pub struct ChannelAttributes {
        /// Bytes of padding before a request's header.
        pub header_pad_size: u32,
        /// Maximum bytes of a request.
        pub max_request_size: u32,
        /// Maximum bytes of a reply.
        pub max_response_size: u32,
        /// Maximum bytes of a cached reply.
        pub max_response_size_cached: u32,
        /// Maximum operations of a compound.
        pub max_operations: u32,
        /// Slots.
        pub max_requests: u32,
        /// RDMA inbound read queue depth.
        pub rdma_ird: Option<u32>,
    }

    /// `CREATE_SESSION4args`. RFC 8881 18.36.1.
    pub struct CreateSessionArgs {
        /// The client.
        pub client_id: ClientId,
        /// Sequence number of the client's CREATE_SESSION.
        pub sequence: SequenceId,
        /// Wishes.
        pub flags: CreateSessionFlags,
        /// Wanted limits of requests.
        pub fore_channel: ChannelAttributes,
        /// Wanted limits of callbacks.
        pub back_channel: ChannelAttributes,
        /// RPC program number of callbacks.
        pub callback_program: u32,
        /// Credentials of callbacks.
        pub callback_security: Vec<CallbackSecurity> [CALLBACK_SECURITY_MAX],
    }

    /// `gss_cb_handles4`.
    pub struct GssCallbackHandles {
        /// Service.
        pub service: GssService,
        /// The server's handle.
        pub handle_from_server: Bytes [MESSAGE_LIMITED],
        /// The client's handle.
        pub handle_from_client: Bytes [MESSAGE_LIMITED],
    }

    /// `BACKCHANNEL_CTL4args`. RFC 8881 18.33.1.
    pub struct BackchannelCtlArgs {
        /// RPC program number of callbacks.
        pub callback_program: u32,
        /// Credentials of callbacks.
        pub security: Vec<CallbackSecurity> [CALLBACK_SECURITY_MAX],
    }

    /// `BIND_CONN_TO_SESSION4args`. RFC 8881 18.34.1.
    #[derive(Copy)]
    pub struct BindConnToSessionArgs {
        /// The session.
        pub session_id: SessionId,
        /// Wanted channels.
        pub direction: ChannelDirFromClient,
        /// Whether to use RDMA.
        pub use_rdma: bool,
    }

    /// `DESTROY_SESSION4args`. RFC 8881 18.37.1.
    #[derive(Copy)]
    pub struct DestroySessionArgs {
        /// The session.
        pub session_id: SessionId,
    }

    /// `DESTROY_CLIENTID4args`. RFC 8881 18.50.1.
    #[derive(Copy)]
    pub struct DestroyClientIdArgs {
        /// The client.
        pub client_id: ClientId,
    }

    /// `RECLAIM_COMPLETE4args`. RFC 8881 18.51.1.
    #[derive(Copy)]
    pub struct ReclaimCompleteArgs {
        /// Whether it concerns only the file system of the current file handle.
        pub one_fs: bool,
    }

    /// `SET_SSV4args`. RFC 8881 18.47.1.
    pub struct SetSsvArgs {
        /// The new SSV, exclusive-ored with the old one.
        pub ssv: Bytes [MESSAGE_LIMITED],
        /// Digest of SEQUENCE's arguments.
        pub digest: Bytes [MESSAGE_LIMITED],
    }
}

xdr_union! {
    /// `state_protect4_a`.
    pub enum StateProtectArgs {
        /// No protection.
        None = 0,
        /// The machine credential protects state.
        MachineCredential(StateProtectOps) = 1,
        /// A secret state verifier protects state.
        Ssv(SsvParameters) = 2,
    }

    /// `callback_sec_parms4`.
    pub enum CallbackSecurity {
        /// AUTH_NONE.
        None = 0,
        /// AUTH_SYS.
        Sys(AuthSys) = 1,
        /// RPCSEC_GSS.
        Gss(GssCallbackHandles) = 6,
    }
}

xdr_enum! {
    /// `rpc_gss_svc_t`: protection of RPCSEC_GSS messages. RFC 2203 5.2.2.
    pub enum GssService {
        /// Only the header is protected.
        None = 1,
        /// Messages have a checksum.
        Integrity = 2,
        /// Messages are encrypted.
        Privacy = 3,
    }

    /// `channel_dir_from_client4`.
    pub enum ChannelDirFromClient {
        /// Requests only.
        Fore = 1,
        /// Callbacks only.
        Back = 2,
        /// Requests, and callbacks where the server supports it.
        ForeOrBoth = 3,
        /// Callbacks, and requests where the server supports it.
        BackOrBoth = 7,
    }
}
