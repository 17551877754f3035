//! Numbers, arguments and results of all operations.

use super::args::*;
use super::results::*;
use super::{NfsResult, NfsStatus};
use crate::xdr::{Decoder, Encoder, Xdr, XdrError, xdr_enum, xdr_variant_value};

xdr_enum! {
    /// `nfs_opnum4`. RFC 8881 16.2 (NFSv4.1), RFC 7862 15 (NFSv4.2), RFC 8276 8.4.
    pub enum OpNumber {
        /// `OP_ACCESS`.
        Access = 3,
        /// `OP_CLOSE`.
        Close = 4,
        /// `OP_COMMIT`.
        Commit = 5,
        /// `OP_CREATE`.
        Create = 6,
        /// `OP_DELEGPURGE`.
        DelegPurge = 7,
        /// `OP_DELEGRETURN`.
        DelegReturn = 8,
        /// `OP_GETATTR`.
        GetAttr = 9,
        /// `OP_GETFH`.
        GetFh = 10,
        /// `OP_LINK`.
        Link = 11,
        /// `OP_LOCK`.
        Lock = 12,
        /// `OP_LOCKT`.
        LockTest = 13,
        /// `OP_LOCKU`.
        LockUnlock = 14,
        /// `OP_LOOKUP`.
        Lookup = 15,
        /// `OP_LOOKUPP`.
        LookupParent = 16,
        /// `OP_NVERIFY`.
        NVerify = 17,
        /// `OP_OPEN`.
        Open = 18,
        /// `OP_OPENATTR`.
        OpenAttr = 19,
        /// `OP_OPEN_CONFIRM`; NFSv4.0 only.
        OpenConfirm = 20,
        /// `OP_OPEN_DOWNGRADE`.
        OpenDowngrade = 21,
        /// `OP_PUTFH`.
        PutFh = 22,
        /// `OP_PUTPUBFH`.
        PutPubFh = 23,
        /// `OP_PUTROOTFH`.
        PutRootFh = 24,
        /// `OP_READ`.
        Read = 25,
        /// `OP_READDIR`.
        ReadDir = 26,
        /// `OP_READLINK`.
        ReadLink = 27,
        /// `OP_REMOVE`.
        Remove = 28,
        /// `OP_RENAME`.
        Rename = 29,
        /// `OP_RENEW`; NFSv4.0 only.
        Renew = 30,
        /// `OP_RESTOREFH`.
        RestoreFh = 31,
        /// `OP_SAVEFH`.
        SaveFh = 32,
        /// `OP_SECINFO`.
        SecInfo = 33,
        /// `OP_SETATTR`.
        SetAttr = 34,
        /// `OP_SETCLIENTID`; NFSv4.0 only.
        SetClientId = 35,
        /// `OP_SETCLIENTID_CONFIRM`; NFSv4.0 only.
        SetClientIdConfirm = 36,
        /// `OP_VERIFY`.
        Verify = 37,
        /// `OP_WRITE`.
        Write = 38,
        /// `OP_RELEASE_LOCKOWNER`; NFSv4.0 only.
        ReleaseLockOwner = 39,
        /// `OP_BACKCHANNEL_CTL`.
        BackchannelCtl = 40,
        /// `OP_BIND_CONN_TO_SESSION`.
        BindConnToSession = 41,
        /// `OP_EXCHANGE_ID`.
        ExchangeId = 42,
        /// `OP_CREATE_SESSION`.
        CreateSession = 43,
        /// `OP_DESTROY_SESSION`.
        DestroySession = 44,
        /// `OP_FREE_STATEID`.
        FreeStateId = 45,
        /// `OP_GET_DIR_DELEGATION`.
        GetDirDelegation = 46,
        /// `OP_GETDEVICEINFO`.
        GetDeviceInfo = 47,
        /// `OP_GETDEVICELIST`.
        GetDeviceList = 48,
        /// `OP_LAYOUTCOMMIT`.
        LayoutCommit = 49,
        /// `OP_LAYOUTGET`.
        LayoutGet = 50,
        /// `OP_LAYOUTRETURN`.
        LayoutReturn = 51,
        /// `OP_SECINFO_NO_NAME`.
        SecInfoNoName = 52,
        /// `OP_SEQUENCE`.
        Sequence = 53,
        /// `OP_SET_SSV`.
        SetSsv = 54,
        /// `OP_TEST_STATEID`.
        TestStateId = 55,
        /// `OP_WANT_DELEGATION`.
        WantDelegation = 56,
        /// `OP_DESTROY_CLIENTID`.
        DestroyClientId = 57,
        /// `OP_RECLAIM_COMPLETE`.
        ReclaimComplete = 58,
        /// `OP_ALLOCATE`.
        Allocate = 59,
        /// `OP_COPY`.
        Copy = 60,
        /// `OP_COPY_NOTIFY`.
        CopyNotify = 61,
        /// `OP_DEALLOCATE`.
        Deallocate = 62,
        /// `OP_IO_ADVISE`.
        IoAdvise = 63,
        /// `OP_LAYOUTERROR`.
        LayoutError = 64,
        /// `OP_LAYOUTSTATS`.
        LayoutStats = 65,
        /// `OP_OFFLOAD_CANCEL`.
        OffloadCancel = 66,
        /// `OP_OFFLOAD_STATUS`.
        OffloadStatus = 67,
        /// `OP_READ_PLUS`.
        ReadPlus = 68,
        /// `OP_SEEK`.
        Seek = 69,
        /// `OP_WRITE_SAME`.
        WriteSame = 70,
        /// `OP_CLONE`.
        Clone = 71,
        /// `OP_GETXATTR`.
        GetXattr = 72,
        /// `OP_SETXATTR`.
        SetXattr = 73,
        /// `OP_LISTXATTRS`.
        ListXattrs = 74,
        /// `OP_REMOVEXATTR`.
        RemoveXattr = 75,
        /// `OP_ILLEGAL`: the result of an unknown operation.
        Illegal = 10044,
    }
}

