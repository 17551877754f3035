//! Every limit of the system, with its reason (I9).

/// A name in a directory, in bytes: POSIX `NAME_MAX`, which every local file system supports.
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
/// The largest stripe. With 1 GiB, products of stripe size and part count stay far below 2^64.
pub const STRIPE_BYTES_MAX: u64 = 1 << 30;
/// The default stripe, 1 MiB. See `docs/defaults.md`.
pub const STRIPE_BYTES_DEFAULT: u64 = 1 << 20;
/// Nesting of a view. MPI datatypes in use are less than 8 deep; 16 bounds the stack and the work.
pub const VIEW_DEPTH_MAX: usize = 16;
/// Extents in one request message. The client splits longer lists (I2).
pub const LIST_EXTENTS_MAX: usize = 16_384;
/// Patterns in one view: two for each entry of the longest list, for a vector at each offset. MPI
/// datatypes in use have some tens.
pub const VIEW_NODES_MAX: usize = 2 * LIST_EXTENTS_MAX;

/// Body of a frame, in bytes: a full extent list (16 B per extent), and some space.
pub const FRAME_BODY_BYTES_MAX: usize = 512 * 1024;
/// Payload of one data frame of a reply, in bytes. Small replies can then overtake large ones (I9).
pub const REPLY_DATA_BYTES_MAX: usize = 256 * 1024;
/// Payload received from or sent to one I/O daemon in one request, in bytes (the window of I2).
pub const WINDOW_BYTES: u64 = 4 << 20;
/// Length of the range in one `CopyRange`, in bytes, over all daemons. Short enough to end within
/// one attempt of a client (I8).
pub const COPY_RANGE_BYTES_MAX: u64 = 64 << 20;
/// Requests that one connection may have in flight unless the handshake grants less.
pub const CREDITS_DEFAULT: u32 = 256;
/// Capabilities that a connection may have presented and not released.
pub const CAPABILITY_HANDLES_MAX: usize = 65_536;
/// Connections that one message may abandon. A program has at most 16 connections to a daemon, and
/// sends no changing call while one of them is not abandoned yet.
pub const ABANDONED_CONNECTIONS_MAX: usize = 256;
/// Maximum number of objects in a size report and in a reply to a write (ADR 0020). Size reports
/// serve small files.
pub const REPORTED_OBJECTS_MAX: usize = 16;
/// Accesses that one slice of a job may unfold before the daemon serves other requests (I9).
pub const JOB_SLICE_ACCESSES_MAX: usize = 1024;
/// Slices in a row that a read or a write may search without finding a byte: some 0.1 s of
/// processor time. A longer search is refused; the client itself would need as long before sending
/// the request.
pub const SEARCH_SLICES_MAX: usize = 4096;
/// Memory of the reads in progress on a connection, in bytes. Above it, the connection's next
/// request stays in the socket. One read may exceed it by at most 5 MiB. A read of a vector takes 2
/// KiB, a read of the longest list 1 MiB.
pub const CONNECTION_READS_BYTES_MAX: usize = 4 << 20;

