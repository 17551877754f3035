//! Calls of the metadata server. The body of each begins with an [`Envelope`].
//!
//! A *mutating* call carries a slot and a sequence number of its session. The result is recorded with
//! the change, in one batch (I7); a retry with the same slot and sequence is answered from the record.
//! A slot's sequence rises by one per call; a slot has one call in flight.

use braid_layout::Layout;
use braid_types::{
    ByteCount, ClusterUuid, FileIndex, FileOffset, IodId, KeyId, MapEpoch, MdsEpoch, ObjectId,
    SessionId, ShardId, SizeGeneration, Timestamp, WriteVerifier,
};

use super::{
    FileKind, calls,
    lease::{LeaseGrant, LeaseMode, Recall, ReturnedLease},
    lock::{LockHolder, LockRange, LockReply, LockRequest},
    quota::{QuotaDifference, QuotaLimits, QuotaOwner, QuotaReport, QuotaWalkReply},
    types::{
        At, Attributes, ClusterMap, DirectoryEntry, Identity, IodState, LayoutWish, ObjectInfo,
        Space,
    },
};
use crate::{
    capability::Rights,
    codec::{wire_enum, wire_struct},
    deny::Deny,
    key::KEY_BYTES,
};

wire_struct! {
    /// Before every message to the metadata server.
    pub struct Envelope {
        /// Replay slot of the session; ignored when `sequence` is 0.
        slot: u32,
        /// Sequence number in the slot, from 1; 0 for calls that change nothing.
        sequence: u64,
        /// 0: the identity of the connection. Else one that [`DefineIdentity`] named; only the holder of
        /// a client key may (the host vouches for its users), never the holder of a ticket.
        identity: u32,
        /// What the client knows of files that it made and alone has written since, of those that the call is about:
        /// the server need not ask their daemons (ADR 0020). What it cannot believe it asks for as if it was not told.
        told: Vec<ToldSize>,
    }

    /// How the objects of a file are that one open file has made and alone has written.
    pub struct ToldSize {
        /// The handle that the creation gave.
        open_id: u64,
        /// Each daemon that has an object.
        daemons: Vec<ToldDaemon>,
    }

    /// What one daemon told with the replies to writes.
    pub struct ToldDaemon {
        /// The daemon.
        iod: IodId,
        /// Its write verifier, in every one of these replies.
        verifier: WriteVerifier,
        /// The file's objects there, as they were after the last write.
        objects: Vec<ObjectInfo>,
    }
}

impl Envelope {
    /// For a call that changes nothing, as the connection's own identity.
    pub const PLAIN: Self = Self { slot: 0, sequence: 0, identity: 0, told: Vec::new() };
}

