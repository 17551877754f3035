//! Structures that the traits of a share use. Those that the native protocol has are used as they
//! are.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

pub use braid_types::{
    ByteCount, FileIndex, SessionId, Timestamp,
    limits::{FILE_BYTES_MAX, NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX},
};
use braid_types::{
    IodId,
    nfs4_acl::{Nfs4Acl, PosixView},
};
pub use braid_wire::{
    Deny, Rights,
    message::{
        FileKind,
        lock::LockHolder,
        mds::{AttributeChanges, RenameMode, SetTime, StatFsReply, XattrMode},
        types::{Attributes, DirectoryEntry, Identity},
    },
};
use bytes::Bytes;

/// The NFSv4 list of a file without any list: what its mode means.
pub fn acl_of_mode(known: &Attributes) -> Nfs4Acl {
    let view = PosixView::of_mode((known.mode & 0o777) as u16);
    let is_directory = known.kind == FileKind::Directory;
    let aces = Nfs4Acl::from_posix(&view, is_directory, 0);
    Nfs4Acl::new(aces, is_directory).unwrap_or_default()
}

/// Bytes of the opaque record that a gateway keeps with a client's session.
pub const CLIENT_RECORD_BYTES_MAX: usize = 4096;
/// Bytes of an owner that a protocol names, for example `lock_owner4`.
pub const OWNER_BYTES_MAX: usize = 1024;

/// What identifies a file system.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileSystemId(pub [u8; 16]);

/// A change of a directory: its change counter before and after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryChange {
    /// Whether nothing else changed the directory between the two counters.
    pub atomic: bool,
    /// The counter before the change.
    pub before: u64,
    /// The counter after the change.
    pub after: u64,
}

/// Where a file is opened.
#[derive(Clone, Debug)]
pub enum OpenTarget {
    /// The file itself.
    File(FileIndex),
    /// An existing name of a directory. A symbolic link at its end is not followed.
    Name {
        /// The directory.
        dir: FileIndex,
        /// The name.
        name: Vec<u8>,
    },
    /// A name of a directory, which is created if it does not exist.
    Create {
        /// The directory.
        dir: FileIndex,
        /// The name.
        name: Vec<u8>,
        /// Fail if the name exists.
        exclusive: bool,
        /// If the file exists, truncate it to 0 bytes.
        truncate: bool,
        /// Permission bits of a new file; the caller has applied its umask.
        mode: u32,
    },
}

/// Access and denial of an open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenMode {
    /// What the open may do.
    pub rights: Rights,
    /// What it denies to other opens.
    pub deny: Deny,
}

/// The result of an open.
#[derive(Debug)]
pub struct Opened<F> {
    /// The open file.
    pub file: F,
    /// Its attributes.
    pub attributes: Attributes,
    /// Whether this call created it.
    pub created: bool,
    /// The change of the directory, for [`OpenTarget::Create`].
    pub directory: Option<DirectoryChange>,
}

/// Some entries of a directory.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Entries in cookie order, without `.` and `..`.
    pub entries: Vec<DirectoryEntry>,
    /// Whether these were the last entries.
    pub end: bool,
}

/// Bytes that were read.
#[derive(Clone, Debug)]
pub struct ReadResult {
    /// The bytes; fewer than requested only at the end of the file.
    pub data: Bytes,
    /// Whether they reach the end of the file.
    pub end: bool,
}

/// Changes when acknowledged but unflushed bytes may have been lost (I6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Verifier(pub [u8; 8]);

/// Bytes that were written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteResult {
    /// The number of bytes written: all of them.
    pub bytes: u64,
    /// Whether they are on disk, so that no commit is needed.
    pub durable: bool,
    /// The verifier of the file at that moment.
    pub verifier: Verifier,
}

/// A byte-range lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// The owner, a number that the gateway chose, unique in the session.
    pub owner: u64,
    /// The first byte.
    pub start: u64,
    /// The last byte, inclusive; `u64::MAX` to the end of the file however it grows.
    pub last: u64,
    /// Exclusive, or shared with other shared locks.
    pub exclusive: bool,
}

/// A holder of a conflicting lock.
pub type LockConflict = LockHolder;

/// Ends a lock wait of another task. Use one for each wait. Cheap to clone; clones end the same
/// wait.
#[derive(Clone, Debug, Default)]
pub struct LockCancelHandle {
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) of_cluster: braid_client::LockCancelHandle,
}

impl LockCancelHandle {
    /// A handle for a wait that is about to begin.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the wait was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Marks the wait as cancelled. [`crate::ShareClient::cancel_lock`] calls it and ends the
    /// wait.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }
}

/// What a gateway keeps about a protocol client, so that any gateway finds it after a restart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientRecord {
    /// The name of the client in `braid status`.
    pub name: String,
    /// What the gateway needs to recognise the client; at most [`CLIENT_RECORD_BYTES_MAX`].
    pub record: Vec<u8>,
}

/// An open of a session that an earlier start of the gateway began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdoptedOpen {
    /// The number of the open in its session.
    pub number: u64,
    /// The file.
    pub file: FileIndex,
    /// Access and denial.
    pub mode: OpenMode,
}

/// A client of an earlier start of the gateway, which this start continues: its session, and what
/// it has in it.
#[derive(Debug)]
pub struct AdoptedClient<C> {
    /// The session.
    pub client: C,
    /// The record that the earlier start gave to [`crate::Share::begin_client`].
    pub record: Vec<u8>,
    /// Its opens. Each is used once, with [`crate::ShareClient::reclaim_open`] or
    /// [`crate::ShareClient::release_open`].
    pub opens: Vec<AdoptedOpen>,
    /// Its byte-range locks.
    pub locks: Vec<(FileIndex, Lock)>,
}

/// A recall of delegations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelegationRecall {
    /// That of a file: [`crate::ShareClient::return_delegation`] answers it.
    File(FileIndex),
    /// That of a file, which is to write: others need that it is at most to read.
    /// [`crate::ShareClient::reduce_delegation`] answers it, and so does
    /// [`crate::ShareClient::return_delegation`].
    Reduce(FileIndex),
    /// All are lost: [`crate::ShareClient::drop_delegations`] answers it.
    All,
}

/// A server that serves a file's stripes to clients of another protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataServer {
    /// The I/O daemon.
    pub iod: IodId,
    /// Its addresses for this protocol, `host:port`.
    pub addresses: Vec<String>,
}

/// How a client of another protocol reaches the stripes of an open file directly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectAccess {
    /// Bytes in one stripe unit.
    pub stripe_bytes: ByteCount,
    /// The server of each part, in the order of the parts; the file's first byte is in part
    /// `first_part`.
    pub servers: Vec<DataServer>,
    /// The part that has the first stripe unit.
    pub first_part: u32,
    /// A signed file handle for each part, at most 128 bytes.
    pub handles: Vec<Vec<u8>>,
}
