//! Calls of the metadata server. The body of each begins with an [`Envelope`].
//!
//! A *mutating* call carries a slot and a sequence number of its session. Its result is recorded
//! with the change, in one batch (I7). A retry with the same slot and sequence is answered from the
//! record. A slot has one call in flight, and its sequence number rises by one per call.

use braid_layout::Layout;
use braid_types::{
    ByteCount, ClusterUuid, FileIndex, FileOffset, IodId, KeyId, MapEpoch, MdsEpoch, ObjectId,
    SessionId, ShardId, SizeGeneration, Timestamp, WriteVerifier,
};

use super::{
    FileKind, calls,
    entry::{
        CreateMode, DirectoryChange, EntryKind, LookUpFoldedReply, MakeEntryReply, OpenEntryReply,
        RenameEntryReply,
    },
    import::{ImportEntry, ImportedEntry},
    lease::{LeaseGrant, LeaseMode, Recall, ReturnedLease},
    lock::{LockHolder, LockRange, LockReply, LockRequest},
    quota::{QuotaDifference, QuotaLimits, QuotaOwner, QuotaReport, QuotaWalkReply},
    types::{
        Attributes, ClusterMap, DirectoryEntry, Identity, IodState, LayoutHint, ObjectInfo,
        PathRef, Space,
    },
};
use crate::{
    capability::Rights,
    codec::{wire_enum, wire_struct},
    deny::Deny,
    key::KEY_BYTES,
};

wire_struct! {
    /// Precedes every message to the metadata server.
    pub struct Envelope {
        /// Replay slot of the session; ignored when `sequence` is 0.
        slot: u32,
        /// Sequence number in the slot, from 1; 0 for calls that change nothing.
        sequence: u64,
        /// 0: the identity of the connection. Otherwise one defined by [`DefineIdentity`]. Only the
        /// holder of a client key may use one (the host vouches for its users), never the holder of
        /// a ticket.
        identity: u32,
        /// Size reports for files that the call concerns and whose sole writer is this client, so
        /// that the server need not ask the daemons (ADR 0020). The server ignores a report that it
        /// cannot trust, and asks the daemons.
        size_reports: Vec<SizeReport>,
    }

    /// Sizes of the objects of a file, from its sole writer.
    pub struct SizeReport {
        /// The handle that the creation returned.
        open_id: u64,
        /// Each daemon that has an object.
        daemons: Vec<DaemonReport>,
    }

    /// What one daemon returned with its replies to writes.
    pub struct DaemonReport {
        /// The daemon.
        iod: IodId,
        /// Its write verifier, the same in all these replies.
        verifier: WriteVerifier,
        /// The file's objects there, after the last write.
        objects: Vec<ObjectInfo>,
    }
}

impl Envelope {
    /// For a call that changes nothing, with the connection's own identity.
    pub const PLAIN: Self = Self { slot: 0, sequence: 0, identity: 0, size_reports: Vec::new() };
}