calls! {
    /// A call of the metadata server.
    MdsRequest;

    /// Start a session, take part in one (another connection of it), or reclaim one after a restart.
    OpenSession = 0x01d6 {
        /// The session to take part in or to reclaim; `None` for a new one.
        session: Option<SessionId>,
        /// Who the client says it is, for `braid status`: host and program.
        client: String,
    } -> OpenSessionReply;
    /// End the session: what it has open is closed.
    CloseSession = 0x0101 {} -> ();
    /// Give a small number to an identity, for [`Envelope::identity`].
    DefineIdentity = 0x0102 {
        /// The number, from 1.
        number: u32,
        /// Who it is.
        identity: Identity,
    } -> ();
    /// Sign of life; tells what changed.
    Renew = 0x0103 {} -> RenewReply;
    /// The cluster map.
    GetClusterMap = 0x0104 {} -> ClusterMap;
    /// For an agent: a check that its session lives, before it gives out tickets in it.
    AgentCheck = 0x0105 {} -> AgentCheckReply;
    /// To a server of a new epoch, before any other call of a session that it reclaimed: what the session has open.
    /// The reply names those of the handles that the server does not take up. A repetition changes nothing.
    Reclaim = 0x0106 {
        /// Open files of the envelope's identity, at most `RECLAIM_OPENS_MAX`.
        opens: Vec<ReclaimedOpen>,
        /// Whether this was all, of every identity: what else the server has on record as open is closed.
        complete: bool,
        /// Whether the client may still hold leases that an earlier run of the server granted. It says that it has let go
        /// of them all by its first [`AwaitRecalls`] of this epoch.
        leases: bool,
    } -> Vec<u64>;

    /// Attributes.
    Stat = 0x0110 {
        /// Of what.
        at: At,
        /// Whether a symbolic link at the end of the path is followed.
        follow: bool,
    } -> Attributes;
    /// The target of a symbolic link.
    ReadLink = 0x0111 {
        /// The link.
        at: At,
    } -> Vec<u8>;
    /// A stretch of a listing.
    ReadDirectory = 0x01e0 {
        /// The directory.
        dir: FileIndex,
        /// Entries after this cookie; 0 for the beginning.
        cookie: u64,
        /// About how many bytes of reply are wanted.
        bytes_max: u32,
        /// Whether attributes come along.
        with_attributes: bool,
    } -> ReadDirectoryReply;
    /// Whether the caller may read (4), write (2), execute or search (1).
    Access = 0x0113 {
        /// What.
        at: At,
        /// The bits.
        mask: u8,
    } -> ();

    /// Create a file, or open it when it exists and `exclusive` is not set.
    Create = 0x0120 {
        /// Where.
        at: At,
        /// Permission bits.
        mode: u32,
        /// What the caller masks out of them, where the directory has no default access control list.
        umask: u32,
        /// Fail when the name exists.
        exclusive: bool,
        /// Make an existing file empty.
        truncate: bool,
        /// What it is opened for; `None` makes the file without opening it.
        rights: Option<Rights>,
        /// Wishes about its layout.
        wish: LayoutWish,
        /// The data lease that is wished with it, if nothing conflicts.
        lease: LeaseMode,
        /// What it denies to other opens, where it is opened.
        deny: Deny,
    } -> CreateReply;
    /// Open an existing file.
    Open = 0x0121 {
        /// Which.
        at: At,
        /// For what.
        rights: Rights,
        /// Make it empty.
        truncate: bool,
        /// The data lease that is wished with it, if nothing conflicts.
        lease: LeaseMode,
        /// What it denies to other opens. Not nothing: the call has a slot.
        deny: Deny,
    } -> Opened;
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
        /// What it was opened for.
        rights: Rights,
    } -> Opened;
    /// Make the file's metadata durable: size, parts, the name that it was created under (I6).
    FsyncFile = 0x0124 {
        /// Which.
        file: FileIndex,
    } -> Attributes;
    /// Make a directory's changes durable.
    FsyncDirectory = 0x0125 {
        /// Which.
        dir: FileIndex,
    } -> ();
    /// Create an open file without a name (`O_TMPFILE`). Until `MakeLink` from its index gives it one, it goes when it is
    /// closed.
    CreateUnnamed = 0x0126 {
        /// The directory as if in which it is made.
        at: At,
        /// Permission bits.
        mode: u32,
        /// What the caller masks out of them, where the directory has no default access control list.
        umask: u32,
        /// What it is opened for.
        rights: Rights,
        /// Wishes about its layout.
        wish: LayoutWish,
    } -> Opened;
    /// Change what an open file is open for, and what it denies: to exactly this. Refused where another open excludes it;
    /// then it stays as it was. A repetition changes nothing.
    SetOpenModes = 0x0127 {
        /// The handle.
        open_id: u64,
        /// Its file.
        file: FileIndex,
        /// What it is open for from now on.
        rights: Rights,
        /// What it denies from now on.
        deny: Deny,
    } -> Opened;

    /// Make a directory.
    MakeDirectory = 0x0130 {
        /// Where.
        at: At,
        /// Permission bits.
        mode: u32,
        /// What the caller masks out of them, where the directory has no default access control list.
        umask: u32,
    } -> Made;
    /// Make a special file.
    MakeNode = 0x0131 {
        /// Where.
        at: At,
        /// Fifo, socket or device.
        kind: FileKind,
        /// Permission bits.
        mode: u32,
        /// What the caller masks out of them, where the directory has no default access control list.
        umask: u32,
        /// Device number.
        device: u64,
    } -> Attributes;
    /// Make a symbolic link.
    MakeSymlink = 0x0132 {
        /// Where.
        at: At,
        /// What it points to.
        target: Vec<u8>,
    } -> Attributes;
    /// Make a hard link.
    MakeLink = 0x0133 {
        /// The file.
        from: At,
        /// Its new name.
        to: At,
    } -> Attributes;
    /// Remove a name of something that is not a directory.
    Unlink = 0x0134 {
        /// The name.
        at: At,
    } -> Removed;
    /// Remove an empty directory.
    RemoveDirectory = 0x0135 {
        /// The name.
        at: At,
    } -> Removed;
    /// Rename, atomic to every observer (I7).
    Rename = 0x0136 {
        /// Old name.
        from: At,
        /// New name.
        to: At,
        /// What if the new name exists.
        mode: RenameMode,
    } -> ();

    /// Change attributes; a size truncates or extends the file, as an intent (I5).
    SetAttributes = 0x01e1 {
        /// Of what.
        at: At,
        /// Whether a symbolic link at the end of the path is followed.
        follow: bool,
        /// The changes.
        changes: AttributeChanges,
    } -> Attributes;
    /// Make a range of the file read as zeros, as an intent (I5).
    PunchHole = 0x0141 {
        /// Which file; it must be open for writing in this session.
        file: FileIndex,
        /// Where the hole starts.
        offset: FileOffset,
        /// How long it is.
        bytes: ByteCount,
    } -> Attributes;

    /// Value of an extended attribute.
    GetXattr = 0x0150 {
        /// Of what (a final symbolic link is not followed).
        at: At,
        /// Its name, with the `user.` or other prefix.
        name: Vec<u8>,
    } -> Vec<u8>;
    /// Set an extended attribute.
    SetXattr = 0x0151 {
        /// Of what.
        at: At,
        /// Its name.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// What if it exists or not.
        mode: XattrMode,
        /// The caller has checked who asks, and that user is not in the file's group: setting the access control list
        /// drops setgid.
        drop_setgid: bool,
    } -> ();
    /// Names of all extended attributes.
    ListXattrs = 0x0152 {
        /// Of what.
        at: At,
    } -> Vec<Vec<u8>>;
    /// Remove an extended attribute.
    RemoveXattr = 0x0153 {
        /// Of what.
        at: At,
        /// Its name.
        name: Vec<u8>,
    } -> ();

    /// Room in the file system; disks that several daemons share are counted once. In a directory with a quota, what that leaves.
    StatFs = 0x0160 {
        /// Where.
        file: FileIndex,
    } -> StatFsReply;
    /// The layout of a file, or the default of a directory.
    LayoutShow = 0x0161 {
        /// Which.
        at: At,
    } -> LayoutShowReply;
    /// Set the default layout of a directory, or the layout of a file that was never written.
    LayoutSet = 0x0162 {
        /// Which.
        at: At,
        /// The wishes; all empty removes the default.
        wish: LayoutWish,
    } -> ();

    /// Make a client key.
    KeyAdd = 0x0170 {
        /// What a person calls it.
        name: String,
        /// What it may do.
        rights: KeyRights,
    } -> KeyAddReply;
    /// All client keys.
    KeyList = 0x0171 {} -> Vec<KeyInfo>;
    /// Revoke a client key: its sessions end and are fenced.
    KeyRevoke = 0x0172 {
        /// Which.
        key: KeyId,
    } -> ();
    /// Sessions, shards and log of the metadata server.
    MdsStatus = 0x0173 {} -> MdsStatusReply;
    /// Set an I/O daemon draining, or up again.
    SetIodState = 0x0174 {
        /// Which.
        iod: IodId,
        /// Draining or up.
        state: IodState,
    } -> ();

    /// From an I/O daemon: join, or say where it is now.
    RegisterIod = 0x01d8 {
        /// Its id; 0 when it has none yet.
        id: IodId,
        /// The cluster of its directory.
        cluster: ClusterUuid,
        /// Random bytes of its directory, so that an id is not claimed by another directory.
        directory: [u8; 16],
        /// Where it listens, `host:port`, one per network card.
        addresses: Vec<String>,
        /// `key=value`.
        labels: Vec<String>,
        /// Room.
        space: Space,
        /// Its write verifier.
        verifier: WriteVerifier,
        /// The longest that an object can be on its disk.
        object_bytes_max: ByteCount,
    } -> RegisterIodReply;
    /// From an I/O daemon: sign of life.
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
    /// For fsck: check names, link counts and reachability of one shard; with `mend`, mend them.
    FsckNamespace = 0x0191 {
        /// The shard.
        shard: ShardId,
        /// Whether to mend.
        mend: bool,
    } -> FsckNamespaceReply;
    /// For fsck: bring a file back under `lost+found`, or record its true size and parts.
    FsckMendFile = 0x0192 {
        /// Which file.
        file: FileIndex,
        /// What to do.
        mend: FsckMend,
    } -> ();
    /// For fsck: which of these objects belong to no file and to no pending deletion.
    FsckOrphans = 0x0193 {
        /// Objects that a daemon has.
        objects: Vec<ObjectId>,
    } -> Vec<ObjectId>;
    /// For fsck: shards in use.
    FsckShards = 0x0194 {} -> Vec<ShardId>;

    /// Ask for a lock. What the owner has on these bytes is replaced.
    LockSet = 0x01a0 {
        /// The lock.
        lock: LockRequest,
        /// 0: it does not wait. Else a number never used before in the session, for the wait.
        ticket: u64,
    } -> LockReply;
    /// Wait for a lock that `LockSet` left waiting; it is granted to nobody who is not waited with. May be sent again and again:
    /// the place in the queue is kept for some seconds.
    LockAwait = 0x01a1 {
        /// The lock, as it was asked for.
        lock: LockRequest,
        /// The wait.
        ticket: u64,
        /// When to be told that it still waits, in milliseconds; at most `LOCK_WAIT_MS_MAX`.
        wait_ms: u32,
    } -> LockReply;
    /// End a wait. Unknown ones are ignored.
    LockCancel = 0x01a2 {
        /// The wait.
        ticket: u64,
    } -> ();
    /// Which lock would be in the way of this one.
    LockTest = 0x01a3 {
        /// The lock.
        lock: LockRequest,
    } -> Option<LockHolder>;
    /// Let bytes go.
    Unlock = 0x01a4 {
        /// Which.
        range: LockRange,
    } -> ();
    /// To a server of a new epoch, before the last `Reclaim`: locks that the session holds. The reply tells the
    /// positions in `locks` of those that somebody else has by now. A repetition changes nothing.
    LockReclaim = 0x01a5 {
        /// At most `RECLAIM_LOCKS_MAX`.
        locks: Vec<LockRequest>,
    } -> Vec<u32>;
    /// Ask for the names lease of a directory; `None` when something is in its way: it is never waited for.
    LeaseNames = 0x01b0 {
        /// The directory.
        dir: FileIndex,
    } -> Option<NamesGrant>;
    /// Ask for a data lease of a file; waits, bounded, while it is recalled from others.
    LeaseData = 0x01b1 {
        /// The file.
        file: FileIndex,
        /// What is wished: more than is granted, where others use the file too.
        mode: LeaseMode,
        /// Nothing less than the mode will do.
        alone: bool,
    } -> LeaseGrant;
    /// What the server wants back, once there is something: recalls with higher numbers than `seen`, the lowest first,
    /// and none when a while has passed. The first in an epoch says that the client has let go of every lease of before.
    AwaitRecalls = 0x01b2 {
        /// Number of the newest recall that the client has taken in from this run of the server; 0 for none.
        seen: u64,
    } -> Vec<Recall>;
    /// Give leases back, recalled or not. A repetition changes nothing.
    ReturnLeases = 0x01b3 {
        /// At most `LEASES_RETURNED_MAX`.
        leases: Vec<ReturnedLease>,
    } -> ();
    /// Ask for the layout lease of a file; `None` when something is in its way: it is never waited for.
    LeaseLayout = 0x01b4 {
        /// The file.
        file: FileIndex,
    } -> Option<LayoutGrant>;
    /// Ask to write a file past the write end that came with it; the new one, at or past what is asked for, or `None` where
    /// nothing bounds it any more. A repetition changes nothing.
    ExtendWriteEnd = 0x01c0 {
        /// The handle, open for writing.
        open_id: u64,
        /// Its file.
        file: FileIndex,
        /// How far.
        end: u64,
    } -> Option<u64>;
    /// Set limits. When the reply says that a directory is not counted completely, it is to be walked.
    QuotaSet = 0x01c1 {
        /// Whose.
        owner: QuotaOwner,
        /// The limits.
        limits: QuotaLimits,
    } -> QuotaReport;
    /// Limits and usage: of the caller, of its groups, of directories; an administrator's of anybody.
    QuotaGet = 0x01c2 {
        /// Whose.
        owner: QuotaOwner,
    } -> QuotaReport;
    /// Everybody who has limits or uses something, in order.
    QuotaList = 0x01c3 {
        /// Those after this one.
        after: Option<QuotaOwner>,
    } -> Vec<QuotaReport>;
    /// Remove limits; whether there were any. A directory is to be walked then.
    QuotaRemove = 0x01c4 {
        /// Whose.
        owner: QuotaOwner,
    } -> bool;
    /// Count what is in a directory where the directory is counted: some of its entries. A repetition changes nothing.
    QuotaWalk = 0x01c5 {
        /// The directory.
        dir: FileIndex,
        /// Entries after this cookie; 0 for the beginning.
        cookie: u64,
    } -> QuotaWalkReply;
    /// Everything below a directory with a quota was walked.
    QuotaWalked = 0x01c6 {
        /// The directory.
        dir: FileIndex,
    } -> ();
    /// For fsck: count a shard's usage anew; with `mend`, record it.
    FsckUsage = 0x01c7 {
        /// The shard.
        shard: ShardId,
        /// Whether to mend.
        mend: bool,
    } -> Vec<QuotaDifference>;
    /// Take an I/O daemon out of the cluster for good: nothing waits for it any more, and it does not come back. Refused while it
    /// is up or while files have parts on it, unless `lost`. A repetition changes nothing.
    IodRemove = 0x01dc {
        /// Which.
        iod: IodId,
        /// What lies on it is given up.
        lost: bool,
    } -> ();
    /// For fsck: files of a shard of which an I/O daemon has a part, in the order of their index.
    FsckAffected = 0x01dd {
        /// The daemon.
        iod: IodId,
        /// The shard.
        shard: ShardId,
        /// Files after this one.
        after: FileIndex,
    } -> FsckAffectedReply;
    /// Why the file system must be checked, where it must: its metadata was salvaged, or loaded from a dump. `clear`
    /// takes the mark off: it was checked and found clean.
    FsckMark = 0x01d0 {
        /// Whether it is clean.
        clear: bool,
    } -> Option<String>;
}

