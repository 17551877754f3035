//! Every limit of the system, each beside its reason (I9).

/// A name in a directory, in bytes. POSIX `NAME_MAX`, and what every local file system holds.
pub const NAME_BYTES_MAX: usize = 255;
/// A path in one message, in bytes. POSIX `PATH_MAX`.
pub const PATH_BYTES_MAX: usize = 4096;
/// The target of a symbolic link, in bytes. Linux refuses longer ones.
pub const SYMLINK_BYTES_MAX: usize = 4095;
/// Symbolic links followed in one path. Linux's own limit (`MAXSYMLINKS`).
pub const SYMLINK_DEPTH_MAX: usize = 40;
/// Hard links to one file. Wide enough for every backup tool; NFS carries 32 bits.
pub const LINKS_MAX: u32 = u32::MAX - 1;
/// The value of one extended attribute, in bytes. Linux `XATTR_SIZE_MAX`.
pub const XATTR_VALUE_BYTES_MAX: usize = 65_536;
/// All extended attributes of one file, in bytes. Linux `XATTR_LIST_MAX`.
pub const XATTR_LIST_BYTES_MAX: usize = 65_536;
/// The largest file, in bytes: `off_t` is signed.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Parts of one file. A layout of this many parts still fits one message.
pub const PARTS_MAX: usize = 4096;
/// Components of one layout.
pub const COMPONENTS_MAX: usize = 64;
/// Strips in the cycle of a `varstrip` distribution: one for each part of the widest file.
pub const STRIPS_MAX: usize = PARTS_MAX;
/// The smallest stripe: one page.
pub const STRIPE_BYTES_MIN: u64 = 4096;
/// The largest stripe: 1 GiB keeps products of stripe size and part count far from the 64-bit edge.
pub const STRIPE_BYTES_MAX: u64 = 1 << 30;
/// The default stripe, 1 MiB. See `docs/defaults.md`.
pub const STRIPE_BYTES_DEFAULT: u64 = 1 << 20;
/// Nesting of a view. MPI datatypes in the field are below 8 deep; 16 bounds the stack and the work.
pub const VIEW_DEPTH_MAX: usize = 16;
/// Extents in one request message. The client splits longer lists (I2).
pub const LIST_EXTENTS_MAX: usize = 16_384;
/// Patterns in one view: two for each entry of the longest list, as a vector at each of its offsets takes. MPI datatypes in
/// the field have some tens.
pub const VIEW_NODES_MAX: usize = 2 * LIST_EXTENTS_MAX;

/// Body of a frame, in bytes: a full extent list (16 B each) and change.
pub const FRAME_BODY_BYTES_MAX: usize = 512 * 1024;
/// Payload of one data frame of a reply, in bytes, so that a small reply can overtake a large one (I9).
pub const REPLY_DATA_BYTES_MAX: usize = 256 * 1024;
/// Payload wanted from or sent to one I/O daemon in one request, in bytes (I2's window).
pub const WINDOW_BYTES: u64 = 4 << 20;
/// Bytes of a range in one `CopyRange`, of all daemons together: it ends well within one attempt of a client (I8).
pub const COPY_RANGE_BYTES_MAX: u64 = 64 << 20;
/// Requests that one connection may have in flight unless the handshake grants less.
pub const CREDITS_DEFAULT: u32 = 256;
/// Capabilities that one connection may have presented and not released.
pub const CAPABILITY_HANDLES_MAX: usize = 65_536;
/// Connections that one message may abandon. A program has at most 16 to a daemon, and no call that changes
/// anything goes out while one of them is still owed.
pub const ABANDONED_CONNECTIONS_MAX: usize = 256;
/// Objects of one file of which the reply to a write, and whoever passes it on to the metadata server, tell (ADR 0020): the
/// files that this is for are small.
pub const TOLD_OBJECTS_MAX: usize = 16;
/// Accesses that one slice of a job may unfold before the daemon turns to other work (I9).
pub const JOB_SLICE_ACCESSES_MAX: usize = 1024;
/// Slices in a row that a read or a write may search without finding a byte, some 0.1 s of a processor: a view that
/// is longer to search is refused. Its client would search as long before it sent it.
pub const SEARCH_SLICES_MAX: usize = 4096;
/// Memory of the reads that one connection has under way, in bytes, from which on its next request is left in the socket: it may be over by
/// one read, of 5 MiB at most. A read of a vector takes 2 KiB, of the longest list 1 MiB.
pub const CONNECTION_READS_BYTES_MAX: usize = 4 << 20;

