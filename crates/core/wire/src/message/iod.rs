//! Calls of an I/O daemon.
//!
//! Data calls name a capability by a *handle*: a number that the client chooses per connection. The
//! first call with a handle carries the signed capability in `present`; later calls leave it empty.
//! A call covers every part of the file that the daemon holds by the capability's layout. Client
//! and daemon unfold the same request with the same code, so no list of parts is sent. The payload
//! is the daemon's bytes of the request, packed, in request order.

use braid_layout::Request;
use braid_types::{
    ByteCount, ConnectionId, FileOffset, MdsEpoch, ObjectId, PartIndex, SessionId, SizeGeneration,
    Timestamp, WriteVerifier,
};

use super::{
    calls,
    collective::{CollectiveKind, StridedRequests},
    types::{ObjectInfo, ObjectRecord, Space},
};
use crate::codec::{wire_enum, wire_struct};

calls! {
    /// A call of an I/O daemon.
    IodRequest;

    /// Read. Answered by data frames and a final one (which may carry the last payload).
    ///
    /// The payload is the daemon's bytes of the request; holes are zeros. It may end early at any
    /// point after which no wanted byte exists in any object here; the client treats the missing
    /// bytes as zeros. `ends` gives the ends of the objects, so that the client can distinguish a
    /// hole from the end of the file.
    Read = 0x0200 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// The wanted bytes, as a request on the whole file.
        request: Request,
    } -> ReadReply;
    /// Write. The request frame's payload is the daemon's bytes of the request, at most one window.
    Write = 0x0201 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// The destination of the bytes, as a request on the whole file.
        request: Request,
    } -> WriteReply;
    /// Flush all written bytes of the file's objects here to disk (I6).
    Flush = 0x0202 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
    } -> FlushReply;
    /// Lengths of the file's objects here.
    ObjectSizes = 0x0203 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
    } -> Vec<ObjectInfo>;
    /// Allocate disk space for a range of the file.
    Allocate = 0x0204 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// Start of the range.
        offset: FileOffset,
        /// Length of the range.
        bytes: ByteCount,
        /// Whether the file's size does not change.
        keep_size: bool,
    } -> FlushReply;
    /// Drop capability handles of this connection.
    Release = 0x0205 {
        /// The handles.
        handles: Vec<u32>,
    } -> ();
    /// The next data or hole of the file at or after an offset, judged by this daemon's objects
    /// alone.
    Seek = 0x0206 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// Where to start.
        offset: FileOffset,
        /// Data or hole.
        what: SeekWhat,
    } -> Option<FileOffset>;
    /// Copy a range of another file with identical placement (`Layout::has_identical_placement`),
    /// object by object. Bytes that the source lacks are zeros.
    CopyRange = 0x0207 {
        /// Capability handle of the destination file.
        handle: u32,
        /// Its signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// The signed capability of the source file, of the same session.
        source: Vec<u8>,
        /// Start of the range in the source file.
        from: FileOffset,
        /// Start of the range in the destination file.
        to: FileOffset,
        /// Length of the range; at most 64 MiB.
        bytes: ByteCount,
    } -> WriteReply;

    /// From the metadata server: set the length of objects, with a new size generation (I5).
    /// Repeatable.
    Truncate = 0x0221 {
        /// Objects and their new lengths. A missing object with the new length 0 stays absent,
        /// unless `make_absent` is set.
        objects: Vec<ObjectLength>,
        /// The new size generation.
        size_generation: SizeGeneration,
        /// Layout and owner, for the record of an object that must be created.
        capability: Vec<u8>,
        /// Whether to create a missing, unrecorded object even if it stays empty. Needed when a
        /// write capability of an older generation exists: only an object can refuse it.
        make_absent: bool,
    } -> Vec<ObjectInfo>;
    /// From the metadata server: make a range of the file read as zeros, with a new size generation
    /// (I5).
    Punch = 0x0211 {
        /// A capability for the file, signed by the metadata server for itself.
        capability: Vec<u8>,
        /// Start of the hole.
        offset: FileOffset,
        /// Length of the hole.
        bytes: ByteCount,
        /// The new size generation.
        size_generation: SizeGeneration,
    } -> ();
    /// From the metadata server: delete objects. Missing objects count as deleted.
    Delete = 0x0212 {
        /// The objects.
        objects: Vec<ObjectId>,
        /// Whether to reply only when no power loss can bring one of them back.
        durable: bool,
    } -> ();
    /// From the metadata server: lengths of objects, asked for while the size mark is set (I5).
    CollectSizes = 0x0213 {
        /// The objects.
        objects: Vec<ObjectId>,
        /// Whether to flush them to disk first.
        flush: bool,
    } -> CollectReply;
    /// From the metadata server: refuse these sessions from now on. Acknowledged when the fence is
    /// effective (I4).
    Fence = 0x0214 {
        /// The sessions.
        sessions: Vec<SessionId>,
        /// Number of the newest fence in the list.
        fence: u64,
        /// Capabilities of older epochs are refused.
        epoch_min: MdsEpoch,
    } -> ();
    /// For fsck: objects in the order of their directories.
    ListObjects = 0x0220 {
        /// Cursor of the last reply; empty for the beginning.
        cursor: Vec<u8>,
        /// Maximum number of objects.
        count_max: u32,
    } -> ListObjectsReply;
    /// Free space of the disk.
    DiskSpace = 0x0216 {} -> Space;
    /// For fsck: move an object to the daemon's lost+found. Deletes nothing.
    MoveToLost = 0x0217 {
        /// The object.
        object: ObjectId,
    } -> ();
    /// Flush everything to disk that the daemon acknowledged, to any client, before it received
    /// this call. Any client may call it. Calls that arrive while the daemon is flushing share the
    /// next flush.
    FlushAll = 0x0218 {} -> FlushReply;
    /// Abandon all requests of these connections. Acknowledged when no slice of their work runs and
    /// none will start: bytes that were written stay written, the others never will be. A
    /// connection that the daemon does not know has ended already.
    Abandon = 0x0219 {
        /// At most 256, all of the caller's own session.
        connections: Vec<ConnectionId>,
    } -> ();
    /// `Write` with a reservation: reports which reserved space the client released, uses reserved
    /// space, and asks for more (ADR 0014).
    WriteWithReservation = 0x0222 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// Where the bytes go, of the whole file.
        request: Request,
        /// The caller's reservation account.
        account: ReservationAccount,
        /// How much additional space the call wants to reserve.
        wanted: ByteCount,
        /// How many bytes of the reservation this write uses; 0: written as by `Write`.
        reserved_bytes: ByteCount,
        /// When the program wrote the bytes, on the metadata server's clock; sets the objects'
        /// mtime. `None`: now (ADR 0034).
        modified: Option<Timestamp>,
    } -> WriteWithReservationReply;
    /// Release reserved space of the caller's session at this daemon. A reservation term with
    /// nothing left ends.
    ReturnReservation = 0x021b {
        /// The caller's reservation account.
        account: ReservationAccount,
    } -> ();
    /// Begin a collective request: one request for all tasks of a program (1996 paper, 2.3.1; ADR
    /// 0015), sent by the leader task. The daemon runs it as the tasks join; it reads or writes
    /// each byte of the disk once.
    BeginCollective = 0x021c {
        /// Capability handle of the leader task.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// Id of the collective request; random, so that no one can guess it.
        collective: [u8; 16],
        /// Read or write.
        kind: CollectiveKind,
        /// Each task's request, by rank.
        tasks: Vec<StridedRequests>,
        /// The session of each task, by rank: sessions with the number of consecutive tasks.
        sessions: Vec<(SessionId, u32)>,
    } -> ();
    /// One task's bytes of a collective read, from where its last such call ended. Answered like
    /// `Read`. May arrive before the `BeginCollective`.
    JoinRead = 0x021d {
        /// Capability handle of the task.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// Id of the collective request.
        collective: [u8; 16],
        /// Rank of the task.
        rank: u32,
        /// How many of the task's bytes at this daemon earlier calls transferred.
        skip: ByteCount,
        /// How many bytes this call wants; at most one window.
        bytes: ByteCount,
        /// How long it waits for the other tasks while nothing moves. Then the collective request
        /// fails for all of them.
        wait_ms: u32,
    } -> ReadReply;
    /// One task's bytes of a collective write, in the frame's payload, from where its last such
    /// call ended. Answered when they are received. The task's last call is answered when all its
    /// bytes are written.
    JoinWrite = 0x021e {
        /// Capability handle of the task.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// Id of the collective request.
        collective: [u8; 16],
        /// Rank of the task.
        rank: u32,
        /// How many of the task's bytes at this daemon earlier calls transferred.
        skip: ByteCount,
        /// How long it waits for the other tasks while nothing moves. Then the collective request
        /// fails for all of them.
        wait_ms: u32,
    } -> WriteReply;
    /// Measure the daemon's disk, in an unnamed temporary file, for `braid bench`. Only holders of
    /// a client key may call it, not users with a ticket. Returns `Busy` while another measurement
    /// runs, and `NoSpace` if the file would exceed a tenth of the free space.
    MeasureDisk = 0x021f {
        /// Maximum length of the file: 1 to 256 MiB.
        bytes: ByteCount,
        /// Duration of each of the five parts, not counting its last flush: 1 to 2000 ms.
        part_ms: u32,
        /// Number of threads that sync and read at random positions: 1 to 64.
        threads: u16,
    } -> DiskRates;
}