/// How long a call waits for a server that is gone, by default, in seconds (I8).
pub const TIMEOUT_SECONDS_DEFAULT: u64 = 30;
/// Interval between an I/O daemon's heartbeats, in milliseconds.
pub const HEARTBEAT_MS: u64 = 1000;
/// An I/O daemon that has received nothing from the metadata server for this long stops serving
/// (I4). The metadata server waits longer than this, on its own clock, before it relies on that.
pub const HEARTBEAT_STOP_MS: u64 = 10_000;
/// The metadata server's side of [`HEARTBEAT_STOP_MS`]; the factor 2 covers clock drift and
/// scheduling.
pub const HEARTBEAT_FENCED_MS: u64 = 2 * HEARTBEAT_STOP_MS;
/// After this silence an I/O daemon counts as down and gets no new files.
pub const HEARTBEAT_DOWN_MS: u64 = 5_000;
/// After a restart the metadata server waits this long for clients to reclaim, in milliseconds.
pub const GRACE_MS: u64 = 15_000;
/// Open files in one reclaim message; a limit keeps the metadata server's lock free in between
/// (I9).
pub const RECLAIM_OPENS_MAX: usize = 1024;
/// Locks in one reclaim message.
pub const RECLAIM_LOCKS_MAX: usize = 1024;
/// File indexes reserved by one call, for an import.
pub const RESERVED_FILES_MAX: u32 = 8192;
/// Entries in one import: some milliseconds of the metadata server (I9).
pub const IMPORTED_ENTRIES_MAX: usize = 512;
/// Bytes of the name of a gateway: a host name and an address fit four times.
pub const GATEWAY_NAME_BYTES_MAX: usize = 1024;
/// Bytes of the record that a gateway keeps with the session of a client: an NFS client's owner and
/// principal have at most 1024 bytes each.
pub const GATEWAY_RECORD_BYTES_MAX: usize = 4096;
/// How long the metadata server keeps one message that waits for a lock, in milliseconds. This is
/// shorter than one attempt of a client (a third of its 30 s), so a longer silence means that the
/// server does not respond.
pub const LOCK_WAIT_MS_MAX: u32 = 8_000;
/// A client session that is silent for this long is ended and fenced, in milliseconds.
pub const SESSION_SILENT_MS: u64 = 60_000;

/// A client's leases are valid for this long after it sent the last answered renewal, in
/// milliseconds.
pub const LEASE_STOP_MS: u64 = 10_000;
/// The metadata server's side of [`LEASE_STOP_MS`], since its last contact with the client. The
/// factor 2 covers clock drift, scheduling, and the time in which a mount empties the kernel's
/// caches.
pub const LEASE_EXPIRES_MS: u64 = 2 * LEASE_STOP_MS;
/// A client that does not return a recalled lease within this time, in milliseconds, is ended and
/// fenced, even if it stays in contact. Together with [`LEASE_EXPIRES_MS`], a waiting caller is
/// served within the 30 s of I8.
pub const RECALL_MS: u64 = 8_000;
const _: () = assert!(RECALL_MS + LEASE_EXPIRES_MS + HEARTBEAT_MS < TIMEOUT_SECONDS_DEFAULT * 1000);
/// Maximum time for returning a data lease, in milliseconds, for a client that stays in contact.
/// The client may first have to flush, which may wait for an I/O daemon as long as a call may,
/// [`TIMEOUT_SECONDS_DEFAULT`]. An unresponsive daemon must not cost the client its session.
pub const RECALL_DATA_MS: u64 = 40_000;
/// A client stays in contact if the server receives a message from it within this time, in
/// milliseconds: two renewals.
pub const RECALL_CONTACT_MS: u64 = 2 * AWAIT_RECALLS_MS;
/// The server answers an `AwaitRecalls` after this long even without recalls. Two lost answers in a
/// row invalidate no lease.
pub const AWAIT_RECALLS_MS: u64 = 3_000;
/// Recalls in one answer (I9).
pub const RECALLS_MAX: usize = 1024;
/// Leases in one `ReturnLeases`; a limit keeps the server's lock free in between (I9).
pub const LEASES_RETURNED_MAX: usize = 1024;
/// Leases of one server (I9). Beyond it, the least recently used leases are recalled.
pub const LEASES_MAX: usize = 1_000_000;

/// Maximum reservation of one session on one I/O daemon, in bytes: four windows, or 200 small flush
/// units.
pub const RESERVATION_SESSION_BYTES_MAX: u64 = 16 << 20;
/// Sessions with a reservation on one I/O daemon (I9), 64 bytes each.
pub const RESERVATION_SESSIONS_MAX: usize = 16_384;
/// All reservations together take at most one part in this many of the free space.
/// The rest is for unbuffered writes.
pub const RESERVATION_FREE_SPACE_DIVISOR: u64 = 8;
/// Reserved space is valid for this long after the client sent the last answered request, in
/// milliseconds.
pub const RESERVATION_VALID_MS: u32 = 10_000;
/// A client flushes bytes that it buffered with a reservation within this time, in milliseconds.
pub const RESERVATION_BUFFERED_MS_MAX: u64 = 10_000;
/// The daemon's side of both, plus the repetition of a call for [`TIMEOUT_SECONDS_DEFAULT`], since
/// its last contact about the reservation, in milliseconds. A fifth more covers clock drift and
/// scheduling.
pub const RESERVATION_EXPIRES_MS: u64 = 60_000;
/// The assumed block size of disks.
pub const RESERVATION_BLOCK_BYTES: u64 = 4096;
/// Maximum space of an object beside its bytes: a block each for its name, record, inode and block
/// map.
pub const RESERVATION_OBJECT_BYTES: u64 = 4 * RESERVATION_BLOCK_BYTES;

