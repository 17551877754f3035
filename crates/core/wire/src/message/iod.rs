//! Calls of an I/O daemon.
//!
//! Data calls name a capability by a *handle*: a number that the client picks, per connection. The
//! first call that uses a handle carries the signed capability in `present`; later ones leave it
//! empty. A call covers every part of the file that the daemon holds by the capability's layout:
//! client and daemon unfold the same request with the same code, so that no list of parts travels.
//! Its payload is the daemon's bytes of the request, packed, in request order.

use braid_layout::Request;
use braid_types::{
    ByteCount, ConnectionId, FileOffset, MdsEpoch, ObjectId, PartIndex, SessionId, SizeGeneration,
    Timestamp, WriteVerifier,
};

use super::{
    calls,
    collective::{CollectiveKind, TaskFamily},
    types::{ObjectInfo, ObjectRecord, Space},
};
use crate::codec::{wire_enum, wire_struct};

calls! {
    /// A call of an I/O daemon.
    IodRequest;

    /// Read. Answered by data frames and a final one (which may carry the last payload).
    ///
    /// The payload is the daemon's bytes of the request, holes as zeros. It may end early, at any point
    /// after which no wanted byte exists in any object here; the client takes what is missing as
    /// zeros. `ends` tells where the objects end, so that the client can tell a hole from the end of
    /// the file.
    Read = 0x0200 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// What is wanted, of the whole file.
        request: Request,
    } -> ReadReply;
    /// Write. The request frame's payload is the daemon's bytes of the request, at most one window.
    Write = 0x0201 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// Where the bytes go, of the whole file.
        request: Request,
    } -> WriteReply;
    /// Force everything written to the file's objects here to disk (I6).
    Flush = 0x0202 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
    } -> FlushReply;
    /// How long the file's objects here are.
    ObjectSizes = 0x0203 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
    } -> Vec<ObjectInfo>;
    /// Reserve room for a range of the file.
    Allocate = 0x0204 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// Where the range starts.
        offset: FileOffset,
        /// How long it is.
        bytes: ByteCount,
        /// Whether the file's size stays as it is.
        keep_size: bool,
    } -> FlushReply;
    /// Forget capability handles of this connection.
    Release = 0x0205 {
        /// The handles.
        handles: Vec<u32>,
    } -> ();
    /// The next data or hole of the file at or after an offset, as far as this daemon's objects tell.
    Seek = 0x0206 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// From here.
        offset: FileOffset,
        /// What is sought.
        what: SeekWhat,
    } -> Option<FileOffset>;
    /// Copy a range of another file, where both lie alike on the daemons (`Layout::lies_as`): of each object here. Bytes that
    /// the source does not have are zeros.
    CopyRange = 0x0207 {
        /// Capability handle of the file that is written.
        handle: u32,
        /// Its signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// The signed capability of the file that is read, of the same session.
        source: Vec<u8>,
        /// Where the range starts in the file that is read.
        from: FileOffset,
        /// Where it goes in the file that is written.
        to: FileOffset,
        /// How long it is; at most 64 MiB.
        bytes: ByteCount,
    } -> WriteReply;

    /// From the metadata server: set the length of objects, with a new size generation (I5). May be repeated.
    Truncate = 0x0221 {
        /// Objects and their new lengths. An object that is not there and whose length is 0 stays absent, unless
        /// `make_absent`.
        objects: Vec<ObjectLength>,
        /// The new size generation.
        size_generation: SizeGeneration,
        /// Layout and owner for the record of an object that must be made.
        capability: Vec<u8>,
        /// Whether an object that is not there and not recorded is made even if it stays empty: somebody
        /// holds a write capability of an older generation, and only an object can refuse it.
        make_absent: bool,
    } -> Vec<ObjectInfo>;
    /// From the metadata server: make a range of the file read as zeros, with a new size generation (I5).
    Punch = 0x0211 {
        /// A capability for the file, signed by the metadata server for itself.
        capability: Vec<u8>,
        /// Where the hole starts.
        offset: FileOffset,
        /// How long it is.
        bytes: ByteCount,
        /// The new size generation.
        size_generation: SizeGeneration,
    } -> ();
    /// From the metadata server: delete objects. Those that are not there count as deleted.
    Delete = 0x0212 {
        /// The objects.
        objects: Vec<ObjectId>,
        /// Whether to answer only when no loss of power brings one of them back.
        durable: bool,
    } -> ();
    /// From the metadata server: how long objects are; asked while the size mark stands (I5).
    CollectSizes = 0x0213 {
        /// The objects.
        objects: Vec<ObjectId>,
        /// Whether to force them to disk first.
        flush: bool,
    } -> CollectReply;
    /// From the metadata server: refuse these sessions from now on. Acknowledged when it holds (I4).
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
        /// Where the last call ended; empty for the beginning.
        cursor: Vec<u8>,
        /// At most this many.
        count_max: u32,
    } -> ListObjectsReply;
    /// Room on the disk.
    DiskSpace = 0x0216 {} -> Space;
    /// For fsck: move an object to the daemon's lost+found. Nothing is deleted.
    MoveToLost = 0x0217 {
        /// Which.
        object: ObjectId,
    } -> ();
    /// Force everything to disk that the daemon acknowledged before it got this, to whomever. Any client may ask; those who ask
    /// while the daemon is at it share the next flush.
    FlushAll = 0x0218 {} -> FlushReply;
    /// Carry out nothing more of these connections, which the caller has given up. Acknowledged when no slice of their
    /// work runs and none will start: what was written through them is written, the rest never will be. One that
    /// the daemon does not know is gone already.
    Abandon = 0x0219 {
        /// At most 256, all of the caller's own session.
        connections: Vec<ConnectionId>,
    } -> ();
    /// `Write` by a client that gathers: it tells what it let go of its room, uses room, and asks for more (ADR 0014).
    WriteWithRoom = 0x0222 {
        /// Capability handle.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// Where the bytes go, of the whole file.
        request: Request,
        /// The caller's account.
        room: RoomAccount,
        /// How much room the call wants besides what it has.
        wanted: ByteCount,
        /// How much of its room the bytes were held in; 0: they are written as by `Write`.
        uses: ByteCount,
        /// When the program wrote the bytes, by the metadata server's clock: the objects' time. `None`: now (ADR 0034).
        modified: Option<Timestamp>,
    } -> WriteWithRoomReply;
    /// Of the caller's session: what it let go of its room here. A term of which nothing is left ends.
    ReturnRoom = 0x021b {
        /// The caller's account.
        room: RoomAccount,
    } -> ();
    /// One request for every task of a program (1996 paper, 2.3.1; ADR 0015): from one of them, the master. It is carried out as
    /// the tasks join; each byte of the disk is read or written once.
    Collect = 0x021c {
        /// Capability handle, of the master.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// Names the collective request; random, so that nobody else can.
        collective: [u8; 16],
        /// What it does.
        kind: CollectiveKind,
        /// What each task asks, by rank.
        tasks: Vec<TaskFamily>,
        /// The session of each task, by rank: how many tasks in a row are of each.
        sessions: Vec<(SessionId, u32)>,
    } -> ();
    /// One task's bytes of a collective request that reads, from where its last such call ended. Answered as `Read` is. May
    /// come before the `Collect`.
    JoinRead = 0x021d {
        /// Capability handle, of the task.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// Which collective request.
        collective: [u8; 16],
        /// Which of its tasks.
        rank: u32,
        /// How many of the task's bytes at this daemon earlier calls had.
        skip: ByteCount,
        /// How many this one wants; at most one window.
        bytes: ByteCount,
        /// How long it waits for the other tasks when nothing moves; then the collective request fails for all of them.
        wait_ms: u32,
    } -> ReadReply;
    /// One task's bytes of a collective request that writes: the frame's payload, from where its last such call ended. Answered when
    /// they are taken; when they are the task's last, when all of them are written.
    JoinWrite = 0x021e {
        /// Capability handle, of the task.
        handle: u32,
        /// The signed capability, when the handle is new on this connection; else empty.
        present: Vec<u8>,
        /// Which collective request.
        collective: [u8; 16],
        /// Which of its tasks.
        rank: u32,
        /// How many of the task's bytes at this daemon earlier calls had.
        skip: ByteCount,
        /// How long it waits for the other tasks when nothing moves; then the collective request fails for all of them.
        wait_ms: u32,
    } -> WriteReply;
    /// What the daemon's disk does by itself, in a file without a name that is gone afterwards: for `braid bench`. Holders of a client
    /// key alone may ask, not users with a ticket; who asks while the daemon is at it is told `Busy`, and `NoSpace` where the file would be over a tenth of what is free.
    MeasureDisk = 0x021f {
        /// How long the file is at most: 1 to 256 MiB.
        bytes: ByteCount,
        /// How long each of the five parts takes, and its last flush on top: 1 to 2000.
        part_ms: u32,
        /// How many threads sync, and read at random places, at once: 1 to 64.
        at_once: u16,
    } -> DiskRates;
}

