//! The attributes that this crate knows. Absent are `sec_label`, `dacl`, `sacl`, `fs_locations`,
//! retention, `archive`, `hidden`, `system`, `mimetype`, `time_backup`, `layout_hint`, `offline`,
//! and the delegated times of RFC 9754.

use bytes::Bytes;

use super::{MdsThreshold, OpenArguments};
use crate::nfs4::types::{
    ChangeAttrType, FileHandle, FsId, LayoutType, MESSAGE_LIMITED, MaskedMode, ModeUmask, NfsFtype,
    NfsTime, SetTime, SpecData,
};
use crate::nfs4::{ACES_MAX, Ace, AclSupport, Bitmap, NfsStatus};
use crate::xdr::{Decoder, Encoder, XdrError, xdr_field};

/// Maximum layout types of a file system or file; six are registered.
const LAYOUT_TYPES_MAX: usize = 64;

macro_rules! attributes {
    ($(
        $(#[$doc:meta])*
        $constant:ident $field:ident : $ty:ty $([$max:expr])? = $number:literal,
    )*) => {
        /// Numbers of attributes. RFC 8881 5.6 and 5.7.
        pub mod attribute {
            use crate::nfs4::Bitmap;

            $( $(#[$doc])* pub const $constant: u32 = $number; )*

            /// Every attribute of [`Attributes`](super::Attributes).
            pub const ALL: Bitmap = Bitmap::of(&[$( $number ),*]);

            /// Attributes that SETATTR, CREATE and OPEN can set.
            pub const SETTABLE: Bitmap = Bitmap::of(&[
                SIZE, ACL, MODE, OWNER, OWNER_GROUP, TIME_ACCESS_SET, TIME_CREATE, TIME_MODIFY_SET,
                MODE_SET_MASKED, MODE_UMASK,
            ]);
        }

        /// Values of attributes; none where an attribute is not known, not supported or not
        /// requested.
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct Attributes {
            $( $(#[$doc])* pub $field: Option<$ty>, )*
        }

        impl Attributes {
            /// The attributes that have a value.
            pub fn mask(&self) -> Bitmap {
                let mut mask = Bitmap::new();
                $( if self.$field.is_some() {
                    mask.set($number);
                } )*
                mask
            }

            /// Appends the value of attribute `number`, if there is one.
            pub(super) fn encode_value(&self, number: u32, to: &mut Encoder) {
                match number {
                    $( $number => {
                        if let Some(value) = &self.$field {
                            xdr_field!(@encode value, to, $($max)?);
                        }
                    } )*
                    _ => {}
                }
            }

            /// Reads the value of attribute `number`; false when its type is not known.
            pub(super) fn decode_value(
                &mut self,
                number: u32,
                from: &mut Decoder,
            ) -> Result<bool, XdrError> {
                match number {
                    $( $number => {
                        self.$field = Some(xdr_field!(@decode $ty, from, $($max)?)?);
                    } )*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
}

attributes! {
    /// Attributes that the file system supports.
    SUPPORTED_ATTRS supported_attrs: Bitmap = 0,
    /// Type of the object.
    TYPE file_type: NfsFtype = 1,
    /// How long file handles are valid: 0 means permanently.
    FH_EXPIRE_TYPE fh_expire_type: u32 = 2,
    /// Change number; different after each change.
    CHANGE change: u64 = 3,
    /// Size in bytes.
    SIZE size: u64 = 4,
    /// Whether hard links are supported.
    LINK_SUPPORT link_support: bool = 5,
    /// Whether symbolic links are supported.
    SYMLINK_SUPPORT symlink_support: bool = 6,
    /// Whether the object has named attributes.
    NAMED_ATTR named_attr: bool = 7,
    /// Number of the file system.
    FSID fsid: FsId = 8,
    /// Whether different file handles are always different objects.
    UNIQUE_HANDLES unique_handles: bool = 9,
    /// Duration of leases in seconds.
    LEASE_TIME lease_time: u32 = 10,
    /// Why READDIR could not get the other attributes.
    RDATTR_ERROR rdattr_error: NfsStatus = 11,
    /// Access control list.
    ACL acl: Vec<Ace> [ACES_MAX] = 12,
    /// Supported types of access control entries.
    ACLSUPPORT aclsupport: AclSupport = 13,
    /// Whether times can be set.
    CANSETTIME cansettime: bool = 15,
    /// Whether names differ only in case are the same.
    CASE_INSENSITIVE case_insensitive: bool = 16,
    /// Whether the case of names is kept.
    CASE_PRESERVING case_preserving: bool = 17,
    /// Whether only a privileged caller can change the owner.
    CHOWN_RESTRICTED chown_restricted: bool = 18,
    /// File handle.
    FILEHANDLE filehandle: FileHandle = 19,
    /// Number of the object in its file system.
    FILEID fileid: u64 = 20,
    /// Files that the caller can create.
    FILES_AVAIL files_avail: u64 = 21,
    /// Files that can be created.
    FILES_FREE files_free: u64 = 22,
    /// All files, existing or not.
    FILES_TOTAL files_total: u64 = 23,
    /// Whether the attributes of the file system are the same for all its objects.
    HOMOGENEOUS homogeneous: bool = 26,
    /// Maximum size of a file in bytes.
    MAXFILESIZE maxfilesize: u64 = 27,
    /// Maximum links of an object.
    MAXLINK maxlink: u32 = 28,
    /// Maximum bytes of a name.
    MAXNAME maxname: u32 = 29,
    /// Maximum bytes of a READ.
    MAXREAD maxread: u64 = 30,
    /// Maximum bytes of a WRITE.
    MAXWRITE maxwrite: u64 = 31,
    /// Permission bits.
    MODE mode: u32 = 33,
    /// Whether names that are too long are refused.
    NO_TRUNC no_trunc: bool = 34,
    /// Number of links.
    NUMLINKS numlinks: u32 = 35,
    /// Owner: `user@domain`, or a number as text.
    OWNER owner: Bytes [MESSAGE_LIMITED] = 36,
    /// Group of the owner: `group@domain`, or a number as text.
    OWNER_GROUP owner_group: Bytes [MESSAGE_LIMITED] = 37,
    /// Bytes up to the hard limit of the quota.
    QUOTA_AVAIL_HARD quota_avail_hard: u64 = 38,
    /// Bytes up to the soft limit of the quota.
    QUOTA_AVAIL_SOFT quota_avail_soft: u64 = 39,
    /// Bytes that count for the quota.
    QUOTA_USED quota_used: u64 = 40,
    /// Number of a device.
    RAWDEV rawdev: SpecData = 41,
    /// Bytes that the caller can allocate.
    SPACE_AVAIL space_avail: u64 = 42,
    /// Bytes that are free.
    SPACE_FREE space_free: u64 = 43,
    /// Bytes of the file system.
    SPACE_TOTAL space_total: u64 = 44,
    /// Bytes allocated to the object.
    SPACE_USED space_used: u64 = 45,
    /// Time of the last access.
    TIME_ACCESS time_access: NfsTime = 47,
    /// New time of the last access; write only.
    TIME_ACCESS_SET time_access_set: SetTime = 48,
    /// Time of creation.
    TIME_CREATE time_create: NfsTime = 50,
    /// Smallest useful difference of times.
    TIME_DELTA time_delta: NfsTime = 51,
    /// Time of the last change of metadata.
    TIME_METADATA time_metadata: NfsTime = 52,
    /// Time of the last change of data.
    TIME_MODIFY time_modify: NfsTime = 53,
    /// New time of the last change of data; write only.
    TIME_MODIFY_SET time_modify_set: SetTime = 54,
    /// `fileid` of the directory that the file system is mounted on.
    MOUNTED_ON_FILEID mounted_on_fileid: u64 = 55,
    /// Layout types of the file system.
    FS_LAYOUT_TYPES fs_layout_types: Vec<LayoutType> [LAYOUT_TYPES_MAX] = 62,
    /// Layout types of the file.
    LAYOUT_TYPES layout_types: Vec<LayoutType> [LAYOUT_TYPES_MAX] = 64,
    /// Preferred bytes of I/O with layouts.
    LAYOUT_BLKSIZE layout_blksize: u32 = 65,
    /// Preferred alignment of I/O with layouts in bytes.
    LAYOUT_ALIGNMENT layout_alignment: u32 = 66,
    /// Sizes below which I/O goes through the metadata server.
    MDSTHRESHOLD mdsthreshold: MdsThreshold = 68,
    /// Permission bits to set or clear; write only.
    MODE_SET_MASKED mode_set_masked: MaskedMode = 74,
    /// Attributes that OPEN can set in an exclusive create.
    SUPPATTR_EXCLCREAT suppattr_exclcreat: Bitmap = 75,
    /// Character sets of names.
    FS_CHARSET_CAP fs_charset_cap: u32 = 76,
    /// Alignment of CLONE in bytes.
    CLONE_BLKSIZE clone_blksize: u32 = 77,
    /// Bytes that become free when the file is removed.
    SPACE_FREED space_freed: u64 = 78,
    /// How `change` develops.
    CHANGE_ATTR_TYPE change_attr_type: ChangeAttrType = 79,
    /// Mode of a new object before its umask; write only. RFC 8275.
    MODE_UMASK mode_umask: ModeUmask = 81,
    /// Whether extended attributes are supported.
    XATTR_SUPPORT xattr_support: bool = 82,
    /// Arguments of OPEN that the server supports. RFC 9754.
    OPEN_ARGUMENTS open_arguments: OpenArguments = 86,
}
