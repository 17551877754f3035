//! Headers of RPC messages (RFC 5531 9), in both directions.
//!
//! ```text
//!   call  = xid · 0 · rpc version 2 · program · version · procedure · credential · verifier · args
//!   reply = xid · 1 · 0 accepted · verifier · status [· low · high]              [· results]
//!         | xid · 1 · 1 denied · 0 rpc mismatch · low · high
//!         | xid · 1 · 1 denied · 1 auth error · status
//! ```

#[cfg(test)]
mod tests;

use bytes::Bytes;
use thiserror::Error;

use super::auth::{AuthStatus, OpaqueAuth};
use crate::xdr::{Decoder, Encoder, UNIT_BYTES, Xdr, XdrError, xdr_enum};

/// The only version of the RPC protocol. RFC 5531 9.
pub const RPC_VERSION: u32 = 2;

/// The procedure of every program that does nothing. RFC 5531 12.
pub const NULL_PROCEDURE: u32 = 0;

/// Bytes of a call before its credential's flavour.
const CALL_FIXED_BYTES: usize = 6 * UNIT_BYTES;

xdr_enum! {
    /// Whether a message is a call or a reply. RFC 5531 9: `msg_type`.
    pub enum MessageType {
        /// A call.
        Call = 0,
        /// A reply.
        Reply = 1,
    }
}

impl MessageType {
    /// The transaction and the type of a message, which remains to be decoded.
    ///
    /// # Errors
    /// When `record` is no RPC message.
    pub fn peek(record: &[u8]) -> Result<(u32, Self), XdrError> {
        let unit = |at: usize| {
            let bytes = record.get(at..).and_then(|bytes| bytes.first_chunk());
            bytes.copied().map(u32::from_be_bytes).ok_or(XdrError::Truncated)
        };
        let (xid, value) = (unit(0)?, unit(UNIT_BYTES)?);
        let kind = Self::from_code(value);
        Ok((xid, kind.ok_or(XdrError::Invalid { what: "MessageType", value })?))
    }
}

/// The header of a call. RFC 5531 9: `call_body`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallHeader {
    /// The transaction. A reply has the same.
    pub xid: u32,
    /// The program, 100003 for NFS.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
    /// The user.
    pub credential: OpaqueAuth,
    /// The credential's proof, if its flavour has one.
    pub verifier: OpaqueAuth,
}

/// Why a message is no call that can be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The header is no call's header. There is no reply to it; the connection is to be closed.
    #[error("malformed call: {0}")]
    Malformed(#[from] XdrError),
    /// The RPC protocol has another version.
    #[error("RPC version {version} instead of {RPC_VERSION}")]
    RpcVersion {
        /// The call's transaction.
        xid: u32,
        /// The call's version.
        version: u32,
    },
    /// The credential or the verifier is too long.
    #[error("credential or verifier over the limit: {status:?}")]
    Auth {
        /// The call's transaction.
        xid: u32,
        /// The status for the reply.
        status: AuthStatus,
    },
}

impl CallError {
    /// The reply to the call, if it has one.
    pub fn reply(self) -> Option<ReplyHeader> {
        let (xid, denied) = match self {
            Self::Malformed(_) => return None,
            // RFC 5531 9: the lowest and the highest supported version.
            Self::RpcVersion { xid, .. } => {
                (xid, Denied::RpcMismatch { low: RPC_VERSION, high: RPC_VERSION })
            }
            Self::Auth { xid, status } => (xid, Denied::Auth(status)),
        };
        Some(ReplyHeader { xid, body: ReplyBody::Denied(denied) })
    }
}

impl CallHeader {
    /// Appends the header; the arguments follow it.
    pub fn encode(&self, to: &mut Encoder) {
        self.encode_signed_part(to);
        self.verifier.encode(to);
    }

    /// Appends the header without its verifier: the bytes over which the verifier of `RPCSEC_GSS`
    /// is computed. RFC 2203 5.3.1.
    pub fn encode_signed_part(&self, to: &mut Encoder) {
        to.u32(self.xid);
        MessageType::Call.encode(to);
        to.u32(RPC_VERSION);
        to.u32(self.program);
        to.u32(self.version);
        to.u32(self.procedure);
        self.credential.encode(to);
    }

    /// Length of what [`CallHeader::encode_signed_part`] writes, which is also where the verifier
    /// begins in a message that was decoded.
    pub fn signed_part_bytes(&self) -> usize {
        let body = self.credential.body.len().next_multiple_of(UNIT_BYTES);
        CALL_FIXED_BYTES + 2 * UNIT_BYTES + body
    }

    /// Reads a call's header; `from` continues with the arguments.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn decode(from: &mut Decoder) -> Result<Self, CallError> {
        let xid = from.u32()?;
        let kind = MessageType::decode(from)?;
        if kind != MessageType::Call {
            return Err(XdrError::Invalid { what: "call", value: kind.code() }.into());
        }
        let version = from.u32()?;
        if version != RPC_VERSION {
            return Err(CallError::RpcVersion { xid, version });
        }
        let (program, version, procedure) = (from.u32()?, from.u32()?, from.u32()?);
        let mut auth = |status| {
            OpaqueAuth::decode(from).map_err(|error| match error {
                XdrError::TooLong { .. } => CallError::Auth { xid, status },
                other => other.into(),
            })
        };
        let credential = auth(AuthStatus::BadCredential)?;
        let verifier = auth(AuthStatus::BadVerifier)?;
        Ok(Self { xid, program, version, procedure, credential, verifier })
    }

    /// The header of an accepted reply to this call.
    pub fn accepted(&self, verifier: OpaqueAuth, status: AcceptStatus) -> ReplyHeader {
        ReplyHeader { xid: self.xid, body: ReplyBody::Accepted { verifier, status } }
    }

    /// The reply that denies this call for its credential or verifier.
    pub fn denied(&self, status: AuthStatus) -> ReplyHeader {
        ReplyHeader { xid: self.xid, body: ReplyBody::Denied(Denied::Auth(status)) }
    }
}