calls! {
    /// A call of the metadata server.
    MdsRequest;

    /// Start a session, join one with another connection, or reclaim one after a restart.
    OpenSession = 0x01d6 {
        /// The session to join or to reclaim; `None` for a new one.
        session: Option<SessionId>,
        /// Name of the client for `braid status`: host and program.
        client: String,
    } -> OpenSessionReply;
    /// End the session and close its open files.
    CloseSession = 0x0101 {} -> ();
    /// Assign a number to an identity, for [`Envelope::identity`].
    DefineIdentity = 0x0102 {
        /// The number, from 1.
        number: u32,
        /// The identity that the number stands for.
        identity: Identity,
    } -> ();
    /// Renew the session. The reply reports what changed.
    Renew = 0x0103 {} -> RenewReply;
    /// The cluster map.
    GetClusterMap = 0x0104 {} -> ClusterMap;
    /// From an agent: check that its session is alive, before it issues tickets in it.
    AgentCheck = 0x0105 {} -> AgentCheckReply;
    /// Reclaim the session's open files after a restart of the server, before any other call of the
    /// session. The reply lists the handles that the server refuses. Repeatable.
    Reclaim = 0x01f5 {
        /// Open files of the envelope's identity, at most `RECLAIM_OPENS_MAX`.
        opens: Vec<ReclaimedOpen>,
        /// Whether these were all open files of all identities. The server then closes every other
        /// recorded open of the session.
        complete: bool,
        /// Whether the client may still hold leases of an earlier epoch. Its first [`AwaitRecalls`]
        /// of this epoch confirms that it has returned them all.
        leases: bool,
        /// As in [`AwaitRecalls`].
        io_under_leases: bool,
    } -> Vec<u64>;

    /// Attributes.
    Stat = 0x0110 {
        /// The path.
        at: PathRef,
        /// Whether a symbolic link at the end of the path is followed.
        follow: bool,
    } -> Attributes;
    /// The target of a symbolic link.
    ReadLink = 0x0111 {
        /// The link.
        at: PathRef,
    } -> Vec<u8>;
    /// Some entries of a directory.
    ReadDirectory = 0x01e0 {
        /// The directory.
        dir: FileIndex,
        /// Entries after this cookie; 0 for the beginning.
        cookie: u64,
        /// Approximate size of the reply.
        bytes_max: u32,
        /// Whether to return attributes too.
        with_attributes: bool,
    } -> ReadDirectoryReply;
    /// Check whether the caller may read (4), write (2), execute or search (1).
    Access = 0x0113 {
        /// The path.
        at: PathRef,
        /// The bits.
        mask: u8,
    } -> ();

    /// Create a file, or open it when it exists and `exclusive` is not set.
    Create = 0x0120 {
        /// The path.
        at: PathRef,
        /// Permission bits.
        mode: u32,
        /// The umask, used where the directory has no default access control list.
        umask: u32,
        /// Fail when the name exists.
        exclusive: bool,
        /// Truncate an existing file.
        truncate: bool,
        /// The access mode; `None` creates the file without opening it.
        rights: Option<Rights>,
        /// Layout hint.
        layout_hint: LayoutHint,
        /// The data lease to grant with it, if nothing conflicts.
        lease: LeaseMode,
        /// What the open denies to other opens.
        deny: Deny,
    } -> CreateReply;
    /// Open an existing file.
    Open = 0x0121 {
        /// The path.
        at: PathRef,
        /// The access mode.
        rights: Rights,
        /// Make it empty.
        truncate: bool,
        /// The data lease to grant with it, if nothing conflicts.
        lease: LeaseMode,
        /// What the open denies to other opens. If not empty, the call has a slot.
        deny: Deny,
    } -> OpenReply;
    /// Close handles. Unknown ones are ignored.
    Close = 0x0122 {
        /// The handles.
        open_ids: Vec<u64>,
    } -> ();
    /// A fresh capability of an open file (after `StaleGeneration`, `StaleEpoch`, `BadCapability`).
    RenewCapability = 0x0123 {
        /// The open file.
        open_id: u64,
        /// The file.
        file: FileIndex,
        /// The access mode of the open.
        rights: Rights,
    } -> OpenReply;
    /// Make the file's metadata durable: size, parts, the name that it was created under (I6).
    FsyncFile = 0x0124 {
        /// The file.
        file: FileIndex,
    } -> Attributes;
    /// Make a directory's changes durable.
    FsyncDirectory = 0x0125 {
        /// The directory.
        dir: FileIndex,
    } -> ();
    /// Create an open file without a name (`O_TMPFILE`). It is removed when it is closed, unless
    /// `MakeLink` gives it a name.
    CreateUnnamed = 0x0126 {
        /// The directory whose defaults apply.
        at: PathRef,
        /// Permission bits.
        mode: u32,
        /// The umask, used where the directory has no default access control list.
        umask: u32,
        /// The access mode.
        rights: Rights,
        /// Layout hint.
        layout_hint: LayoutHint,
    } -> OpenReply;
    /// Set the access mode and the deny mode of an open file. Refused if another open excludes it;
    /// then nothing changes. Repeatable.
    SetOpenModes = 0x0127 {
        /// The handle.
        open_id: u64,
        /// Its file.
        file: FileIndex,
        /// The new access mode.
        rights: Rights,
        /// The new deny mode.
        deny: Deny,
    } -> OpenReply;

    /// Make a directory.
    MakeDirectory = 0x0130 {
        /// The path.
        at: PathRef,
        /// Permission bits.
        mode: u32,
        /// The umask, used where the directory has no default access control list.
        umask: u32,
    } -> MakeReply;
    /// Make a special file.
    MakeNode = 0x0131 {
        /// The path.
        at: PathRef,
        /// Fifo, socket or device.
        kind: FileKind,
        /// Permission bits.
        mode: u32,
        /// The umask, used where the directory has no default access control list.
        umask: u32,
        /// Device number.
        device: u64,
    } -> Attributes;
    /// Make a symbolic link.
    MakeSymlink = 0x0132 {
        /// The path.
        at: PathRef,
        /// What it points to.
        target: Vec<u8>,
    } -> Attributes;
    /// Make a hard link.
    MakeLink = 0x0133 {
        /// The file.
        from: PathRef,
        /// Its new name.
        to: PathRef,
    } -> Attributes;
    /// Remove a name of a file that is not a directory.
    Unlink = 0x0134 {
        /// The name.
        at: PathRef,
    } -> RemoveReply;
    /// Remove an empty directory.
    RemoveDirectory = 0x0135 {
        /// The name.
        at: PathRef,
    } -> RemoveReply;
    /// Rename; atomic for every observer (I7).
    Rename = 0x0136 {
        /// Old name.
        from: PathRef,
        /// New name.
        to: PathRef,
        /// What to do if the new name exists.
        mode: RenameMode,
    } -> ();

    /// Change attributes. A size truncates or extends the file, as an intent (I5).
    SetAttributes = 0x01e1 {
        /// The path.
        at: PathRef,
        /// Whether a symbolic link at the end of the path is followed.
        follow: bool,
        /// The changes.
        changes: AttributeChanges,
    } -> Attributes;
    /// Make a range of the file read as zeros, as an intent (I5).
    PunchHole = 0x0141 {
        /// The file; it must be open for writing in this session.
        file: FileIndex,
        /// Start of the hole.
        offset: FileOffset,
        /// How long it is.
        bytes: ByteCount,
    } -> Attributes;

    /// Value of an extended attribute.
    GetXattr = 0x0150 {
        /// The path (a final symbolic link is not followed).
        at: PathRef,
        /// Its name, including the `user.` or other prefix.
        name: Vec<u8>,
    } -> Vec<u8>;
    /// Set an extended attribute.
    SetXattr = 0x0151 {
        /// The path.
        at: PathRef,
        /// Its name.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// Whether the attribute may or must exist.
        mode: XattrMode,
        /// The caller has checked the user, who is not in the file's group: setting the access
        /// control list clears setgid.
        drop_setgid: bool,
    } -> ();
    /// Names of all extended attributes.
    ListXattrs = 0x0152 {
        /// The path.
        at: PathRef,
    } -> Vec<Vec<u8>>;
    /// Remove an extended attribute.
    RemoveXattr = 0x0153 {
        /// The path.
        at: PathRef,
        /// Its name.
        name: Vec<u8>,
    } -> ();

    /// Free space of the file system. A disk that several daemons share counts once. In a directory
    /// with a quota, what the quota leaves.
    StatFs = 0x0160 {
        /// The file.
        file: FileIndex,
    } -> StatFsReply;
    /// The layout of a file, or the default layout of a directory.
    LayoutShow = 0x0161 {
        /// The path.
        at: PathRef,
    } -> LayoutShowReply;
    /// Set the default layout of a directory, or the layout of a file that was never written.
    LayoutSet = 0x0162 {
        /// The path.
        at: PathRef,
        /// The hint; an empty one removes the default.
        layout_hint: LayoutHint,
    } -> ();

    /// Make a client key.
    KeyAdd = 0x0170 {
        /// Name for people.
        name: String,
        /// What it may do.
        rights: KeyRights,
    } -> KeyAddReply;
    /// All client keys.
    KeyList = 0x0171 {} -> Vec<KeyInfo>;
    /// Revoke a client key: end and fence its sessions.
    KeyRevoke = 0x0172 {
        /// The key.
        key: KeyId,
    } -> ();
    /// Sessions, shards and log of the metadata server.
    MdsStatus = 0x0173 {} -> MdsStatusReply;
    /// Set an I/O daemon to draining, or back to up.
    SetIodState = 0x0174 {
        /// The daemon.
        iod: IodId,
        /// Draining or up.
        state: IodState,
    } -> ();

    /// From an I/O daemon: register, or report its present addresses.
    RegisterIod = 0x01d8 {
        /// Its id; 0 when it has none yet.
        id: IodId,
        /// The cluster that its directory belongs to.
        cluster: ClusterUuid,
        /// Random bytes of its directory, so that no other directory can claim the id.
        directory: [u8; 16],
        /// The addresses that it listens on, `host:port`, one per network interface.
        addresses: Vec<String>,
        /// `key=value`.
        labels: Vec<String>,
        /// Room.
        space: Space,
        /// Its write verifier.
        verifier: WriteVerifier,
        /// Maximum length of an object on its disk.
        object_bytes_max: ByteCount,
    } -> RegisterIodReply;
    /// From an I/O daemon: heartbeat.
    Heartbeat = 0x01d5 {
        /// Room.
        space: Space,
        /// Its write verifier.
        verifier: WriteVerifier,
        /// The daemon has applied every fence up to this number.
        fence_applied: u64,
    } -> HeartbeatReply;

    /// For fsck: files in the order of their index.
    FsckFiles = 0x0190 {
        /// The shard.
        shard: ShardId,
        /// Files after this one.
        after: FileIndex,
        /// At most this many.
        count_max: u32,
    } -> Vec<FsckFile>;
    /// For fsck: check names, link counts and reachability in a shard; with `mend`, repair them.
    FsckNamespace = 0x0191 {
        /// The shard.
        shard: ShardId,
        /// Whether to mend.
        mend: bool,
    } -> FsckNamespaceReply;
    /// For fsck: link a file into `lost+found`, or record its true size and parts.
    FsckMendFile = 0x0192 {
        /// The file.
        file: FileIndex,
        /// What to do.
        mend: FsckMend,
    } -> ();
    /// For fsck: which of these objects belong to no file and no pending deletion.
    FsckOrphans = 0x0193 {
        /// Objects of a daemon.
        objects: Vec<ObjectId>,
    } -> Vec<ObjectId>;
    /// For fsck: shards in use.
    FsckShards = 0x0194 {} -> Vec<ShardId>;

    /// Request a lock. It replaces the owner's locks on these bytes.
    LockSet = 0x01a0 {
        /// The lock.
        lock: LockRequest,
        /// 0: do not wait. Otherwise a number that the session never used before, which names the
        /// wait.
        ticket: u64,
    } -> LockReply;
    /// Wait for a lock that `LockSet` queued. A lock is granted only while this call waits for it.
    /// Repeatable: the position in the queue is kept for some seconds.
    LockAwait = 0x01a1 {
        /// The lock, as requested.
        lock: LockRequest,
        /// The wait.
        ticket: u64,
        /// When to reply that it still waits, in milliseconds; at most `LOCK_WAIT_MS_MAX`.
        wait_ms: u32,
    } -> LockReply;
    /// End a wait. Unknown ones are ignored.
    LockCancel = 0x01a2 {
        /// The wait.
        ticket: u64,
    } -> ();
    /// The lock that conflicts with this one, if any.
    LockTest = 0x01a3 {
        /// The lock.
        lock: LockRequest,
    } -> Option<LockHolder>;
    /// Unlock bytes.
    Unlock = 0x01a4 {
        /// The range.
        range: LockRange,
    } -> ();
    /// Reclaim the session's locks after a restart of the server, before the last `Reclaim`. The
    /// reply lists the positions in `locks` of those that another owner holds now. Repeatable.
    LockReclaim = 0x01a5 {
        /// At most `RECLAIM_LOCKS_MAX`.
        locks: Vec<LockRequest>,
    } -> Vec<u32>;
    /// Request the names lease of a directory. `None` if something conflicts; the call never waits.
    LeaseNames = 0x01b0 {
        /// The directory.
        dir: FileIndex,
    } -> Option<NamesGrant>;
    /// Request a data lease of a file. Waits, with a limit, while it is recalled from other
    /// clients.
    LeaseData = 0x01b1 {
        /// The file.
        file: FileIndex,
        /// The wanted mode. The grant may be less if other clients use the file too.
        mode: LeaseMode,
        /// Whether only this mode will do.
        exclusive: bool,
    } -> LeaseGrant;
    /// Wait for recalls: returns those with numbers above `seen`, lowest first, or none after a
    /// while. The first call in an epoch confirms that the client has returned every lease of
    /// earlier epochs.
    AwaitRecalls = 0x01f4 {
        /// Number of the newest recall of this epoch that the client has received; 0 for none.
        seen: u64,
        /// Whether the session reads and writes files only while it holds their data lease. If not,
        /// its opens are those of a client that uses no leases.
        io_under_leases: bool,
    } -> Vec<Recall>;
    /// Return leases, recalled or not. Repeatable.
    ReturnLeases = 0x01b3 {
        /// At most `LEASES_RETURNED_MAX`.
        leases: Vec<ReturnedLease>,
    } -> ();
    /// Request the layout lease of a file. `None` if something conflicts; the call never waits.
    LeaseLayout = 0x01b4 {
        /// The file.
        file: FileIndex,
    } -> Option<LayoutGrant>;
    /// Extend the growth grant of an open file. Returns the new grant, at or past `end`, or `None`
    /// where no quota applies any more. Repeatable.
    ExtendGrowthGrant = 0x01c0 {
        /// The handle, open for writing.
        open_id: u64,
        /// Its file.
        file: FileIndex,
        /// The wanted end, in bytes.
        end: u64,
    } -> Option<u64>;
    /// Set limits. If the reply says that a directory is not counted completely, the caller must
    /// walk it.
    QuotaSet = 0x01c1 {
        /// The owner.
        owner: QuotaOwner,
        /// The limits.
        limits: QuotaLimits,
    } -> QuotaReport;
    /// Limits and usage of the caller, of its groups, of directories. An administrator may ask for
    /// any owner.
    QuotaGet = 0x01c2 {
        /// The owner.
        owner: QuotaOwner,
    } -> QuotaReport;
    /// All owners with limits or usage, in order.
    QuotaList = 0x01c3 {
        /// Owners after this one.
        after: Option<QuotaOwner>,
    } -> Vec<QuotaReport>;
    /// Remove limits. Returns whether there were any. The caller must then walk a directory.
    QuotaRemove = 0x01c4 {
        /// The owner.
        owner: QuotaOwner,
    } -> bool;
    /// Assign some entries of a directory to its quota directory, and count them there. Repeatable.
    QuotaWalk = 0x01c5 {
        /// The directory.
        dir: FileIndex,
        /// Entries after this cookie; 0 for the beginning.
        cookie: u64,
    } -> QuotaWalkReply;
    /// Everything below a directory with a quota has been walked.
    QuotaWalked = 0x01c6 {
        /// The directory.
        dir: FileIndex,
    } -> ();
    /// For fsck: recount a shard's usage; with `mend`, record the result.
    FsckUsage = 0x01c7 {
        /// The shard.
        shard: ShardId,
        /// Whether to mend.
        mend: bool,
    } -> Vec<QuotaDifference>;
    /// Remove an I/O daemon from the cluster for good: nothing waits for it any more, and it cannot
    /// return. Refused while it is up, and while files have parts on it unless `lost` is set.
    /// Repeatable.
    IodRemove = 0x01dc {
        /// The daemon.
        iod: IodId,
        /// Whether to give up the data on it.
        lost: bool,
    } -> ();
    /// For fsck: files of a shard with a part on an I/O daemon, in the order of their index.
    FsckAffected = 0x01dd {
        /// The daemon.
        iod: IodId,
        /// The shard.
        shard: ShardId,
        /// Files after this one.
        after: FileIndex,
    } -> FsckAffectedReply;
    /// The reason why the file system needs fsck, if it does: its metadata was salvaged or loaded
    /// from a dump. `clear` clears the flag after a clean check.
    NeedsFsck = 0x01d0 {
        /// Whether the check found no problem.
        clear: bool,
    } -> Option<String>;

    /// File handles of an open file for the NFS data servers of its I/O daemons
    /// ([`crate::DataServerHandle`]). Refused with `Unsupported` where the layout cannot be
    /// expressed as an NFSv4.1 file layout.
    GetDataServerHandles = 0x01e2 {
        /// The open file.
        open_id: u64,
        /// The file.
        file: FileIndex,
        /// What the handles allow: at most the access mode of the open.
        rights: Rights,
    } -> DataServerHandlesReply;
    /// A secret that all gateways of the cluster share, for the handles that they give out. Only
    /// for the holder of a client key that reaches the whole file system.
    GetGatewaySecret = 0x01e4 {} -> GatewaySecretReply;
    /// From an I/O daemon: the size of a file, to tell a hole from the end of the file.
    GetFileSize = 0x01e3 {
        /// The file.
        file: FileIndex,
    } -> FileSizeReply;

    /// Request the delegation of a file that the session has open. Returns its number, as that of a
    /// lease; `None` if something conflicts; the call never waits.
    LeaseDelegation = 0x01e5 {
        /// The file.
        file: FileIndex,
        /// [`LeaseMode::Read`] or [`LeaseMode::Write`].
        mode: LeaseMode,
    } -> Option<u64>;

    /// Open an entry of a directory, or create it. A symbolic link is not followed: it is refused
    /// with `TooManyLinks`, as by `open(2)` with `O_NOFOLLOW`; a directory with `IsDirectory`, and
    /// other files without bytes with `NoDevice`. Grants no lease.
    OpenEntry = 0x01f0 {
        /// The directory.
        dir: FileIndex,
        /// The name.
        name: Vec<u8>,
        /// Whether the file may be created. If so, the call has a slot.
        create: CreateMode,
        /// Truncate an existing file.
        truncate: bool,
        /// Permission bits of a new file.
        mode: u32,
        /// The umask, used where the directory has no default access control list.
        umask: u32,
        /// The access mode.
        rights: Rights,
        /// What the open denies to other opens. If not empty, the call has a slot.
        deny: Deny,
    } -> OpenEntryReply;
    /// Make an entry that is not a regular file, or give a file one more name.
    MakeEntry = 0x01f1 {
        /// The directory.
        dir: FileIndex,
        /// The name.
        name: Vec<u8>,
        /// What to make.
        kind: EntryKind,
        /// Permission bits; 0 for a symbolic link and for a link.
        mode: u32,
        /// The umask, used where the directory has no default access control list.
        umask: u32,
        /// Device number; 0 for everything but devices.
        device: u64,
        /// What a symbolic link points to; empty for everything else.
        target: Vec<u8>,
        /// The file that gets the name; `Some` for a link only.
        file: Option<FileIndex>,
    } -> MakeEntryReply;
    /// Remove a name of a file, or an empty directory.
    RemoveEntry = 0x01f2 {
        /// The directory.
        dir: FileIndex,
        /// The name.
        name: Vec<u8>,
    } -> DirectoryChange;
    /// Rename; atomic for every observer (I7).
    RenameEntry = 0x01f3 {
        /// The old directory.
        from_dir: FileIndex,
        /// The old name.
        from_name: Vec<u8>,
        /// The new directory.
        to_dir: FileIndex,
        /// The new name.
        to_name: Vec<u8>,
        /// What to do if the new name exists.
        mode: RenameMode,
    } -> RenameEntryReply;

    /// From a gateway: what its next start needs to know of this session. Sent on each new
    /// connection, since the server holds it in memory. Refused with `Busy` if the record is empty
    /// and another session of this name without a record is connected: two gateways have one name.
    SetGatewayRecord = 0x01eb {
        /// The name of the gateway, 1 to `GATEWAY_NAME_BYTES_MAX` bytes.
        gateway: String,
        /// The record of the gateway's client, at most `GATEWAY_RECORD_BYTES_MAX` bytes. Empty for
        /// the session of the gateway itself.
        record: Vec<u8>,
    } -> ();
    /// From a gateway: live sessions that an earlier start of a gateway began with the same key, in
    /// the order of their numbers. An empty reply ends the listing.
    ListGatewaySessions = 0x01ec {
        /// The name of the gateway.
        gateway: String,
        /// Sessions after this one.
        after: SessionId,
    } -> Vec<GatewaySession>;
    /// From the next start of a gateway: continue a session of the earlier start, instead of
    /// [`OpenSession`]. Connections of the earlier start are refused from then on. `TryAgain` while
    /// the earlier start is connected or one of its calls runs. Repeatable by the same holder.
    AdoptSession = 0x01ed {
        /// The session.
        session: SessionId,
        /// The session of the gateway itself that continues it. It rises from start to start.
        holder: SessionId,
        /// Whether the holder has continued it before, so that it can reclaim the session from a
        /// restarted server.
        again: bool,
        /// Name of the client for `braid status`, where the server does not know it any more.
        client: String,
    } -> OpenSessionReply;
    /// Open files of the session, in the order of their handles, at most `RECLAIM_OPENS_MAX`.
    ListOpens = 0x01ee {
        /// Handles after this one.
        after: u64,
    } -> Vec<ReclaimedOpen>;
    /// Locks of the session, in the order of file, kind, owner and first byte, at most
    /// `RECLAIM_LOCKS_MAX`.
    ListLocks = 0x01ef {
        /// Locks after this one.
        after: Option<LockRequest>,
    } -> Vec<LockRequest>;

    /// Change attributes and the NFSv4 access control list, all or none. The mode is set before the
    /// list, which then decides its permission bits (RFC 8881 6.4.1.3). A symbolic link at the end
    /// of the path is not followed; it has no list.
    SetAttributesAndAcl = 0x01f8 {
        /// The path.
        at: PathRef,
        /// The changes.
        changes: AttributeChanges,
        /// The list, as the extended attribute `system.nfs4_acl` has it.
        nfs4_acl: Vec<u8>,
    } -> Attributes;

    /// Change attributes and the time of creation, all or none. A symbolic link at the end of the
    /// path is not followed. The right to set the time of the last write is needed.
    SetAttributesAndBirth = 0x01fa {
        /// The path.
        at: PathRef,
        /// The changes.
        changes: AttributeChanges,
        /// The time of creation.
        btime: Timestamp,
    } -> Attributes;

    /// Reserve indexes of regular files, for [`ImportEntries`]: this many, from the returned one
    /// on. Nothing else ever gets one of them. At most `RESERVED_FILES_MAX`.
    ReserveFiles = 0x01f6 {
        /// How many.
        count: u32,
    } -> FileIndex;
    /// Make existing files of disks files of the cluster, with all their attributes. Each entry is
    /// a change of its own; the reply has the outcome of each, in order, once all survive a loss of
    /// power. Repeatable: an entry that is there already is a success. At most
    /// `IMPORTED_ENTRIES_MAX`.
    ImportEntries = 0x01f7 {
        /// The entries.
        entries: Vec<ImportEntry>,
    } -> Vec<ImportedEntry>;

    /// The entry of a directory whose name equals this one without regard to case: the name itself,
    /// else the first one of a listing. A symbolic link is not followed. The first call that misses
    /// in a directory may take long: it indexes its names.
    LookUpFolded = 0x01f9 {
        /// The directory.
        dir: FileIndex,
        /// The name.
        name: Vec<u8>,
    } -> LookUpFoldedReply;
}

