//! Sets of bits in arguments and results.

use crate::xdr::{xdr_enum, xdr_flags};

xdr_flags! {
    /// Bits of ACCESS. RFC 8881 18.1.1, RFC 8276 8.
    pub struct AccessBits {
        /// `ACCESS4_READ`: read data or list a directory.
        READ = 0x001,
        /// `ACCESS4_LOOKUP`: look up a name.
        LOOKUP = 0x002,
        /// `ACCESS4_MODIFY`: change existing data or directory entries.
        MODIFY = 0x004,
        /// `ACCESS4_EXTEND`: append data or add directory entries.
        EXTEND = 0x008,
        /// `ACCESS4_DELETE`: remove a directory entry.
        DELETE = 0x010,
        /// `ACCESS4_EXECUTE`: execute a regular file.
        EXECUTE = 0x020,
        /// `ACCESS4_XAREAD`: read extended attributes.
        XATTR_READ = 0x040,
        /// `ACCESS4_XAWRITE`: write extended attributes.
        XATTR_WRITE = 0x080,
        /// `ACCESS4_XALIST`: list extended attributes.
        XATTR_LIST = 0x100,
    }

    /// `share_access` of OPEN: the access, the wanted delegation, and when to signal.
    /// RFC 8881 18.16.1 and 18.16.3.
    pub struct ShareAccess {
        /// `OPEN4_SHARE_ACCESS_READ`.
        READ = 1,
        /// `OPEN4_SHARE_ACCESS_WRITE`.
        WRITE = 2,
        /// `OPEN4_SHARE_ACCESS_BOTH`.
        BOTH = 3,
        /// `OPEN4_SHARE_ACCESS_WANT_DELEG_MASK`: bits of [`ShareAccess::wanted_delegation`].
        WANT_DELEGATION_MASK = 0xff00,
        /// `OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL`.
        WANT_SIGNAL_WHEN_AVAILABLE = 0x1_0000,
        /// `OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED`.
        WANT_PUSH_WHEN_UNCONTENDED = 0x2_0000,
        /// `OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS`. RFC 9754.
        WANT_DELEGATED_TIMES = 0x10_0000,
    }

    /// `share_deny` of OPEN: access that other owners do not get.
    pub struct ShareDeny {
        /// `OPEN4_SHARE_DENY_NONE`.
        NONE = 0,
        /// `OPEN4_SHARE_DENY_READ`.
        READ = 1,
        /// `OPEN4_SHARE_DENY_WRITE`.
        WRITE = 2,
        /// `OPEN4_SHARE_DENY_BOTH`.
        BOTH = 3,
    }

    /// `rflags` of OPEN's result. RFC 8881 18.16.2.
    pub struct OpenResultFlags {
        /// `OPEN4_RESULT_CONFIRM`; NFSv4.0 only.
        CONFIRM = 0x02,
        /// `OPEN4_RESULT_LOCKTYPE_POSIX`: byte-range locks behave as POSIX describes.
        LOCKTYPE_POSIX = 0x04,
        /// `OPEN4_RESULT_PRESERVE_UNLINKED`: a removed file exists until its last close.
        PRESERVE_UNLINKED = 0x08,
        /// `OPEN4_RESULT_MAY_NOTIFY_LOCK`: the server may send CB_NOTIFY_LOCK.
        MAY_NOTIFY_LOCK = 0x20,
    }

    /// Flags of EXCHANGE_ID. RFC 8881 18.35.1.
    pub struct ExchangeIdFlags {
        /// `EXCHGID4_FLAG_SUPP_MOVED_REFER`.
        SUPP_MOVED_REFER = 0x0000_0001,
        /// `EXCHGID4_FLAG_SUPP_MOVED_MIGR`.
        SUPP_MOVED_MIGR = 0x0000_0002,
        /// `EXCHGID4_FLAG_SUPP_FENCE_OPS`. RFC 7862 14.1.
        SUPP_FENCE_OPS = 0x0000_0004,
        /// `EXCHGID4_FLAG_BIND_PRINC_STATEID`.
        BIND_PRINC_STATEID = 0x0000_0100,
        /// `EXCHGID4_FLAG_USE_NON_PNFS`.
        USE_NON_PNFS = 0x0001_0000,
        /// `EXCHGID4_FLAG_USE_PNFS_MDS`.
        USE_PNFS_MDS = 0x0002_0000,
        /// `EXCHGID4_FLAG_USE_PNFS_DS`.
        USE_PNFS_DS = 0x0004_0000,
        /// `EXCHGID4_FLAG_MASK_PNFS`.
        MASK_PNFS = 0x0007_0000,
        /// `EXCHGID4_FLAG_UPD_CONFIRMED_REC_A`: the argument updates a confirmed record.
        UPD_CONFIRMED_REC_A = 0x4000_0000,
        /// `EXCHGID4_FLAG_CONFIRMED_R`: the result describes a confirmed record.
        CONFIRMED_R = 0x8000_0000,
    }

    /// Flags of CREATE_SESSION. RFC 8881 18.36.1.
    pub struct CreateSessionFlags {
        /// `CREATE_SESSION4_FLAG_PERSIST`: the reply cache survives a restart.
        PERSIST = 1,
        /// `CREATE_SESSION4_FLAG_CONN_BACK_CHAN`: the connection also serves callbacks.
        CONN_BACK_CHAN = 2,
        /// `CREATE_SESSION4_FLAG_CONN_RDMA`.
        CONN_RDMA = 4,
    }

    /// `sr_status_flags` of SEQUENCE. RFC 8881 18.46.1.
    pub struct SequenceStatus {
        /// `SEQ4_STATUS_CB_PATH_DOWN`.
        CB_PATH_DOWN = 0x0001,
        /// `SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING`.
        CB_GSS_CONTEXTS_EXPIRING = 0x0002,
        /// `SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED`.
        CB_GSS_CONTEXTS_EXPIRED = 0x0004,
        /// `SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED`.
        EXPIRED_ALL_STATE_REVOKED = 0x0008,
        /// `SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED`.
        EXPIRED_SOME_STATE_REVOKED = 0x0010,
        /// `SEQ4_STATUS_ADMIN_STATE_REVOKED`.
        ADMIN_STATE_REVOKED = 0x0020,
        /// `SEQ4_STATUS_RECALLABLE_STATE_REVOKED`.
        RECALLABLE_STATE_REVOKED = 0x0040,
        /// `SEQ4_STATUS_LEASE_MOVED`.
        LEASE_MOVED = 0x0080,
        /// `SEQ4_STATUS_RESTART_RECLAIM_NEEDED`.
        RESTART_RECLAIM_NEEDED = 0x0100,
        /// `SEQ4_STATUS_CB_PATH_DOWN_SESSION`.
        CB_PATH_DOWN_SESSION = 0x0200,
        /// `SEQ4_STATUS_BACKCHANNEL_FAULT`.
        BACKCHANNEL_FAULT = 0x0400,
        /// `SEQ4_STATUS_DEVID_CHANGED`.
        DEVID_CHANGED = 0x0800,
        /// `SEQ4_STATUS_DEVID_DELETED`.
        DEVID_DELETED = 0x1000,
    }
}

