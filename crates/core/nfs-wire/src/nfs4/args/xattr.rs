//! Extended attributes. RFC 8276.

use bytes::Bytes;

use crate::nfs4::types::MESSAGE_LIMITED;
use crate::xdr::{xdr_enum, xdr_struct};

xdr_struct! {
    /// `GETXATTR4args` and `REMOVEXATTR4args`. RFC 8276 8.4.1.1 and 8.4.4.1.
    pub struct XattrNameArgs {
        /// Name, without the prefix `user.`.
        pub name: Bytes [MESSAGE_LIMITED],
    }

    /// `SETXATTR4args`. RFC 8276 8.4.2.1.
    pub struct SetXattrArgs {
        /// Whether the attribute may or must exist.
        pub option: SetXattrOption,
        /// Name, without the prefix `user.`.
        pub name: Bytes [MESSAGE_LIMITED],
        /// Value.
        pub value: Bytes [MESSAGE_LIMITED],
    }

    /// `LISTXATTRS4args`. RFC 8276 8.4.3.1.
    #[derive(Copy)]
    pub struct ListXattrsArgs {
        /// Where to continue, or 0.
        pub cookie: u64,
        /// Maximum bytes of the result.
        pub max_count: u32,
    }
}

xdr_enum! {
    /// `setxattr_option4`.
    pub enum SetXattrOption {
        /// The attribute is created or replaced.
        Either = 0,
        /// An existing attribute is an error.
        Create = 1,
        /// A missing attribute is an error.
        Replace = 2,
    }
}
