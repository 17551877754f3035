//! Access control lists. RFC 8881 6.2.

use bytes::Bytes;

use super::types::MESSAGE_LIMITED;
use crate::xdr::{xdr_flags, xdr_newtype, xdr_struct};

/// Maximum ACEs of a list: Linux limits an NFSv4 ACL to what fits in 64 KiB.
pub const ACES_MAX: usize = 4096;

xdr_newtype! {
    /// `acetype4`. RFC 8881 6.2.1.1.
    pub struct AceType(u32);
}

impl AceType {
    /// `ACE4_ACCESS_ALLOWED_ACE_TYPE`: the mask is allowed.
    pub const ALLOW: Self = Self(0);
    /// `ACE4_ACCESS_DENIED_ACE_TYPE`: the mask is denied.
    pub const DENY: Self = Self(1);
    /// `ACE4_SYSTEM_AUDIT_ACE_TYPE`: access is logged.
    pub const AUDIT: Self = Self(2);
    /// `ACE4_SYSTEM_ALARM_ACE_TYPE`: access raises an alarm.
    pub const ALARM: Self = Self(3);
}

xdr_flags! {
    /// `aclsupport`: ACE types that a file system supports. RFC 8881 6.2.1.2.
    pub struct AclSupport {
        /// `ACL4_SUPPORT_ALLOW_ACL`.
        ALLOW = 1,
        /// `ACL4_SUPPORT_DENY_ACL`.
        DENY = 2,
        /// `ACL4_SUPPORT_AUDIT_ACL`.
        AUDIT = 4,
        /// `ACL4_SUPPORT_ALARM_ACL`.
        ALARM = 8,
    }

    /// `aceflag4`. RFC 8881 6.2.1.4.
    pub struct AceFlags {
        /// `ACE4_FILE_INHERIT_ACE`: new files inherit it.
        FILE_INHERIT = 0x01,
        /// `ACE4_DIRECTORY_INHERIT_ACE`: new directories inherit it.
        DIRECTORY_INHERIT = 0x02,
        /// `ACE4_NO_PROPAGATE_INHERIT_ACE`: inherited one level only.
        NO_PROPAGATE_INHERIT = 0x04,
        /// `ACE4_INHERIT_ONLY_ACE`: does not apply to the directory itself.
        INHERIT_ONLY = 0x08,
        /// `ACE4_SUCCESSFUL_ACCESS_ACE_FLAG`.
        SUCCESSFUL_ACCESS = 0x10,
        /// `ACE4_FAILED_ACCESS_ACE_FLAG`.
        FAILED_ACCESS = 0x20,
        /// `ACE4_IDENTIFIER_GROUP`: the principal is a group.
        IDENTIFIER_GROUP = 0x40,
        /// `ACE4_INHERITED_ACE`: it was inherited.
        INHERITED = 0x80,
    }

    /// `acemask4`. RFC 8881 6.2.1.3.
    pub struct AceMask {
        /// `ACE4_READ_DATA`.
        READ_DATA = 0x0000_0001,
        /// `ACE4_LIST_DIRECTORY`.
        LIST_DIRECTORY = 0x0000_0001,
        /// `ACE4_WRITE_DATA`.
        WRITE_DATA = 0x0000_0002,
        /// `ACE4_ADD_FILE`.
        ADD_FILE = 0x0000_0002,
        /// `ACE4_APPEND_DATA`.
        APPEND_DATA = 0x0000_0004,
        /// `ACE4_ADD_SUBDIRECTORY`.
        ADD_SUBDIRECTORY = 0x0000_0004,
        /// `ACE4_READ_NAMED_ATTRS`.
        READ_NAMED_ATTRS = 0x0000_0008,
        /// `ACE4_WRITE_NAMED_ATTRS`.
        WRITE_NAMED_ATTRS = 0x0000_0010,
        /// `ACE4_EXECUTE`.
        EXECUTE = 0x0000_0020,
        /// `ACE4_DELETE_CHILD`.
        DELETE_CHILD = 0x0000_0040,
        /// `ACE4_READ_ATTRIBUTES`.
        READ_ATTRIBUTES = 0x0000_0080,
        /// `ACE4_WRITE_ATTRIBUTES`.
        WRITE_ATTRIBUTES = 0x0000_0100,
        /// `ACE4_WRITE_RETENTION`.
        WRITE_RETENTION = 0x0000_0200,
        /// `ACE4_WRITE_RETENTION_HOLD`.
        WRITE_RETENTION_HOLD = 0x0000_0400,
        /// `ACE4_DELETE`.
        DELETE = 0x0001_0000,
        /// `ACE4_READ_ACL`.
        READ_ACL = 0x0002_0000,
        /// `ACE4_WRITE_ACL`.
        WRITE_ACL = 0x0004_0000,
        /// `ACE4_WRITE_OWNER`.
        WRITE_OWNER = 0x0008_0000,
        /// `ACE4_SYNCHRONIZE`.
        SYNCHRONIZE = 0x0010_0000,
        /// `ACE4_GENERIC_READ`.
        GENERIC_READ = 0x0012_0081,
        /// `ACE4_GENERIC_WRITE`.
        GENERIC_WRITE = 0x0016_0106,
        /// `ACE4_GENERIC_EXECUTE`.
        GENERIC_EXECUTE = 0x0012_00a0,
    }
}

xdr_struct! {
    /// `nfsace4`: one entry of an access control list.
    pub struct Ace {
        /// What the entry does.
        pub ace_type: AceType,
        /// Inheritance, and whether the principal is a group.
        pub flags: AceFlags,
        /// Permissions that it concerns.
        pub mask: AceMask,
        /// The principal: `user@domain`, or a special one like `OWNER@` (RFC 8881 6.2.1.5).
        pub who: Bytes [MESSAGE_LIMITED],
    }
}