/// A call as it arrived: its header, and the bytes that its credential's flavour protects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallMessage {
    /// The decoded header.
    pub header: CallHeader,
    /// What follows the header. With `RPCSEC_GSS` it remains to be checked and unwrapped.
    pub arguments: Bytes,
    /// The header without its verifier.
    signed_part: Bytes,
}

impl CallMessage {
    /// Decodes a call's header.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn decode(record: Bytes) -> Result<Self, CallError> {
        let mut from = Decoder::new(record.clone());
        let header = CallHeader::decode(&mut from)?;
        let signed_part = record.slice(..header.signed_part_bytes());
        Ok(Self { header, arguments: from.rest(), signed_part })
    }

    /// The bytes over which the verifier of `RPCSEC_GSS` is computed. RFC 2203 5.3.1.
    pub fn signed_part(&self) -> &[u8] {
        &self.signed_part
    }
}

/// How the server executed an accepted call. RFC 5531 9: `accept_stat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcceptStatus {
    /// The results follow.
    Success,
    /// The server does not have the program.
    ProgramUnavailable,
    /// The server has other versions of the program.
    ProgramMismatch {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// The program does not have the procedure.
    ProcedureUnavailable,
    /// The arguments cannot be decoded.
    GarbageArguments,
    /// Another error of the server, such as no memory.
    SystemError,
}

/// Why a call was not accepted. RFC 5531 9: `rejected_reply`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    /// The server has other versions of the RPC protocol.
    RpcMismatch {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// The credential or the verifier is refused.
    Auth(AuthStatus),
}

/// A reply after its transaction. RFC 5531 9: `reply_body`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplyBody {
    /// The credential is valid.
    Accepted {
        /// The server's proof, if the flavour has one.
        verifier: OpaqueAuth,
        /// How the call was executed.
        status: AcceptStatus,
    },
    /// The call was not executed.
    Denied(Denied),
}

/// The header of a reply. The results follow it after [`AcceptStatus::Success`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplyHeader {
    /// The call's transaction.
    pub xid: u32,
    /// The answer.
    pub body: ReplyBody,
}

impl Xdr for ReplyHeader {
    fn encode(&self, to: &mut Encoder) {
        to.u32(self.xid);
        MessageType::Reply.encode(to);
        match &self.body {
            ReplyBody::Accepted { verifier, status } => {
                to.u32(0);
                verifier.encode(to);
                status.encode(to);
            }
            ReplyBody::Denied(denied) => {
                to.u32(1);
                denied.encode(to);
            }
        }
    }

    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        let xid = from.u32()?;
        let kind = MessageType::decode(from)?;
        if kind != MessageType::Reply {
            return Err(XdrError::Invalid { what: "reply", value: kind.code() });
        }
        let body = match from.u32()? {
            0 => ReplyBody::Accepted {
                verifier: OpaqueAuth::decode(from)?,
                status: AcceptStatus::decode(from)?,
            },
            1 => ReplyBody::Denied(Denied::decode(from)?),
            value => return Err(XdrError::Invalid { what: "reply_stat", value }),
        };
        Ok(Self { xid, body })
    }
}

impl Xdr for AcceptStatus {
    fn encode(&self, to: &mut Encoder) {
        to.u32(match self {
            Self::Success => 0,
            Self::ProgramUnavailable => 1,
            Self::ProgramMismatch { .. } => 2,
            Self::ProcedureUnavailable => 3,
            Self::GarbageArguments => 4,
            Self::SystemError => 5,
        });
        if let Self::ProgramMismatch { low, high } = *self {
            to.u32(low);
            to.u32(high);
        }
    }

    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        Ok(match from.u32()? {
            0 => Self::Success,
            1 => Self::ProgramUnavailable,
            2 => Self::ProgramMismatch { low: from.u32()?, high: from.u32()? },
            3 => Self::ProcedureUnavailable,
            4 => Self::GarbageArguments,
            5 => Self::SystemError,
            value => return Err(XdrError::Invalid { what: "accept_stat", value }),
        })
    }
}

impl Xdr for Denied {
    fn encode(&self, to: &mut Encoder) {
        match *self {
            Self::RpcMismatch { low, high } => {
                to.u32(0);
                to.u32(low);
                to.u32(high);
            }
            Self::Auth(status) => {
                to.u32(1);
                status.encode(to);
            }
        }
    }

    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        Ok(match from.u32()? {
            0 => Self::RpcMismatch { low: from.u32()?, high: from.u32()? },
            1 => Self::Auth(AuthStatus::decode(from)?),
            value => return Err(XdrError::Invalid { what: "reject_stat", value }),
        })
    }
}
