//! The credential of `RPCSEC_GSS`, and the arguments and results of context creation.

use bytes::Bytes;

use crate::rpc::auth::{AUTH_BODY_BYTES_MAX, AuthStatus, OpaqueAuth, RPCSEC_GSS};
use crate::xdr::{Decoder, Encoder, Xdr, xdr_enum, xdr_struct};

/// The only version that Linux uses.
const GSS_VERSION: u32 = 1;

/// First sequence number that a context cannot use: its client makes another context before.
/// RFC 2203 5.3.3.1: `MAXSEQ`.
pub const SEQUENCE_MAX: u32 = 0x8000_0000;

/// Longest token of context creation. A Kerberos ticket with the group list of a large Active
/// Directory domain has up to 48 KiB.
pub const GSS_TOKEN_BYTES_MAX: usize = 64 << 10;

xdr_enum! {
    /// What a call is for. RFC 2203 5: `rpc_gss_proc_t`.
    pub enum GssProcedure {
        /// It executes the RPC procedure.
        Data = 0,
        /// It begins a context.
        Init = 1,
        /// It continues the creation of a context.
        ContinueInit = 2,
        /// It ends a context.
        Destroy = 3,
    }

    /// How arguments and results are protected. RFC 2203 5: `rpc_gss_service_t`.
    pub enum Service {
        /// Not at all: the header alone is authenticated. Linux: `sec=krb5`.
        None = 1,
        /// With a MIC. Linux: `sec=krb5i`.
        Integrity = 2,
        /// With encryption. Linux: `sec=krb5p`.
        Privacy = 3,
    }
}

xdr_struct! {
    /// The fields of a credential after its version. RFC 2203 5: `rpc_gss_cred_vers_1_t`.
    pub struct GssCredential {
        /// What the call is for.
        pub procedure: GssProcedure,
        /// Number of the call in its context; undefined in context creation.
        pub sequence: u32,
        /// A [`Service`]; undefined in context creation.
        pub service: u32,
        /// The context; empty in the first call of its creation.
        pub handle: Bytes [AUTH_BODY_BYTES_MAX],
    }

    /// Arguments of INIT and CONTINUE_INIT. RFC 2203 5.2.2: `rpc_gss_init_arg`.
    pub struct InitArguments {
        /// The mechanism's token.
        pub token: Bytes [GSS_TOKEN_BYTES_MAX],
    }

    /// Results of INIT and CONTINUE_INIT. RFC 2203 5.2.3.1: `rpc_gss_init_res`.
    pub struct InitResult {
        /// The context; empty after a failure.
        pub handle: Bytes [AUTH_BODY_BYTES_MAX],
        /// Major status of the mechanism: complete, continue needed, or an error.
        pub major: u32,
        /// Minor status of the mechanism.
        pub minor: u32,
        /// How many calls the client may have in flight.
        pub sequence_window: u32,
        /// The mechanism's token.
        pub token: Bytes [GSS_TOKEN_BYTES_MAX],
    }
}

impl GssCredential {
    /// The fields of an `RPCSEC_GSS` credential.
    ///
    /// # Errors
    /// [`AuthStatus::RejectedCredential`] for another version,
    /// [`AuthStatus::BadCredential`] for another flavour or a malformed body.
    pub fn from_credential(credential: &OpaqueAuth) -> Result<Self, AuthStatus> {
        if credential.flavor != RPCSEC_GSS {
            return Err(AuthStatus::BadCredential);
        }
        let mut from = Decoder::new(credential.body.clone());
        let version = from.u32().map_err(|_| AuthStatus::BadCredential)?;
        if version != GSS_VERSION {
            return Err(AuthStatus::RejectedCredential); // RFC 2203 5.1, erratum 4067
        }
        Self::from_bytes(from.rest()).map_err(|_| AuthStatus::BadCredential)
    }

    /// The credential with these fields.
    pub fn to_credential(&self) -> OpaqueAuth {
        let mut to = Encoder::new();
        to.u32(GSS_VERSION);
        self.encode(&mut to);
        OpaqueAuth { flavor: RPCSEC_GSS, body: to.to_vec().into() }
    }
}