/// How long a call waits for a server that is gone, by default, in seconds (I8).
pub const TIMEOUT_SECONDS_DEFAULT: u64 = 30;
/// How often an I/O daemon speaks to the metadata server, in milliseconds.
pub const HEARTBEAT_MS: u64 = 1000;
/// An I/O daemon that heard nothing from the metadata server for this long stops serving (I4);
/// the metadata server waits longer than this, on its own clock, before it counts on that.
pub const HEARTBEAT_STOP_MS: u64 = 10_000;
/// The metadata server's side of [`HEARTBEAT_STOP_MS`]: twice as long covers clock drift and scheduling.
pub const HEARTBEAT_FENCED_MS: u64 = 2 * HEARTBEAT_STOP_MS;
/// After this silence an I/O daemon is shown as down and gets no new files.
pub const HEARTBEAT_DOWN_MS: u64 = 5_000;
/// After a restart the metadata server waits this long for clients to reclaim, in milliseconds.
pub const GRACE_MS: u64 = 15_000;
/// Open files in one message of a client that reclaims, so that the metadata server's lock is free in between (I9).
pub const RECLAIM_OPENS_MAX: usize = 1024;
/// Locks in one message of a client that reclaims.
pub const RECLAIM_LOCKS_MAX: usize = 1024;
/// How long one message that waits for a lock is kept by the metadata server, in milliseconds: below one attempt of a
/// client, which is a third of its 30 s, so that silence means a server that is away.
pub const LOCK_WAIT_MS_MAX: u32 = 8_000;
/// A client session that was silent for this long is ended and fenced, in milliseconds.
pub const SESSION_SILENT_MS: u64 = 60_000;

/// A client believes in its leases for this long after it sent the last renewal that was answered, in milliseconds.
pub const LEASE_STOP_MS: u64 = 10_000;
/// The metadata server's side of [`LEASE_STOP_MS`], since it last heard the client: twice as long covers clock drift,
/// scheduling, and the time that a mount needs to empty the kernel's caches.
pub const LEASE_BROKEN_MS: u64 = 2 * LEASE_STOP_MS;
/// A client that does not give a recalled lease back within this time is ended and fenced, in milliseconds. Also one that
/// was heard until then: with [`LEASE_BROKEN_MS`] after that whoever waits for it is served within the 30 s of I8.
pub const RECALL_MS: u64 = 8_000;
const _: () = assert!(RECALL_MS + LEASE_BROKEN_MS + HEARTBEAT_MS < TIMEOUT_SECONDS_DEFAULT * 1000);
/// A client that is heard meanwhile has this long, in milliseconds, for the lease of a file's bytes: what it has to write first may wait
/// for an I/O daemon as long as a call may, [`TIMEOUT_SECONDS_DEFAULT`], and a daemon that is away is not to cost it its session.
pub const RECALL_DATA_MS: u64 = 40_000;
/// Heard meanwhile: within this long, in milliseconds; two renewals.
pub const RECALL_HEARD_MS: u64 = 2 * AWAIT_RECALLS_MS;
/// The server answers an `AwaitRecalls` after this long, also when there is nothing to say: two that are lost in a row
/// end nobody's belief.
pub const AWAIT_RECALLS_MS: u64 = 3_000;
/// Recalls in one answer (I9).
pub const RECALLS_MAX: usize = 1024;
/// Leases given back in one message, so that the server's lock is free in between (I9).
pub const LEASES_RETURNED_MAX: usize = 1024;
/// Leases of one server (I9); beyond it the least used are recalled.
pub const LEASES_MAX: usize = 1_000_000;