wire_struct! {
    /// What a disk did by itself.
    pub struct DiskRates {
        /// Bytes written in order, flushed before a byte was written again and at the end.
        written: DiskWork,
        /// Pages of 4 KiB written at random places, flushed after every 256.
        random_writes: DiskWork,
        /// Pages of 4 KiB written at random places, each flushed by who wrote it, many at once.
        syncs: DiskWork,
        /// Pages of 4 KiB read at random places, from the disk as far as the system drops pages when asked to; many at once.
        random_reads: DiskWork,
        /// Bytes read in order, from the disk as far as the system drops pages when asked to.
        read: DiskWork,
    }

    /// An amount, and the time that it took.
    pub struct DiskWork {
        /// Bytes or pages.
        amount: u64,
        /// Nanoseconds.
        nanos: u64,
    }

    /// The end of a read.
    pub struct ReadReply {
        /// Payload bytes sent in all frames of the reply.
        bytes: ByteCount,
        /// The length of each object of the file here.
        ends: Vec<ObjectEnd>,
    }

    /// Where an object ends.
    pub struct ObjectEnd {
        /// The part.
        part: PartIndex,
        /// Its length; 0 when it is not there.
        bytes: ByteCount,
    }

    /// The end of a write.
    pub struct WriteReply {
        /// Payload bytes written.
        bytes: ByteCount,
        /// The write verifier (I6).
        verifier: WriteVerifier,
    }

    /// The end of a write by a client that gathers.
    pub struct WriteWithRoomReply {
        /// Payload bytes written.
        bytes: ByteCount,
        /// The write verifier (I6).
        verifier: WriteVerifier,
        /// The session's room; `None`: it has none, whatever it had.
        room: Option<Room>,
        /// The objects that were written, as they are after it; none when they are more than 16.
        objects: Vec<ObjectInfo>,
    }

    /// What a session knows of its room on a daemon.
    pub struct RoomAccount {
        /// Which term the sum is of; 0: none.
        term: u64,
        /// All that was let go in the term.
        released: ByteCount,
    }

    /// What a daemon keeps for a session.
    pub struct Room {
        /// Counts anew with each term.
        term: u64,
        /// All that was granted in the term.
        granted: ByteCount,
        /// How long what is not used may be taken into use, from when the request was sent.
        holds_ms: u32,
    }

    /// The end of a flush.
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

    /// Sizes for the metadata server.
    pub struct CollectReply {
        /// In the order asked.
        objects: Vec<ObjectInfo>,
        /// The write verifier (I6).
        verifier: WriteVerifier,
    }

    /// A stretch of the daemon's objects.
    pub struct ListObjectsReply {
        /// Objects with their records.
        objects: Vec<ObjectRecord>,
        /// Files in the object directories that are not objects.
        strangers: Vec<Vec<u8>>,
        /// Where to go on; `None` at the end.
        cursor: Option<Vec<u8>>,
    }
}

wire_enum! {
    /// What is sought.
    pub enum SeekWhat {
        /// The next byte that is not in a hole.
        Data = 1,
        /// The next byte that is in a hole.
        Hole = 2,
    }
}