xdr_enum! {
    /// The delegation that an OPEN wants. RFC 8881 18.16.1.
    pub enum WantedDelegation {
        /// `OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE`.
        NoPreference = 0x0000,
        /// `OPEN4_SHARE_ACCESS_WANT_READ_DELEG`.
        Read = 0x0100,
        /// `OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG`.
        Write = 0x0200,
        /// `OPEN4_SHARE_ACCESS_WANT_ANY_DELEG`.
        Any = 0x0300,
        /// `OPEN4_SHARE_ACCESS_WANT_NO_DELEG`.
        None = 0x0400,
        /// `OPEN4_SHARE_ACCESS_WANT_CANCEL`: cancels an earlier wish.
        Cancel = 0x0500,
    }
}

impl ShareAccess {
    /// The access alone: bits of [`ShareAccess::BOTH`].
    pub fn access(self) -> Self {
        self & Self::BOTH
    }

    /// The wanted delegation, or none for an undefined number.
    pub fn wanted_delegation(self) -> Option<WantedDelegation> {
        WantedDelegation::from_code((self & Self::WANT_DELEGATION_MASK).0)
    }

    /// Whether there are bits that are not defined here. The wish for delegated times may be
    /// ignored: the type of the delegation says whether it is granted.
    pub fn has_undefined(self) -> bool {
        let defined = Self::BOTH
            | Self::WANT_DELEGATION_MASK
            | Self::WANT_SIGNAL_WHEN_AVAILABLE
            | Self::WANT_PUSH_WHEN_UNCONTENDED
            | Self::WANT_DELEGATED_TIMES;
        self.without(defined) != Self::empty()
    }
}
