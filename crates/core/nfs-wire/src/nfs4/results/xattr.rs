//! Extended attributes. RFC 8276.

use bytes::Bytes;

use crate::nfs4::types::MESSAGE_LIMITED;
use crate::xdr::{Decoder, Encoder, Xdr, XdrBounded, XdrError, xdr_struct};

/// Maximum names of a LISTXATTRS: Linux limits the list of a file to 64 KiB.
pub const XATTR_NAMES_MAX: usize = 65_536;

xdr_struct! {
    /// `GETXATTR4res` of a success. RFC 8276 8.4.1.2.
    pub struct GetXattrResult {
        /// The value.
        pub value: Bytes [MESSAGE_LIMITED],
    }

    /// `LISTXATTRS4resok`. RFC 8276 8.4.3.2.
    pub struct ListXattrsResult {
        /// Where to continue.
        pub cookie: u64,
        /// Names without the prefix `user.`.
        pub names: Vec<XattrName> [XATTR_NAMES_MAX],
        /// Whether there are no further names.
        pub eof: bool,
    }
}

/// `xattrkey4`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct XattrName(pub Bytes);

impl Xdr for XattrName {
    fn encode(&self, to: &mut Encoder) {
        self.0.encode_bounded(to);
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        from.opaque(MESSAGE_LIMITED).map(Self)
    }
}
