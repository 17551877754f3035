//! Numbers, arguments and results of all operations.

use super::NfsResult;
use super::args::*;
use super::op_table::op_table;
use super::results::*;
use crate::xdr::xdr_enum;

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

op_table! {
    numbers = OpNumber, forbidden = Forbidden;

    /// `nfs_argop4`: an operation and its arguments.
    pub enum ArgOp;

    /// `nfs_resop4`: an operation and its result.
    pub enum ResOp;

    /// Why the next operation of a compound has no arguments. The server answers it with
    /// [`ArgError::result`] and ends the compound.
    pub struct ArgError;

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