wire_struct! {
    /// A session.
    pub struct OpenSessionReply {
        /// The session.
        session: SessionId,
        /// The key that the connection proved; part of the credential shown to I/O daemons.
        key: KeyId,
        /// The user whose ticket the connection proved; part of the credential, too.
        user: Option<u64>,
        /// The server's epoch.
        epoch: MdsEpoch,
        /// Proves the session to I/O daemons (the secret of `Credential::Session`).
        secret: [u8; KEY_BYTES],
        /// Replay slots of the session.
        slots: u32,
        /// Who the caller is, as the server sees it.
        identity: Identity,
        /// Whether it may name other identities.
        vouches: bool,
        /// A session silent for this long is ended, in milliseconds.
        silent_ms_max: u32,
        /// The cluster map.
        map: ClusterMap,
    }

    /// A file that a session had open before the server restarted.
    pub struct ReclaimedOpen {
        /// The handle that an earlier run of the server gave.
        open_id: u64,
        /// The file.
        file: FileIndex,
        /// What it was opened for.
        rights: Rights,
        /// What it denies to other opens.
        deny: Deny,
    }

    /// What changed since.
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

    /// A stretch of a listing.
    pub struct ReadDirectoryReply {
        /// Entries in cookie order.
        entries: Vec<DirectoryEntry>,
        /// Whether this was the last stretch.
        end: bool,
        /// The last cookie that the directory has given to a name: what is made or moved from now on has a later one. A listing
        /// that ends at the one of its first stretch ends, however many names are moved meanwhile.
        last: u64,
    }

    /// A file that was made or found.
    pub struct CreateReply {
        /// Its attributes.
        attributes: Attributes,
        /// Whether this call made it.
        created: bool,
        /// Handle and capability, when it was opened.
        opened: Option<Opened>,
        /// Of the directory, after it was made; for a session that holds leases.
        directory: Option<Attributes>,
    }

    /// A directory that was made.
    pub struct Made {
        /// Its attributes.
        attributes: Attributes,
        /// Of the directory that it is in, after it was made; for a session that holds leases.
        directory: Option<Attributes>,
    }

    /// A name that was removed.
    pub struct Removed {
        /// Of the directory that it was in, after it was removed; for a session that holds leases.
        directory: Option<Attributes>,
    }

    /// The names lease of a directory.
    pub struct NamesGrant {
        /// The grant's number.
        number: u64,
        /// The directory's own attributes, as they are under the lease.
        attributes: Attributes,
    }

    /// The layout lease of a file.
    pub struct LayoutGrant {
        /// The grant's number.
        number: u64,
        /// The layout, as it is under the lease.
        layout: Layout,
    }

    /// An open file.
    pub struct Opened {
        /// The handle, unique in the session.
        open_id: u64,
        /// Its attributes.
        attributes: Attributes,
        /// Where its parts lie. Also in the capability, which only I/O daemons read.
        layout: Layout,
        /// Which parts are recorded as existing.
        existing_parts: Vec<u8>,
        /// The signed capability.
        capability: Vec<u8>,
        /// The data lease that came with it, if one was wished and nothing conflicted.
        lease: LeaseGrant,
        /// Where a quota bounds it: how far the file may be written before [`ExtendWriteEnd`] is asked.
        write_end: Option<u64>,
    }

    /// Changes of attributes; `None` leaves one alone.
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
        /// Attribute flags.
        flags: Option<u32>,
        /// setuid goes from the mode as it is then, and setgid where the group may execute: somebody without the right to keep
        /// them is about to write. A directory keeps both. File capabilities go with them. Who has the file open for writing may ask.
        drop_set_ids: bool,
        /// File capabilities (`security.capability`) go: somebody is about to write. Who has the file open for writing may ask.
        drop_capabilities: bool,
    }

    /// Room.
    pub struct StatFsReply {
        /// All of it.
        total: ByteCount,
        /// What nobody has taken.
        free: ByteCount,
        /// What an ordinary user may still write.
        available: ByteCount,
        /// Files there are.
        files: u64,
        /// Files there may be, where a quota says so.
        files_max: Option<u64>,
        /// I/O daemons that are up.
        iods_up: u32,
        /// I/O daemons that there are, without those that were removed.
        iods: u32,
    }

    /// A layout.
    pub struct LayoutShowReply {
        /// The file's; `None` for a directory.
        layout: Option<Layout>,
        /// The default that new files here get (for a file: of its directory).
        wish: LayoutWish,
        /// Which parts are recorded as existing.
        existing_parts: Vec<u8>,
    }

    /// A new key.
    pub struct KeyAddReply {
        /// Its id.
        key: KeyId,
        /// The key itself. Shown once.
        secret: [u8; KEY_BYTES],
    }

    /// A client key.
    pub struct KeyInfo {
        /// Its id.
        key: KeyId,
        /// What a person calls it.
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
        /// Everybody acts as this (uid, gid), also root.
        squash: Option<(u64, u64)>,
        /// Only below this path; empty for everything.
        subtree: Vec<u8>,
        /// Whether the key may also be an administrator's.
        admin: bool,
    }

    /// The metadata server as it is now.
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
        /// Truncates and punches under way.
        intents_pending: u64,
        /// Whether it is still in the grace period after a restart.
        grace: bool,
        /// The cluster map.
        map: ClusterMap,
        /// Milliseconds since each I/O daemon of the map, in its order, was last heard.
        heard_ms_ago: Vec<u64>,
    }

    /// An I/O daemon's place in the cluster.
    pub struct RegisterIodReply {
        /// Its stable id.
        id: IodId,
        /// What a heartbeat would say.
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
        /// The server's time, from which the daemon learns its clock's offset.
        now: Timestamp,
        /// The daemon has every fence up to this number once it has applied `fenced`.
        fence: u64,
        /// Sessions to refuse for ever: those of fences that the daemon has not confirmed. A range may hold more than
        /// those: all of it is refused.
        fenced: Vec<SessionRange>,
        /// Whether older fences follow once these are confirmed: until then the daemon does not begin to serve, nor
        /// serve for longer.
        fences_follow: bool,
    }

    /// Sessions in a row.
    pub struct SessionRange {
        /// The first.
        first: SessionId,
        /// The last; not below the first.
        last: SessionId,
    }

    /// A file, for fsck.
    pub struct FsckFile {
        /// Which.
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
        /// A path to it, as far as known; empty for an orphan that is still open.
        path: Vec<u8>,
    }

    /// Files of which an I/O daemon has a part.
    pub struct FsckAffectedReply {
        /// Some of them; there may be more although there are none here.
        files: Vec<FsckFile>,
        /// Where to go on; `None` at the end of the shard.
        next: Option<FileIndex>,
    }

    /// What a check of names found.
    pub struct FsckNamespaceReply {
        /// Inodes looked at.
        inodes: u64,
        /// Entries looked at.
        entries: u64,
        /// Problems.
        problems: Vec<FsckProblem>,
    }

    /// One problem.
    pub struct FsckProblem {
        /// The file.
        file: FileIndex,
        /// What is wrong.
        kind: FsckProblemKind,
        /// For a person.
        detail: String,
        /// Whether it was mended.
        mended: bool,
    }

    /// What to do with a file.
    pub struct FsckMend {
        /// Record this size.
        bytes: Option<ByteCount>,
        /// Record these parts as existing.
        existing_parts: Option<Vec<u8>>,
    }
}

impl ReadDirectoryReply {
    /// Leaves out what has a later cookie than this, at which the listing ends.
    pub fn end_at(&mut self, until: u64) {
        let within = self.entries.partition_point(|entry| entry.cookie <= until);
        self.end |= within < self.entries.len();
        self.entries.truncate(within);
    }
}

impl AttributeChanges {
    /// Nothing.
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
    /// Everything, but not an administrator.
    pub fn full() -> Self {
        Self { read_only: false, squash: None, subtree: Vec::new(), admin: false }
    }
}

wire_struct! {
    /// A time to set.
    pub struct SetTime {
        /// The time; `None` for the server's now.
        time: Option<Timestamp>,
    }
}

wire_enum! {
    /// What if the new name exists.
    pub enum RenameMode {
        /// It is replaced.
        Replace = 1,
        /// The call fails.
        NoReplace = 2,
        /// The two names are exchanged.
        Exchange = 3,
    }

    /// What if the attribute exists or not.
    pub enum XattrMode {
        /// Create or replace.
        Either = 1,
        /// Only create.
        Create = 2,
        /// Only replace.
        Replace = 3,
    }

    /// What fsck found wrong.
    pub enum FsckProblemKind {
        /// The number of names is not the recorded one.
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