wire_struct! {
    /// The measured rates of a disk.
    pub struct DiskRates {
        /// Sequential writes, flushed at the end and before a byte is written again.
        written: DiskWork,
        /// Random writes of 4 KiB pages, flushed after every 256.
        random_writes: DiskWork,
        /// Random writes of 4 KiB pages by several threads, each page flushed by its thread.
        syncs: DiskWork,
        /// Random reads of 4 KiB pages by several threads. Read from the disk as far as the system
        /// drops cached pages on request.
        random_reads: DiskWork,
        /// Sequential reads. Read from the disk as far as the system drops cached pages on request.
        read: DiskWork,
    }

    /// An amount of work, and its time.
    pub struct DiskWork {
        /// Bytes or pages.
        amount: u64,
        /// Nanoseconds.
        nanos: u64,
    }

    /// The final reply to a read.
    pub struct ReadReply {
        /// Payload bytes sent in all frames of the reply.
        bytes: ByteCount,
        /// The length of each object of the file here.
        ends: Vec<ObjectEnd>,
    }

    /// The end of an object.
    pub struct ObjectEnd {
        /// The part.
        part: PartIndex,
        /// Its length; 0 when it does not exist.
        bytes: ByteCount,
    }

    /// The reply to a write.
    pub struct WriteReply {
        /// Payload bytes written.
        bytes: ByteCount,
        /// The write verifier (I6).
        verifier: WriteVerifier,
    }

    /// The reply to a write with a reservation.
    pub struct WriteWithReservationReply {
        /// Payload bytes written.
        bytes: ByteCount,
        /// The write verifier (I6).
        verifier: WriteVerifier,
        /// The session's reservation; `None`: it has none any more.
        reservation: Option<Reservation>,
        /// The written objects after the write; empty when they are more than 16.
        objects: Vec<ObjectInfo>,
    }

    /// A session's account of its reservation at a daemon.
    pub struct ReservationAccount {
        /// The reservation term; 0: none.
        term: u64,
        /// Total of bytes released in the term.
        released: ByteCount,
    }

    /// A session's reservation at a daemon.
    pub struct Reservation {
        /// Number of the term. The totals restart with each term.
        term: u64,
        /// Total of bytes granted in the term.
        granted: ByteCount,
        /// How long unused reserved space stays valid, counted from the sending of the request.
        valid_ms: u32,
    }

    /// The reply to a flush.
    pub struct FlushReply {
        /// The write verifier (I6).
        verifier: WriteVerifier,
    }

    /// An object and a length.
    pub struct ObjectLength {
        /// The object.
        object: ObjectId,
        /// The length.
        bytes: ByteCount,
    }

    /// Object lengths for the metadata server.
    pub struct CollectReply {
        /// In the order of the request.
        objects: Vec<ObjectInfo>,
        /// The write verifier (I6).
        verifier: WriteVerifier,
    }

    /// Some of the daemon's objects.
    pub struct ListObjectsReply {
        /// Objects with their records.
        objects: Vec<ObjectRecord>,
        /// Files in the object directories that are not objects.
        foreign_files: Vec<Vec<u8>>,
        /// Cursor for the next call; `None` at the end.
        cursor: Option<Vec<u8>>,
    }
}

wire_enum! {
    /// What a seek looks for.
    pub enum SeekWhat {
        /// The next byte that is not in a hole.
        Data = 1,
        /// The next byte that is in a hole.
        Hole = 2,
    }
}
