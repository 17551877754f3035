//! File handles, directory entries and attributes.

use bytes::Bytes;

use super::OpResult;
use crate::nfs4::args::{GssService, Oid};
use crate::nfs4::types::{ChangeInfo, EncodedAttributes, FileHandle, MESSAGE_LIMITED};
use crate::nfs4::{AccessBits, Bitmap, NfsStatus};
use crate::xdr::{Decoder, Encoder, Xdr, XdrBounded, XdrError, xdr_struct};

/// Maximum security flavours of a SECINFO.
pub const FLAVOURS_MAX: usize = 256;
/// `RPCSEC_GSS`: the only flavour with parameters. RFC 2203 5.
const RPCSEC_GSS: u32 = 6;

xdr_struct! {
    /// `ACCESS4resok`. RFC 8881 18.1.2.
    #[derive(Copy)]
    pub struct AccessResult {
        /// Rights that the server can check.
        pub supported: AccessBits,
        /// Rights that the caller has.
        pub access: AccessBits,
    }

    /// `GETFH4resok`. RFC 8881 18.8.2.
    pub struct GetFhResult {
        /// The current file handle.
        pub handle: FileHandle,
    }

    /// `CREATE4resok`. RFC 8881 18.4.2.
    #[derive(Copy)]
    pub struct CreateResult {
        /// Change of the directory.
        pub change: ChangeInfo,
        /// Attributes that were set.
        pub attributes_set: Bitmap,
    }

    /// `LINK4resok` and `REMOVE4resok`. RFC 8881 18.9.2 and 18.25.2.
    #[derive(Copy)]
    pub struct ChangeResult {
        /// Change of the directory.
        pub change: ChangeInfo,
    }

    /// `RENAME4resok`. RFC 8881 18.26.2.
    #[derive(Copy)]
    pub struct RenameResult {
        /// Change of the source directory.
        pub source: ChangeInfo,
        /// Change of the target directory.
        pub target: ChangeInfo,
    }

    /// `READLINK4resok`. RFC 8881 18.24.2.
    pub struct ReadLinkResult {
        /// Target of the link.
        pub target: Bytes [MESSAGE_LIMITED],
    }

    /// `GETATTR4resok`. RFC 8881 18.7.2. Also `CB_GETATTR4resok`, RFC 8881 20.1.2.
    pub struct GetAttrResult {
        /// Attributes and their values.
        pub attributes: EncodedAttributes,
    }

    /// `rpcsec_gss_info`. RFC 8881 18.29.2.
    pub struct GssInfo {
        /// Mechanism.
        pub oid: Oid,
        /// Quality of protection.
        pub quality: u32,
        /// Service.
        pub service: GssService,
    }
}

/// `secinfo4`: an accepted security flavour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SecInfo {
    /// A flavour without parameters, by its number: `AUTH_NONE` is 0, `AUTH_SYS` is 1. Never 6.
    Flavour(u32),
    /// `RPCSEC_GSS`.
    Gss(GssInfo),
}

impl Xdr for SecInfo {
    fn encode(&self, to: &mut Encoder) {
        match self {
            Self::Flavour(number) => to.u32(*number),
            Self::Gss(info) => {
                to.u32(RPCSEC_GSS);
                info.encode(to);
            }
        }
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        match from.u32()? {
            RPCSEC_GSS => GssInfo::decode(from).map(Self::Gss),
            number => Ok(Self::Flavour(number)),
        }
    }
}

/// `SECINFO4resok`: flavours in the order of the server's preference. RFC 8881 18.29.2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecInfoResult(pub Vec<SecInfo>);

impl Xdr for SecInfoResult {
    fn encode(&self, to: &mut Encoder) {
        self.0.encode_bounded(to);
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        XdrBounded::decode_bounded(from, FLAVOURS_MAX).map(Self)
    }
}

/// `SETATTR4res`: the attributes follow any status. RFC 8881 18.30.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetAttrResult {
    /// The status.
    pub status: NfsStatus,
    /// Attributes that were set, also when others failed.
    pub attributes_set: Bitmap,
}

impl Xdr for SetAttrResult {
    fn encode(&self, to: &mut Encoder) {
        self.status.encode(to);
        self.attributes_set.encode(to);
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        Ok(Self { status: Xdr::decode(from)?, attributes_set: Xdr::decode(from)? })
    }
}

impl OpResult for SetAttrResult {
    fn status(&self) -> NfsStatus {
        self.status
    }
    fn failure(status: NfsStatus) -> Self {
        Self { status, attributes_set: Bitmap::new() }
    }
}
