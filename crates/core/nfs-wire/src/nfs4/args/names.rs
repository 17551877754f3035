//! File handles, directory entries and attributes.

use bytes::Bytes;

use crate::nfs4::types::{
    EncodedAttributes, FileHandle, MESSAGE_LIMITED, NfsFtype, SpecData, StateId, Verifier,
};
use crate::nfs4::{AccessBits, Bitmap};
use crate::xdr::{Decoder, Encoder, Xdr, XdrBounded, XdrError, xdr_enum, xdr_struct};

xdr_struct! {
    /// `ACCESS4args`. RFC 8881 18.1.1.
    #[derive(Copy)]
    pub struct AccessArgs {
        /// Rights to check.
        pub access: AccessBits,
    }

    /// `PUTFH4args`. RFC 8881 18.19.1.
    pub struct PutFhArgs {
        /// New current file handle.
        pub handle: FileHandle,
    }

    /// `LOOKUP4args`. RFC 8881 18.13.1.
    pub struct LookupArgs {
        /// Name in the current directory.
        pub name: Bytes [MESSAGE_LIMITED],
    }

    /// `CREATE4args`. RFC 8881 18.4.1.
    pub struct CreateArgs {
        /// Type of the object.
        pub object: CreateObject,
        /// Its name in the current directory.
        pub name: Bytes [MESSAGE_LIMITED],
        /// Its attributes.
        pub attributes: EncodedAttributes,
    }

    /// `LINK4args`. RFC 8881 18.9.1. The saved file handle is the object.
    pub struct LinkArgs {
        /// New name in the current directory.
        pub new_name: Bytes [MESSAGE_LIMITED],
    }

    /// `REMOVE4args`. RFC 8881 18.25.1.
    pub struct RemoveArgs {
        /// Name in the current directory.
        pub name: Bytes [MESSAGE_LIMITED],
    }

    /// `RENAME4args`. RFC 8881 18.26.1.
    pub struct RenameArgs {
        /// Name in the saved directory.
        pub old_name: Bytes [MESSAGE_LIMITED],
        /// Name in the current directory.
        pub new_name: Bytes [MESSAGE_LIMITED],
    }

    /// `READDIR4args`. RFC 8881 18.23.1.
    #[derive(Copy)]
    pub struct ReadDirArgs {
        /// Cookie of the last entry that the client has, or 0.
        pub cookie: u64,
        /// Verifier of a former result, or zeros.
        pub verifier: Verifier,
        /// Maximum bytes of names and cookies; a hint.
        pub dir_count: u32,
        /// Maximum bytes of the result.
        pub max_count: u32,
        /// Wanted attributes of each entry.
        pub attributes: Bitmap,
    }

    /// `GETATTR4args`. RFC 8881 18.7.1.
    #[derive(Copy)]
    pub struct GetAttrArgs {
        /// Wanted attributes.
        pub attributes: Bitmap,
    }

    /// `SETATTR4args`. RFC 8881 18.30.1.
    pub struct SetAttrArgs {
        /// An open for writing, or a special one; matters when the size is set.
        pub state_id: StateId,
        /// New values.
        pub attributes: EncodedAttributes,
    }

    /// `VERIFY4args` and `NVERIFY4args`. RFC 8881 18.31.1 and 18.15.1.
    pub struct VerifyArgs {
        /// Attributes to compare.
        pub attributes: EncodedAttributes,
    }

    /// `SECINFO4args`. RFC 8881 18.29.1.
    pub struct SecInfoArgs {
        /// Name in the current directory.
        pub name: Bytes [MESSAGE_LIMITED],
    }

    /// `SECINFO_NO_NAME4args`. RFC 8881 18.45.1.
    #[derive(Copy)]
    pub struct SecInfoNoNameArgs {
        /// Which object.
        pub style: SecInfoStyle,
    }

    /// `OPENATTR4args`. RFC 8881 18.17.1.
    #[derive(Copy)]
    pub struct OpenAttrArgs {
        /// Whether to create the directory of named attributes.
        pub create_dir: bool,
    }
}

xdr_enum! {
    /// `secinfo_style4`.
    pub enum SecInfoStyle {
        /// The current file handle.
        CurrentFh = 0,
        /// Its parent directory.
        Parent = 1,
    }
}

/// `createtype4`: the type of an object that CREATE makes, with its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CreateObject {
    /// A symbolic link with this target.
    Link(Bytes),
    /// A block device.
    Block(SpecData),
    /// A character device.
    Character(SpecData),
    /// A socket, named pipe or directory; the server refuses any other type with
    /// NFS4ERR_BADTYPE (RFC 8881 18.4.3).
    Other(NfsFtype),
}

impl CreateObject {
    /// The type.
    pub fn file_type(&self) -> NfsFtype {
        match self {
            Self::Link(_) => NfsFtype::Link,
            Self::Block(_) => NfsFtype::Block,
            Self::Character(_) => NfsFtype::Character,
            Self::Other(file_type) => *file_type,
        }
    }
}

impl Xdr for CreateObject {
    fn encode(&self, to: &mut Encoder) {
        self.file_type().encode(to);
        match self {
            Self::Link(target) => target.encode_bounded(to),
            Self::Block(device) | Self::Character(device) => device.encode(to),
            Self::Other(_) => {}
        }
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        match NfsFtype::decode(from)? {
            NfsFtype::Link => from.opaque(MESSAGE_LIMITED).map(Self::Link),
            NfsFtype::Block => SpecData::decode(from).map(Self::Block),
            NfsFtype::Character => SpecData::decode(from).map(Self::Character),
            other => Ok(Self::Other(other)),
        }
    }
}