wire_struct! {
    /// A session.
    pub struct OpenSessionReply {
        /// The session.
        session: SessionId,
        /// The key that the connection proved; a part of the credential for I/O daemons.
        key: KeyId,
        /// The user whose ticket the connection proved; a part of the credential too.
        user: Option<u64>,
        /// The server's epoch.
        epoch: MdsEpoch,
        /// Secret that proves the session to I/O daemons (`Credential::Session`).
        secret: [u8; KEY_BYTES],
        /// Replay slots of the session.
        slots: u32,
        /// The caller's identity, as the server sees it.
        identity: Identity,
        /// Whether it may define other identities.
        vouches: bool,
        /// The server ends a session after this many milliseconds of silence.
        silent_ms_max: u32,
        /// The cluster map.
        map: ClusterMap,
    }

    /// A file that a session had open before the server restarted.
    pub struct ReclaimedOpen {
        /// The handle from an earlier epoch.
        open_id: u64,
        /// The file.
        file: FileIndex,
        /// The access mode.
        rights: Rights,
        /// What the open denies to other opens.
        deny: Deny,
    }

    /// Changes since the last renewal.
    pub struct RenewReply {
        /// The server's epoch.
        epoch: MdsEpoch,
        /// The cluster map's epoch.
        map_epoch: MapEpoch,
    }

    /// What an agent writes into tickets.
    pub struct AgentCheckReply {
        /// The agent's session.
        session: SessionId,
        /// Its key.
        key: KeyId,
        /// The server's epoch.
        epoch: MdsEpoch,
    }

    /// Handles for NFS data servers.
    pub struct DataServerHandlesReply {
        /// One for each part of the file, in order.
        handles: Vec<Vec<u8>>,
        /// The layout that they belong to.
        layout: Layout,
    }

    /// What gateways share.
    pub struct GatewaySecretReply {
        /// The cluster.
        cluster: ClusterUuid,
        /// The secret. It does not change.
        secret: [u8; KEY_BYTES],
    }

    /// A session that a gateway began for one of its clients.
    pub struct GatewaySession {
        /// The session.
        session: SessionId,
        /// The record of the client; empty for the session of the gateway itself.
        record: Vec<u8>,
    }

    /// The size of a file.
    pub struct FileSizeReply {
        /// Size in bytes.
        bytes: ByteCount,
    }

    /// Some entries of a directory.
    pub struct ReadDirectoryReply {
        /// Entries in cookie order.
        entries: Vec<DirectoryEntry>,
        /// Whether these were the last entries.
        end: bool,
        /// The last cookie that the directory has assigned. Names that are created or moved later
        /// get higher cookies. A listing that stops at the value of its first reply ends, even if
        /// names are moved meanwhile.
        last_cookie: u64,
    }

    /// A file that was created or found.
    pub struct CreateReply {
        /// Its attributes.
        attributes: Attributes,
        /// Whether this call created it.
        created: bool,
        /// Handle and capability, if it was opened.
        opened: Option<OpenReply>,
        /// Attributes of its directory after the creation; for a session that holds leases.
        directory: Option<Attributes>,
    }

    /// A directory that was created.
    pub struct MakeReply {
        /// Its attributes.
        attributes: Attributes,
        /// Attributes of its parent directory after the creation; for a session that holds leases.
        directory: Option<Attributes>,
    }

    /// A name that was removed.
    pub struct RemoveReply {
        /// Attributes of its directory after the removal; for a session that holds leases.
        directory: Option<Attributes>,
    }

    /// The names lease of a directory.
    pub struct NamesGrant {
        /// Number of the grant.
        number: u64,
        /// Attributes of the directory under the lease.
        attributes: Attributes,
    }

    /// The layout lease of a file.
    pub struct LayoutGrant {
        /// Number of the grant.
        number: u64,
        /// The layout under the lease.
        layout: Layout,
    }

    /// An open file.
    pub struct OpenReply {
        /// The handle, unique in the session.
        open_id: u64,
        /// Its attributes.
        attributes: Attributes,
        /// Placement of its parts. The capability has it too, but only I/O daemons read that.
        layout: Layout,
        /// Parts that are recorded as existing.
        existing_parts: Vec<u8>,
        /// The signed capability.
        capability: Vec<u8>,
        /// The data lease granted with the open, if requested and without conflict.
        lease: LeaseGrant,
        /// With a quota: how far the file may grow before the client must call
        /// [`ExtendGrowthGrant`].
        growth_grant: Option<u64>,
    }

    /// Changes of attributes; `None` leaves an attribute unchanged.
    pub struct AttributeChanges {
        /// Permission bits.
        mode: Option<u32>,
        /// Owner.
        uid: Option<u64>,
        /// Group.
        gid: Option<u64>,
        /// Size in bytes.
        bytes: Option<ByteCount>,
        /// Last read.
        atime: Option<SetTime>,
        /// Last write.
        mtime: Option<SetTime>,
        /// Attribute flags: those of `braid_types::dos_attributes`.
        flags: Option<u32>,
        /// Clear setuid in the present mode, and setgid if the group may execute, because a caller
        /// without the right to keep them is about to write. A directory keeps both. Also removes
        /// file capabilities. Allowed to a client that has the file open for writing.
        drop_set_ids: bool,
        /// Remove file capabilities (`security.capability`), because of a write. Allowed to a
        /// client that has the file open for writing.
        drop_capabilities: bool,
    }

    /// Room.
    pub struct StatFsReply {
        /// All of it.
        total: ByteCount,
        /// Unused bytes.
        free: ByteCount,
        /// Bytes that an unprivileged user may still write.
        available: ByteCount,
        /// Files there are.
        files: u64,
        /// Maximum number of files, where a quota limits it.
        files_max: Option<u64>,
        /// I/O daemons that are up.
        iods_up: u32,
        /// All I/O daemons, without removed ones.
        iods: u32,
    }

    /// A layout.
    pub struct LayoutShowReply {
        /// The file's layout; `None` for a directory.
        layout: Option<Layout>,
        /// The default for new files here (for a file: of its directory).
        layout_hint: LayoutHint,
        /// Parts that are recorded as existing.
        existing_parts: Vec<u8>,
    }

    /// A new key.
    pub struct KeyAddReply {
        /// Its id.
        key: KeyId,
        /// The key itself. It is shown only once.
        secret: [u8; KEY_BYTES],
    }

    /// A client key.
    pub struct KeyInfo {
        /// Its id.
        key: KeyId,
        /// Name for people.
        name: String,
        /// What it may do.
        rights: KeyRights,
        /// Whether it was revoked.
        revoked: bool,
        /// Sessions that it has now.
        sessions: u32,
    }

    /// What a client key may do.
    pub struct KeyRights {
        /// No changes.
        read_only: bool,
        /// All users act as this (uid, gid), root included.
        squash: Option<(u64, u64)>,
        /// Limited to this path; empty for everything.
        subtree: Vec<u8>,
        /// Whether the key also has the administrator role.
        admin: bool,
    }

    /// Present state of the metadata server.
    pub struct MdsStatusReply {
        /// Its epoch.
        epoch: MdsEpoch,
        /// Client sessions.
        sessions: u32,
        /// Open files.
        open_files: u64,
        /// Files whose size is in their objects.
        sizes_in_objects: u64,
        /// Objects waiting to be deleted.
        deletions_pending: u64,
        /// Truncates and punches in progress.
        intents_pending: u64,
        /// Whether it is still in the grace period after a restart.
        grace: bool,
        /// The cluster map.
        map: ClusterMap,
        /// Milliseconds since the last contact with each I/O daemon, in the order of the map.
        last_contact_ms: Vec<u64>,
    }

    /// The registration of an I/O daemon.
    pub struct RegisterIodReply {
        /// Its stable id.
        id: IodId,
        /// The same as a heartbeat's reply.
        state: HeartbeatReply,
    }

    /// What an I/O daemon must know.
    pub struct HeartbeatReply {
        /// The server's epoch.
        epoch: MdsEpoch,
        /// Capabilities of older epochs are refused.
        epoch_min: MdsEpoch,
        /// The cluster map's epoch.
        map_epoch: MapEpoch,
        /// The server's time, from which the daemon derives its clock offset.
        now: Timestamp,
        /// Once it has applied `fenced`, the daemon has every fence up to this number.
        fence: u64,
        /// Sessions to refuse permanently, of the fences that the daemon has not confirmed. A range
        /// may contain further sessions; all of it is refused.
        fenced: Vec<SessionRange>,
        /// Whether older fences follow after these are confirmed. Until then the daemon does not
        /// start to serve, and does not extend its serving time.
        fences_follow: bool,
    }

    /// Consecutive sessions.
    pub struct SessionRange {
        /// The first.
        first: SessionId,
        /// The last; not below the first.
        last: SessionId,
    }

    /// A file, for fsck.
    pub struct FsckFile {
        /// The file.
        file: FileIndex,
        /// Its recorded size.
        bytes: ByteCount,
        /// Whether its size is in its objects.
        size_in_objects: bool,
        /// Its size generation.
        size_generation: SizeGeneration,
        /// Its layout.
        layout: Layout,
        /// Parts recorded as existing.
        existing_parts: Vec<u8>,
        /// A path to it, if one is known; empty for an orphan that is still open.
        path: Vec<u8>,
    }

    /// Files that have a part on an I/O daemon.
    pub struct FsckAffectedReply {
        /// Some of the files. More may follow even if this is empty.
        files: Vec<FsckFile>,
        /// Where to continue; `None` at the end of the shard.
        next: Option<FileIndex>,
    }

    /// The result of a namespace check.
    pub struct FsckNamespaceReply {
        /// Inodes checked.
        inodes: u64,
        /// Entries checked.
        entries: u64,
        /// Problems.
        problems: Vec<FsckProblem>,
    }

    /// A problem that fsck found.
    pub struct FsckProblem {
        /// The file.
        file: FileIndex,
        /// The kind of problem.
        kind: FsckProblemKind,
        /// Description for people.
        detail: String,
        /// Whether it was mended.
        mended: bool,
    }

    /// A repair of a file.
    pub struct FsckMend {
        /// Record this size.
        bytes: Option<ByteCount>,
        /// Record these parts as existing.
        existing_parts: Option<Vec<u8>>,
    }
}

