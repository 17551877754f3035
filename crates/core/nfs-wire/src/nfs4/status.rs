//! Status codes of operations.

use std::fmt;

use crate::xdr::{Decoder, Encoder, Xdr, XdrError, xdr_enum};

xdr_enum! {
    /// `nfsstat4` (RFC 8881 15.1, RFC 7862 11, RFC 8276 8): `NFS4_OK` or an `NFS4ERR_` code.
    pub enum NfsStatus {
        /// `NFS4_OK`.
        Ok = 0,
        /// The caller is not the owner or not privileged.
        Perm = 1,
        /// No such file or directory.
        NoEnt = 2,
        /// Hard I/O error.
        Io = 5,
        /// No such device or address.
        NxIo = 6,
        /// Permission denied.
        Access = 13,
        /// The file exists.
        Exist = 17,
        /// The objects are in different file systems.
        XDev = 18,
        /// Not a directory.
        NotDir = 20,
        /// A directory where something else is needed.
        IsDir = 21,
        /// Invalid argument.
        Inval = 22,
        /// The file would be larger than the server's limit.
        FBig = 27,
        /// No space on the file system.
        NoSpc = 28,
        /// Read-only file system.
        RoFs = 30,
        /// Too many hard links.
        MLink = 31,
        /// The name is longer than the server's limit.
        NameTooLong = 63,
        /// The directory is not empty.
        NotEmpty = 66,
        /// Hard quota limit reached.
        DQuot = 69,
        /// The file handle's file no longer exists.
        Stale = 70,
        /// Not a file handle of this server.
        BadHandle = 10001,
        /// The READDIR cookie is stale.
        BadCookie = 10003,
        /// The operation is not supported.
        NotSupp = 10004,
        /// The response would exceed the client's limit.
        TooSmall = 10005,
        /// An error without a code of its own.
        ServerFault = 10006,
        /// CREATE cannot make an object of this type.
        BadType = 10007,
        /// The server cannot answer now; the client retries later.
        Delay = 10008,
        /// NVERIFY: the attributes are the same.
        Same = 10009,
        /// A lock conflicts.
        Denied = 10010,
        /// The lease has expired.
        Expired = 10011,
        /// A lock of another owner prevents the I/O.
        Locked = 10012,
        /// The server is in its grace period.
        Grace = 10013,
        /// The volatile file handle has expired.
        FhExpired = 10014,
        /// A share reservation conflicts.
        ShareDenied = 10015,
        /// The security flavour is not accepted here.
        WrongSec = 10016,
        /// The client id is in use by another principal.
        ClidInUse = 10017,
        /// Resource exhaustion; NFSv4.0 only.
        Resource = 10018,
        /// The file system has moved.
        Moved = 10019,
        /// No current file handle.
        NoFileHandle = 10020,
        /// The minor version is not supported.
        MinorVersMismatch = 10021,
        /// Not a client id of this server instance.
        StaleClientId = 10022,
        /// A state id of a former server instance; NFSv4.0 only.
        StaleStateId = 10023,
        /// The state id's sequence number is too old.
        OldStateId = 10024,
        /// Not a valid state id.
        BadStateId = 10025,
        /// The sequence number is out of order; NFSv4.0 only.
        BadSeqId = 10026,
        /// VERIFY: the attributes differ.
        NotSame = 10027,
        /// The range overlaps a lock of the same owner in an unsupported way.
        LockRange = 10028,
        /// A symbolic link where a file or directory is needed.
        SymLink = 10029,
        /// No saved file handle.
        RestoreFh = 10030,
        /// A lease has moved; NFSv4.0 only.
        LeaseMoved = 10031,
        /// An attribute is not supported.
        AttrNotSupp = 10032,
        /// A reclaim outside the grace period.
        NoGrace = 10033,
        /// The server cannot verify the reclaim.
        ReclaimBad = 10034,
        /// The reclaim conflicts with other state.
        ReclaimConflict = 10035,
        /// The arguments do not match the XDR definition.
        BadXdr = 10036,
        /// Locks are held at CLOSE.
        LocksHeld = 10037,
        /// The open mode does not permit the I/O.
        OpenMode = 10038,
        /// The owner cannot be translated.
        BadOwner = 10039,
        /// The server does not support a character of the name.
        BadChar = 10040,
        /// The server does not support the name.
        BadName = 10041,
        /// The server does not support the lock range.
        BadRange = 10042,
        /// No atomic upgrade or downgrade of locks.
        LockNotSupp = 10043,
        /// No such operation.
        OpIllegal = 10044,
        /// A blocking lock would cause a deadlock.
        Deadlock = 10045,
        /// An open file prevents the operation.
        FileOpen = 10046,
        /// An administrator revoked the state.
        AdminRevoked = 10047,
        /// The callback path is down.
        CbPathDown = 10048,
        /// The I/O mode of a layout is not valid here.
        BadIoMode = 10049,
        /// The layout does not satisfy the request.
        BadLayout = 10050,
        /// The SSV digest does not match.
        BadSessionDigest = 10051,
        /// No such session.
        BadSession = 10052,
        /// No such slot.
        BadSlot = 10053,
        /// RECLAIM_COMPLETE was already sent.
        CompleteAlready = 10054,
        /// The connection is not bound to the session.
        ConnNotBoundToSession = 10055,
        /// The delegation is already wanted.
        DelegAlreadyWanted = 10056,
        /// Requests of the backchannel are outstanding.
        BackChanBusy = 10057,
        /// The layout is not available now; LAYOUTGET only.
        LayoutTryLater = 10058,
        /// The file has no layouts.
        LayoutUnavailable = 10059,
        /// The client has no layout that matches the recall.
        NoMatchingLayout = 10060,
        /// A recall is pending.
        RecallConflict = 10061,
        /// The layout type is not supported.
        UnknownLayoutType = 10062,
        /// The sequence number of a slot is out of order.
        SeqMisordered = 10063,
        /// SEQUENCE is not the first operation.
        SequencePos = 10064,
        /// The request exceeds the session's limit.
        ReqTooBig = 10065,
        /// The reply exceeds the session's limit.
        RepTooBig = 10066,
        /// The reply exceeds the session's limit for cached replies.
        RepTooBigToCache = 10067,
        /// A retry of a request whose reply was not cached.
        RetryUncachedRep = 10068,
        /// The compound could not be retried or recovered.
        UnsafeCompound = 10069,
        /// More operations than the session permits.
        TooManyOps = 10070,
        /// The operation needs SEQUENCE before it.
        OpNotInSession = 10071,
        /// The hash algorithm is not supported.
        HashAlgUnsupp = 10072,
        /// The client still has state.
        ClientIdBusy = 10074,
        /// I/O to a hole of a sparse layout.
        PnfsIoHole = 10075,
        /// A retry that is not the original request.
        SeqFalseRetry = 10076,
        /// `sa_highest_slotid` is too high.
        BadHighSlot = 10077,
        /// The session cannot be used any more.
        DeadSession = 10078,
        /// The encryption algorithm is not supported.
        EncrAlgUnsupp = 10079,
        /// I/O to a data server without a layout.
        PnfsNoLayout = 10080,
        /// Other operations are not allowed in this compound.
        NotOnlyOp = 10081,
        /// The credential is not the one that the state needs.
        WrongCred = 10082,
        /// The object has the wrong type.
        WrongType = 10083,
        /// No directory delegation.
        DirDelegUnavail = 10084,
        /// The client rejected the delegation.
        RejectDeleg = 10085,
        /// A LAYOUTRETURN is pending.
        ReturnConflict = 10086,
        /// The delegation was revoked.
        DelegRevoked = 10087,
        /// Copies between servers are not supported.
        PartnerNotSupp = 10088,
        /// The copy between servers is not authorised.
        PartnerNoAuth = 10089,
        /// The arm of the union is not supported.
        UnionNotSupp = 10090,
        /// The destination does not allow the copy.
        OffloadDenied = 10091,
        /// The label format is not supported.
        WrongLfs = 10092,
        /// The label is not valid.
        BadLabel = 10093,
        /// The copy cannot meet the requirements.
        OffloadNoReqs = 10094,
        /// No such extended attribute.
        NoXattr = 10095,
        /// The extended attribute is too large.
        Xattr2Big = 10096,
    }
}

impl fmt::Display for NfsStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NFSv4 status {} ({self:?})", self.code())
    }
}

impl std::error::Error for NfsStatus {}

/// The result of an operation: a union with the status as discriminant, and nothing else on
/// failure. The error is never [`NfsStatus::Ok`].
pub type NfsResult<T> = Result<T, NfsStatus>;

impl<T: Xdr> Xdr for NfsResult<T> {
    fn encode(&self, to: &mut Encoder) {
        match self {
            Ok(value) => {
                NfsStatus::Ok.encode(to);
                value.encode(to);
            }
            Err(status) => {
                debug_assert_ne!(*status, NfsStatus::Ok, "a failure has a status");
                status.encode(to);
            }
        }
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        match NfsStatus::decode(from)? {
            NfsStatus::Ok => T::decode(from).map(Ok),
            status => Ok(Err(status)),
        }
    }
}