/// Collective requests at one I/O daemon at a time. Each has at most [`COLLECTIVE_RING`] chunks in
/// memory.
pub const COLLECTIVES_MAX: usize = 32;
/// Of these, the ones with a leader task of one session, so that no client takes all.
pub const COLLECTIVES_OF_SESSION_MAX: usize = COLLECTIVES_MAX / 4;
/// Of these, the ones with leader tasks of one user's sessions.
pub const COLLECTIVES_OF_USER_MAX: usize = COLLECTIVES_MAX / 2;
/// Memory of the views of all collective requests at one I/O daemon, in bytes: five of the largest
/// that a message can hold. Tasks whose requests are one formula share the view.
pub const COLLECTIVES_VIEWS_BYTES_MAX: usize = 32 << 20;
/// Of this, the share of one session; more than one message can need.
pub const COLLECTIVES_VIEWS_BYTES_OF_SESSION_MAX: usize = COLLECTIVES_VIEWS_BYTES_MAX / 4;
/// Of this, the share of one user's sessions together.
pub const COLLECTIVES_VIEWS_BYTES_OF_USER_MAX: usize = COLLECTIVES_VIEWS_BYTES_MAX / 2;
/// Tasks in all collective requests at one I/O daemon. Each takes 4 to 12 KiB for its position in
/// its request.
pub const COLLECTIVE_TASKS_MAX: usize = 4096;
/// Encoded size of a collective request's requests, written out for each task, in bytes.
pub const COLLECTIVE_REQUESTS_BYTES_MAX: usize = 8 << 20;
/// Maximum size of a chunk of a collective request, in bytes that its tasks want together.
pub const COLLECTIVE_CHUNK_BYTES_MAX: u64 = 1 << 20;
/// Minimum size of a chunk; a ring of four fits a processor's cache
/// (`docs/adr/0015-collective-requests.md`).
pub const COLLECTIVE_CHUNK_BYTES_MIN: u64 = 256 * 1024;
/// Chunk bytes per task between these limits, so that a frame and a wake-up are worth their cost.
pub const COLLECTIVE_FRAME_BYTES: u64 = 64 * 1024;
/// Chunks of one collective request in memory: how far the fastest task may be ahead of the
/// slowest.
pub const COLLECTIVE_RING: usize = 4;
/// Extents of one chunk, which bounds the memory for planning it.
pub const COLLECTIVE_EXTENTS_MAX: usize = 4096;
/// A hole up to this size is read and discarded, since a second call costs as much as reading it.
pub const COLLECTIVE_HOLE_BYTES: u64 = 16 * 1024;
/// Maximum time for which a task waits for the others while nothing moves, in milliseconds.
pub const COLLECTIVE_WAIT_MS_MAX: u32 = 30_000;
/// A collective request that is idle for this long, in milliseconds, is dropped when another one
/// needs its memory.
pub const COLLECTIVE_IDLE_MS: u64 = 2 * COLLECTIVE_WAIT_MS_MAX as u64;

/// Shards of a new cluster.
pub const SHARDS_DEFAULT: u16 = 64;
/// Object directories of one I/O daemon: `file index mod 1024` (the 2008 paper's hash).
pub const OBJECT_DIRECTORIES: u64 = 1024;
/// Maximum size of a batch of the metadata store, in bytes; a log record must fit a replication
/// message.
pub const BATCH_BYTES_MAX: usize = 1 << 20;