impl ReadDirectoryReply {
    /// Removes entries with a cookie above `until`, where the listing ends.
    pub fn end_at(&mut self, until: u64) {
        let within = self.entries.partition_point(|entry| entry.cookie <= until);
        self.end |= within < self.entries.len();
        self.entries.truncate(within);
    }
}

impl AttributeChanges {
    /// No changes.
    pub fn none() -> Self {
        Self {
            mode: None,
            uid: None,
            gid: None,
            bytes: None,
            atime: None,
            mtime: None,
            flags: None,
            drop_set_ids: false,
            drop_capabilities: false,
        }
    }
}

impl Default for AttributeChanges {
    fn default() -> Self {
        Self::none()
    }
}

impl KeyRights {
    /// All rights except the administrator's.
    pub fn full() -> Self {
        Self { read_only: false, squash: None, subtree: Vec::new(), admin: false }
    }
}

wire_struct! {
    /// A time to set.
    pub struct SetTime {
        /// The time; `None` for the server's present time.
        time: Option<Timestamp>,
    }
}

wire_enum! {
    /// What to do if the new name exists.
    pub enum RenameMode {
        /// Replace it.
        Replace = 1,
        /// Fail.
        NoReplace = 2,
        /// Exchange the two names.
        Exchange = 3,
    }

    /// Whether the attribute may or must exist.
    pub enum XattrMode {
        /// Create or replace.
        Either = 1,
        /// Only create.
        Create = 2,
        /// Only replace.
        Replace = 3,
    }

    /// The kind of problem that fsck found.
    pub enum FsckProblemKind {
        /// The number of names differs from the recorded one.
        LinkCount = 1,
        /// No path leads to it.
        Unreachable = 2,
        /// An entry names a file that does not exist.
        DanglingEntry = 3,
        /// Name index and cookie index disagree.
        EntryIndex = 4,
        /// A record cannot be read.
        Unreadable = 5,
    }
}