impl OpNumber {
    /// Whether NFSv4.1 forbids servers to implement the operation. RFC 8881 17, "MNI".
    pub const fn is_minor_0_only(self) -> bool {
        matches!(
            self,
            Self::OpenConfirm
                | Self::Renew
                | Self::SetClientId
                | Self::SetClientIdConfirm
                | Self::ReleaseLockOwner
        )
    }

    /// Whether minor version `minor` (1 or 2) defines the operation.
    pub const fn is_defined_in(self, minor: u32) -> bool {
        match self {
            Self::Illegal => false,
            // RFC 7862 15; RFC 8276 4 extends NFSv4.2.
            _ => minor >= 2 || self.code() <= Self::ReclaimComplete.code(),
        }
    }
}

/// Why the next operation of a compound has no arguments. The server answers it with `status` and
/// ends the compound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("arguments of {op:?}: {error}")]
pub struct ArgError {
    /// The operation, or [`OpNumber::Illegal`] where the message ends before its number.
    pub op: OpNumber,
    /// What is wrong.
    pub error: XdrError,
}

impl ArgError {
    /// The result of the operation.
    pub fn result(&self) -> ResOp {
        // RFC 8881 15.1.1.1: the arguments do not match their XDR definition.
        ResOp::failure(self.op, NfsStatus::BadXdr)
    }
}