/// Room that one session has on one I/O daemon at most, in bytes: four windows, or 200 gathered stretches of one step.
pub const ROOM_SESSION_BYTES_MAX: u64 = 16 << 20;
/// Sessions with room on one I/O daemon (I9), 64 bytes each.
pub const ROOM_SESSIONS_MAX: usize = 16_384;
/// All room together is at most this part of what is free: the rest is for whoever does not gather.
pub const ROOM_PART_OF_FREE: u64 = 8;
/// Room may be taken into use for this long after the client sent the last request that was answered, in milliseconds.
pub const ROOM_HOLDS_MS: u32 = 10_000;
/// Who gathers into room sends it within this time, in milliseconds.
pub const ROOM_GATHERED_MS_MAX: u64 = 10_000;
/// The daemon's side of both and of a call that is repeated for [`TIMEOUT_SECONDS_DEFAULT`], since it last heard of the
/// room, in milliseconds; a fifth more covers clock drift and scheduling.
pub const ROOM_EXPIRES_MS: u64 = 60_000;
/// The unit in which disks are taken for to give space.
pub const ROOM_BLOCK_BYTES: u64 = 4096;
/// What an object takes beside its bytes, at most: a block each for its name, its record, its inode and the map of its blocks.
pub const ROOM_OBJECT_BYTES: u64 = 4 * ROOM_BLOCK_BYTES;

/// Collective requests at one I/O daemon at a time. Each has at most [`COLLECTIVE_RING`] chunks in memory.
pub const COLLECTIVES_MAX: usize = 32;
/// Of them, those that one client's session may be the master of: no client takes all places.
pub const COLLECTIVES_OF_SESSION_MAX: usize = COLLECTIVES_MAX / 4;
/// Of them, those that the sessions of one user may be the masters of together.
pub const COLLECTIVES_OF_USER_MAX: usize = COLLECTIVES_MAX / 2;
/// Memory of the views of all collective requests at one I/O daemon, in bytes: five of the largest that a message holds. Tasks whose
/// requests are one formula share theirs.
pub const COLLECTIVES_VIEWS_BYTES_MAX: usize = 32 << 20;
/// Of it, what those of one session may take: more than one message makes.
pub const COLLECTIVES_VIEWS_BYTES_OF_SESSION_MAX: usize = COLLECTIVES_VIEWS_BYTES_MAX / 4;
/// Of it, what those of one user's sessions may take together.
pub const COLLECTIVES_VIEWS_BYTES_OF_USER_MAX: usize = COLLECTIVES_VIEWS_BYTES_MAX / 2;
/// Tasks in all collective requests at one I/O daemon, 4 to 12 KiB each for where they are in their requests.
pub const COLLECTIVE_TASKS_MAX: usize = 4096;
/// The requests of a collective request when they are written out for each task, in bytes of their encoding.
pub const COLLECTIVE_REQUESTS_BYTES_MAX: usize = 8 << 20;
/// What a chunk of a collective request holds at most, in bytes of what its tasks want together.
pub const COLLECTIVE_CHUNK_BYTES_MAX: u64 = 1 << 20;
/// What it holds at least: a ring of four stays in a processor's cache (`docs/adr/0015-collective-requests.md`).
pub const COLLECTIVE_CHUNK_BYTES_MIN: u64 = 256 * 1024;
/// What it holds for each task in between, so that a frame and a hand-over are worth it.
pub const COLLECTIVE_FRAME_BYTES: u64 = 64 * 1024;
/// Chunks of one collective request in memory: what the fastest task may be ahead of the slowest.
pub const COLLECTIVE_RING: usize = 4;
/// Runs of one chunk, so that planning one is bounded in memory.
pub const COLLECTIVE_RUNS_MAX: usize = 4096;
/// A hole of up to this many bytes is read over: a second call costs as much as reading it.
pub const COLLECTIVE_HOLE_BYTES: u64 = 16 * 1024;
/// How long a task waits for the others at most when nothing moves, whatever it asks for, in milliseconds.
pub const COLLECTIVE_WAIT_MS_MAX: u32 = 30_000;
/// A collective request that nothing moved in for this long, in milliseconds, is forgotten when room is wanted for another.
pub const COLLECTIVE_IDLE_MS: u64 = 2 * COLLECTIVE_WAIT_MS_MAX as u64;

/// Virtual shards in use by a new cluster.
pub const SHARDS_DEFAULT: u16 = 64;
/// Object directories of one I/O daemon: `file index mod 1024` (the 2008 paper's hash).
pub const OBJECT_DIRECTORIES: u64 = 1024;
/// One batch of the metadata store, in bytes, so that a log record fits a replication message.
pub const BATCH_BYTES_MAX: usize = 1 << 20;
