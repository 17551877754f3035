//! Credentials and verifiers as every RPC message has them: a flavour and an opaque body.

use bytes::Bytes;

use super::message::CallHeader;
use crate::xdr::{Decoder, Encoder, Xdr, XdrError, xdr_enum};

/// Longest body of a credential or verifier. RFC 5531 8.2.
pub const AUTH_BODY_BYTES_MAX: usize = 400;

/// No authentication. RFC 5531 8.2.
pub const AUTH_NONE: u32 = 0;
/// The user and groups that the client states; see [`super::auth_sys`]. RFC 5531 appendix A.
pub const AUTH_SYS: u32 = 1;
/// GSS-API; see [`super::gss`]. RFC 2203 3.
pub const RPCSEC_GSS: u32 = 6;
/// The request to continue with TLS. RFC 9289 4.1.
pub const AUTH_TLS: u32 = 7;

/// The verifier's body in the reply of a server that continues with TLS. RFC 9289 4.1.
const STARTTLS: &[u8] = b"STARTTLS";

/// A credential or a verifier. RFC 5531 8.2: `opaque_auth`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpaqueAuth {
    /// [`AUTH_NONE`], [`AUTH_SYS`], [`RPCSEC_GSS`], [`AUTH_TLS`], or any other number.
    pub flavor: u32,
    /// At most [`AUTH_BODY_BYTES_MAX`] bytes.
    pub body: Bytes,
}

impl OpaqueAuth {
    /// `AUTH_NONE` with an empty body.
    pub const fn none() -> Self {
        Self { flavor: AUTH_NONE, body: Bytes::new() }
    }

    /// The verifier of a server that continues with TLS.
    pub const fn starttls() -> Self {
        // RFC 9289 4.1: the verifier's flavour is AUTH_NONE, its body the eight characters.
        Self { flavor: AUTH_NONE, body: Bytes::from_static(STARTTLS) }
    }

    /// Whether this verifier of a reply says that the server continues with TLS.
    pub fn is_starttls(&self) -> bool {
        self.flavor == AUTH_NONE && self.body == STARTTLS
    }
}

impl Xdr for OpaqueAuth {
    fn encode(&self, to: &mut Encoder) {
        debug_assert!(self.body.len() <= AUTH_BODY_BYTES_MAX, "the receiver refuses this body");
        to.u32(self.flavor);
        to.opaque(&self.body);
    }

    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        Ok(Self { flavor: from.u32()?, body: from.opaque(AUTH_BODY_BYTES_MAX)? })
    }
}

xdr_enum! {
    /// Why a call's credential or verifier is refused. RFC 5531 9: `auth_stat`.
    pub enum AuthStatus {
        /// No error.
        Ok = 0,
        /// The credential is malformed.
        BadCredential = 1,
        /// The client is to begin a new session.
        RejectedCredential = 2,
        /// The verifier is malformed.
        BadVerifier = 3,
        /// The verifier has expired or was used before.
        RejectedVerifier = 4,
        /// The flavour is too weak for this server or export.
        TooWeak = 5,
        /// The verifier of a reply is wrong; found by the client.
        InvalidResponse = 6,
        /// Another reason; found by the client.
        Failed = 7,
        /// `AUTH_KERB`: a Kerberos error.
        KerberosGeneric = 8,
        /// `AUTH_KERB`: the credential has expired.
        TimeExpired = 9,
        /// `AUTH_KERB`: a problem with the ticket file.
        TicketFile = 10,
        /// `AUTH_KERB`: the authenticator cannot be decoded.
        Decode = 11,
        /// `AUTH_KERB`: another network address than that of the ticket.
        NetworkAddress = 12,
        /// `RPCSEC_GSS`: no such context, or its credential is wrong. The client makes another.
        GssCredentialProblem = 13,
        /// `RPCSEC_GSS`: the context cannot be used further. The client makes another.
        GssContextProblem = 14,
    }
}

/// Checks a call with the flavour [`AUTH_TLS`]. After `Ok`, the reply has the verifier
/// [`OpaqueAuth::starttls`] if this server has TLS, else [`OpaqueAuth::none`].
///
/// # Errors
/// The status with which the call is to be denied. RFC 9289 4.1: only the NULL procedure, an empty
/// credential, and an empty verifier of `AUTH_NONE`.
pub fn check_starttls(call: &CallHeader) -> Result<(), AuthStatus> {
    if call.procedure != 0 || call.credential.flavor != AUTH_TLS || !call.credential.body.is_empty()
    {
        return Err(AuthStatus::BadCredential);
    }
    if call.verifier != OpaqueAuth::none() {
        return Err(AuthStatus::BadVerifier);
    }
    Ok(())
}