macro_rules! ops {
    ($( $(#[$doc:meta])* $op:ident $(($args:ty))? => $result:ty, )*) => {
        /// `nfs_argop4`: an operation and its arguments.
        #[derive(Clone, PartialEq, Eq, Debug)]
        // There is one value for each operation that runs, and it is not moved much.
        #[allow(clippy::large_enum_variant)]
        pub enum ArgOp {
            $( $(#[$doc])* $op $(($args))?, )*
            /// An operation of NFSv4.0 that NFSv4.1 forbids. Its arguments are not decoded, so
            /// that it is the last one: the server answers NFS4ERR_NOTSUPP.
            Forbidden(OpNumber),
            /// A number that the minor version does not define. Its arguments are unknown, so
            /// that it is the last one: the server answers NFS4ERR_OP_ILLEGAL.
            Illegal(u32),
        }

        /// `nfs_resop4`: an operation and its result.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[allow(clippy::large_enum_variant)]
        pub enum ResOp {
            $( $(#[$doc])* $op($result), )*
            /// Result of [`ArgOp::Forbidden`]: only a status.
            Forbidden(OpNumber, NfsStatus),
            /// Result of [`ArgOp::Illegal`].
            Illegal(NfsStatus),
        }

        impl ArgOp {
            /// The operation; [`OpNumber::Illegal`] for an unknown one.
            pub fn number(&self) -> OpNumber {
                match self {
                    $( Self::$op { .. } => OpNumber::$op, )*
                    Self::Forbidden(op) => *op,
                    Self::Illegal(_) => OpNumber::Illegal,
                }
            }

            fn decode_args(op: OpNumber, from: &mut Decoder) -> Result<Self, XdrError> {
                match op {
                    $( OpNumber::$op => Ok(Self::$op $((<$args as Xdr>::decode(from)?))?), )*
                    forbidden => Ok(Self::Forbidden(forbidden)),
                }
            }

            /// Appends the operation and its arguments. Of forbidden and illegal ones only the
            /// number is known.
            pub fn encode(&self, to: &mut Encoder) {
                match self {
                    Self::Illegal(number) => to.u32(*number),
                    _ => self.number().encode(to),
                }
                match self {
                    $( Self::$op $((xdr_variant_value!(value, $args)))? => {
                        $( <$args as Xdr>::encode(xdr_variant_value!(value, $args), to); )?
                    } )*
                    Self::Forbidden(_) | Self::Illegal(_) => {}
                }
            }
        }

        impl ResOp {
            /// The operation.
            pub fn number(&self) -> OpNumber {
                match self {
                    $( Self::$op(_) => OpNumber::$op, )*
                    Self::Forbidden(op, _) => *op,
                    Self::Illegal(_) => OpNumber::Illegal,
                }
            }

            /// The status.
            pub fn status(&self) -> NfsStatus {
                match self {
                    $( Self::$op(result) => OpResult::status(result), )*
                    Self::Forbidden(_, status) | Self::Illegal(status) => *status,
                }
            }

            /// The result of `op` that has a status other than [`NfsStatus::Ok`] and nothing
            /// else.
            pub fn failure(op: OpNumber, status: NfsStatus) -> Self {
                match op {
                    $( OpNumber::$op => Self::$op(OpResult::failure(status)), )*
                    OpNumber::Illegal => Self::Illegal(status),
                    forbidden => Self::Forbidden(forbidden, status),
                }
            }
        }

        impl Xdr for ResOp {
            fn encode(&self, to: &mut Encoder) {
                self.number().encode(to);
                match self {
                    $( Self::$op(result) => result.encode(to), )*
                    Self::Forbidden(_, status) | Self::Illegal(status) => status.encode(to),
                }
            }
            fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
                match OpNumber::decode(from)? {
                    $( OpNumber::$op => <$result as Xdr>::decode(from).map(Self::$op), )*
                    OpNumber::Illegal => NfsStatus::decode(from).map(Self::Illegal),
                    forbidden => {
                        NfsStatus::decode(from).map(|status| Self::Forbidden(forbidden, status))
                    }
                }
            }
        }
    };
}

impl ArgOp {
    /// Reads the next operation of a compound of minor version `minor` (1 or 2).
    ///
    /// # Errors
    /// [`ArgError`] when its arguments are not what the operation needs; nothing after it can be
    /// read.
    pub fn decode(from: &mut Decoder, minor: u32) -> Result<Self, ArgError> {
        let number = from.u32().map_err(|error| ArgError { op: OpNumber::Illegal, error })?;
        match OpNumber::from_code(number) {
            Some(op) if op.is_defined_in(minor) => {
                Self::decode_args(op, from).map_err(|error| ArgError { op, error })
            }
            // RFC 8881 16.2.3: the result of an unknown operation is that of OP_ILLEGAL.
            _ => Ok(Self::Illegal(number)),
        }
    }
}

ops! {
    /// Check access rights.
    Access(AccessArgs) => NfsResult<AccessResult>,
    /// Close a file.
    Close(CloseArgs) => NfsResult<StateIdResult>,
    /// Commit cached data.
    Commit(CommitArgs) => NfsResult<CommitResult>,
    /// Create an object that is no regular file.
    Create(CreateArgs) => NfsResult<CreateResult>,
    /// Purge delegations awaiting recovery.
    DelegPurge(DelegPurgeArgs) => NfsResult<()>,
    /// Return a delegation.
    DelegReturn(DelegReturnArgs) => NfsResult<()>,
    /// Get attributes.
    GetAttr(GetAttrArgs) => NfsResult<GetAttrResult>,
    /// Get the current file handle.
    GetFh => NfsResult<GetFhResult>,
    /// Create a hard link.
    Link(LinkArgs) => NfsResult<ChangeResult>,
    /// Create a lock.
    Lock(LockArgs) => Result<StateIdResult, LockFailure>,
    /// Test for a lock.
    LockTest(LockTestArgs) => Result<(), LockTestFailure>,
    /// Unlock.
    LockUnlock(LockUnlockArgs) => NfsResult<StateIdResult>,
    /// Look up a name.
    Lookup(LookupArgs) => NfsResult<()>,
    /// Look up the parent directory.
    LookupParent => NfsResult<()>,
    /// Verify that attributes differ.
    NVerify(VerifyArgs) => NfsResult<()>,
    /// Open a file.
    Open(OpenArgs) => NfsResult<OpenResult>,
    /// Open the directory of named attributes.
    OpenAttr(OpenAttrArgs) => NfsResult<()>,
    /// Reduce an open's access.
    OpenDowngrade(OpenDowngradeArgs) => NfsResult<StateIdResult>,
    /// Set the current file handle.
    PutFh(PutFhArgs) => NfsResult<()>,
    /// Set the public file handle.
    PutPubFh => NfsResult<()>,
    /// Set the root file handle.
    PutRootFh => NfsResult<()>,
    /// Read data.
    Read(ReadArgs) => NfsResult<ReadResult>,
    /// Read a directory.
    ReadDir(ReadDirArgs) => NfsResult<ReadDirResult>,
    /// Read a symbolic link.
    ReadLink => NfsResult<ReadLinkResult>,
    /// Remove a directory entry.
    Remove(RemoveArgs) => NfsResult<ChangeResult>,
    /// Rename a directory entry.
    Rename(RenameArgs) => NfsResult<RenameResult>,
    /// Restore the saved file handle.
    RestoreFh => NfsResult<()>,
    /// Save the current file handle.
    SaveFh => NfsResult<()>,
    /// Get the security flavours of a name.
    SecInfo(SecInfoArgs) => NfsResult<SecInfoResult>,
    /// Set attributes.
    SetAttr(SetAttrArgs) => SetAttrResult,
    /// Verify that attributes are equal.
    Verify(VerifyArgs) => NfsResult<()>,
    /// Write data.
    Write(WriteArgs) => NfsResult<WriteResult>,
    /// Change the backchannel's parameters.
    BackchannelCtl(BackchannelCtlArgs) => NfsResult<()>,
    /// Bind a connection to a session.
    BindConnToSession(BindConnToSessionArgs) => NfsResult<BindConnToSessionResult>,
    /// Register a client.
    ExchangeId(ExchangeIdArgs) => NfsResult<ExchangeIdResult>,
    /// Create a session.
    CreateSession(CreateSessionArgs) => NfsResult<CreateSessionResult>,
    /// Destroy a session.
    DestroySession(DestroySessionArgs) => NfsResult<()>,
    /// Free a state id.
    FreeStateId(FreeStateIdArgs) => NfsResult<()>,
    /// Get a delegation of a directory.
    GetDirDelegation(GetDirDelegationArgs) => NfsResult<GetDirDelegationResult>,
    /// Get a device's addresses.
    GetDeviceInfo(GetDeviceInfoArgs) => Result<GetDeviceInfoResult, GetDeviceInfoFailure>,
    /// Get all devices of a file system.
    GetDeviceList(GetDeviceListArgs) => NfsResult<GetDeviceListResult>,
    /// Commit writes made with a layout.
    LayoutCommit(LayoutCommitArgs) => NfsResult<LayoutCommitResult>,
    /// Get a layout.
    LayoutGet(LayoutGetArgs) => Result<LayoutGetResult, LayoutGetFailure>,
    /// Return layouts.
    LayoutReturn(LayoutReturnArgs) => NfsResult<LayoutReturnResult>,
    /// Get the security flavours of an object.
    SecInfoNoName(SecInfoNoNameArgs) => NfsResult<SecInfoResult>,
    /// Name the session and the slot.
    Sequence(SequenceArgs) => NfsResult<SequenceResult>,
    /// Set the secret state verifier.
    SetSsv(SetSsvArgs) => NfsResult<SetSsvResult>,
    /// Test state ids.
    TestStateId(TestStateIdArgs) => NfsResult<TestStateIdResult>,
    /// Ask for a delegation.
    WantDelegation(WantDelegationArgs) => NfsResult<OpenDelegation>,
    /// Destroy a client id.
    DestroyClientId(DestroyClientIdArgs) => NfsResult<()>,
    /// End of the client's reclaims.
    ReclaimComplete(ReclaimCompleteArgs) => NfsResult<()>,
    /// Reserve space.
    Allocate(AllocateArgs) => NfsResult<()>,
    /// Copy a range.
    Copy(CopyArgs) => Result<CopyResult, CopyFailure>,
    /// Announce a copy to another server.
    CopyNotify(CopyNotifyArgs) => NfsResult<CopyNotifyResult>,
    /// Make a hole.
    Deallocate(AllocateArgs) => NfsResult<()>,
    /// Advise about future I/O.
    IoAdvise(IoAdviseArgs) => NfsResult<IoAdviseResult>,
    /// Report errors of data servers.
    LayoutError(LayoutErrorArgs) => NfsResult<()>,
    /// Report statistics of data servers.
    LayoutStats(LayoutStatsArgs) => NfsResult<()>,
    /// Cancel a copy.
    OffloadCancel(OffloadArgs) => NfsResult<()>,
    /// Get the progress of a copy.
    OffloadStatus(OffloadArgs) => NfsResult<OffloadStatusResult>,
    /// Read data and holes.
    ReadPlus(ReadArgs) => NfsResult<ReadPlusResult>,
    /// Find data or a hole.
    Seek(SeekArgs) => NfsResult<SeekResult>,
    /// Write a pattern.
    WriteSame(WriteSameArgs) => NfsResult<WriteResponse>,
    /// Clone a range.
    Clone(CloneArgs) => NfsResult<()>,
    /// Get an extended attribute.
    GetXattr(XattrNameArgs) => NfsResult<GetXattrResult>,
    /// Set an extended attribute.
    SetXattr(SetXattrArgs) => NfsResult<ChangeResult>,
    /// List extended attributes.
    ListXattrs(ListXattrsArgs) => NfsResult<ListXattrsResult>,
    /// Remove an extended attribute.
    RemoveXattr(XattrNameArgs) => NfsResult<ChangeResult>,
}
