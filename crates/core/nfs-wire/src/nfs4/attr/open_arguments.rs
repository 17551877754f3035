//! Which arguments of OPEN a server supports. RFC 9754.

use crate::nfs4::Bitmap;
use crate::xdr::xdr_struct;

xdr_struct! {
    /// `open_arguments4`: sets of the numbers that [`open_argument`] names.
    #[derive(Copy)]
    pub struct OpenArguments {
        /// Values of `share_access`, without wishes.
        pub share_access: Bitmap,
        /// Values of `share_deny`.
        pub share_deny: Bitmap,
        /// Wishes in `share_access`.
        pub share_access_want: Bitmap,
        /// Claims.
        pub open_claim: Bitmap,
        /// Ways to create a file.
        pub create_mode: Bitmap,
    }
}

/// Numbers in [`OpenArguments`]. `share_access`, `share_deny`, `open_claim` and `create_mode` have
/// the numbers of the values in OPEN.
pub mod open_argument {
    /// `OPEN_ARGS_SHARE_ACCESS_WANT_ANY_DELEG`.
    pub const WANT_ANY_DELEGATION: u32 = 3;
    /// `OPEN_ARGS_SHARE_ACCESS_WANT_NO_DELEG`.
    pub const WANT_NO_DELEGATION: u32 = 4;
    /// `OPEN_ARGS_SHARE_ACCESS_WANT_CANCEL`.
    pub const WANT_CANCEL: u32 = 5;
}
