//! The metadata store: ordered bytes, consistent snapshots to read from, numbered batches to change
//! it.
//!
//! ```text
//! namespace ──commit(batch, fence)──▶ MetaStore ──▶ Engine       log + overlay + LMDB (default)
//!           ◀────snapshot()─────────            └─▶ MemoryStore  a test double: fails by a seed
//! ```
//!
//! Invariants:
//! 1. A batch is applied as a whole or not at all, also across a crash (I7).
//! 2. When `commit` returns, the batch survives a kill of this process. It survives a loss of power
//!    only once `sync` has returned for its sequence or a later one (I6).
//! 3. After any crash the store holds a prefix of the committed batches: none is missing before one
//!    that is present.
//! 4. A commit whose leader fence is older than one that the store has seen is refused: a shard has
//!    one writer at a time.
//! 5. A snapshot never shows a part of a batch. It is for one short operation: a store may delay
//!    commits while one lives. A thread therefore never commits or takes a second snapshot while it
//!    holds one.
//!
//! The engine asserts 2 and 3 where it appends and syncs (`engine/mod.rs`, `engine/log.rs`), and
//! refuses what would break 4. The checksum of each log record gives 1, and the read lock that a
//! snapshot holds gives 5. No assertion checks the rule for threads in 5: the lock does not record
//! its readers.

pub mod engine;
mod memory;

use std::ops::{ControlFlow, Range};
use std::path::Path;

use braid_types::limits::BATCH_BYTES_MAX;
use braid_types::{Failure, Status};

use crate::codec::Encoder;

pub use engine::{DumpSummary, Engine, EngineOptions, SalvagedRecords, TornTail, dump};
pub use memory::{Faults, MemoryStore};

/// The number of a committed batch. Numbers begin at 1 and have no gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u64);

/// The leader fence: proves that the writer still owns what it writes. It rises with each new
/// owner; today it is the MDS epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Fence(pub u64);

/// Why the store refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk of the store is full. Nothing was changed.
    #[error(
        "metadata store: no space left: {0}; try: free space on the disk of the metadata directory"
    )]
    NoSpace(String),
    /// The disk failed. The requested change did not happen.
    #[error("metadata store: {what}: {source}")]
    Disk {
        /// The action that failed.
        what: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A newer owner has written; this one must stop.
    #[error("metadata store: fence {offered} is older than {current}: another server took over")]
    Fenced {
        /// The leader fence of the refused commit.
        offered: u64,
        /// The newest leader fence that the store has seen.
        current: u64,
    },
    /// The batch exceeds the limit of one log record.
    #[error("metadata store: a batch of {bytes} bytes exceeds the limit of {BATCH_BYTES_MAX}")]
    BatchTooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
    /// The bytes on the disk differ from what was written, or have a format that this program does
    /// not know (I10).
    #[error("metadata store: {0}")]
    Corrupted(String),
    /// A file of the store is damaged, truncated or missing. Nothing was changed; no file was
    /// removed.
    #[error(
        "metadata store: {file} at byte {offset}: {why}; try: braid mds salvage --dir {directory}"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The position in it, in bytes.
        offset: u64,
        /// What is wrong there.
        why: String,
        /// The directory of the store.
        directory: String,
    },
    /// The directory holds no store.
    #[error("metadata store: {0} holds no metadata: is its disk mounted?; try: mount | grep {0}")]
    Missing(String),
    /// The directory already holds a store or a part of one.
    #[error("metadata store: {0} already holds a store or a part of one; try: another directory")]
    Exists(String),
    /// An earlier failure left the log in an unknown state; only a restart can find out what it
    /// holds.
    #[error("metadata store: stopped after a failed write; try: restart the metadata server")]
    Stopped,
    /// The directory is in use.
    #[error(
        "metadata store: {0} is in use by another process; try: stop the other metadata server"
    )]
    InUse(String),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::NoSpace(_) => Status::NoSpace,
            StoreError::Disk { .. } | StoreError::Stopped => Status::DiskError,
            StoreError::Fenced { .. } => Status::NotServing,
            StoreError::BatchTooLarge { .. } => Status::LimitExceeded,
            StoreError::Corrupted(_) | StoreError::Damaged { .. } => Status::Corrupted,
            StoreError::Missing(_) => Status::NotFound,
            StoreError::Exists(_) => Status::Exists,
            StoreError::InUse(_) => Status::Busy,
        };
        Self::new(status, error.to_string())
    }
}

impl StoreError {
    /// The error for a file of the store in `directory` that differs from what was written.
    pub(crate) fn damaged(
        directory: &Path,
        file: &Path,
        offset: u64,
        why: impl Into<String>,
    ) -> Self {
        let (file, directory) = (file.display().to_string(), directory.display().to_string());
        Self::Damaged { file, offset, why: why.into(), directory }
    }

    /// The error for a failed system call. A full disk is reported as such.
    pub(crate) fn disk(what: &'static str, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Self::NoSpace(what.to_owned())
            }
            _ => Self::Disk { what, source },
        }
    }
}

/// One change of one key: its new value, or `None` to remove it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its new value; `None` removes it.
    pub value: Option<&'a [u8]>,
}

/// How much of the space that the log reserves on its disk a batch may use when the disk is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReserveUse {
    /// None: the batch is refused first.
    #[default]
    None,
    /// Half: the batch is needed before space can be freed, and a client can repeat it at will.
    Half,
    /// All: the batch frees space, or records what has already happened.
    All,
}

/// Changes that happen together. A later change of a key replaces an earlier one.
///
/// The changes are stored as in the log, so that a commit copies them once. Each change is: key
/// length `u16`, value length `u32` (all ones: removed), key, value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    body: Vec<u8>,
    count: u32,
    reserve_use: ReserveUse,
}

/// Marks a removed key in place of the length of its value.
const REMOVED: u32 = u32::MAX;
/// The longest key, in bytes: LMDB's limit. A name of 255 bytes makes a key of 266.
pub const KEY_BYTES_MAX: usize = 511;

impl Batch {
    /// A batch without changes.
    pub fn new() -> Self {
        Self { body: Vec::with_capacity(1024), count: 0, reserve_use: ReserveUse::None }
    }

    /// Lets the batch use space that the log reserves, when the disk is full.
    pub fn allow_reserve(&mut self, allowed: ReserveUse) {
        self.reserve_use = allowed;
    }

    /// How much of the log's reserve it may use.
    pub fn reserve_use(&self) -> ReserveUse {
        self.reserve_use
    }

    /// Sets `key`, of at most [`KEY_BYTES_MAX`], to `value`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        self.push(key.as_ref(), value.len() as u32, value);
    }

    /// Removes `key`. A key that does not exist is ignored.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) {
        self.push(key.as_ref(), REMOVED, &[]);
    }

    /// Sets `key` to what `write` appends. Returns the position of the value in the batch, for
    /// [`Encoder::repeat`].
    pub(crate) fn put_with(
        &mut self,
        key: impl AsRef<[u8]>,
        write: impl FnOnce(&mut Encoder),
    ) -> Range<usize> {
        self.push(key.as_ref(), 0, &[]);
        let from = self.body.len();
        let length_at = from - key.as_ref().len() - 4;
        let mut out = Encoder::append_to(std::mem::take(&mut self.body));
        write(&mut out);
        self.body = out.finish();
        let value_bytes = (self.body.len() - from) as u32;
        self.body[length_at..length_at + 4].copy_from_slice(&value_bytes.to_le_bytes());
        from..self.body.len()
    }

    fn push(&mut self, key: &[u8], value_bytes: u32, value: &[u8]) {
        assert!(
            !key.is_empty() && key.len() <= KEY_BYTES_MAX,
            "keys come from key.rs, whose longest fits"
        );
        self.body.reserve(6 + key.len() + value.len());
        self.body.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.body.extend_from_slice(&value_bytes.to_le_bytes());
        self.body.extend_from_slice(key);
        self.body.extend_from_slice(value);
        self.count += 1;
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its size in the log, in bytes.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// The changes in order.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        let mut rest = &self.body[..];
        std::iter::from_fn(move || {
            let (change, after) = split_change(rest)?;
            rest = after;
            Some(change)
        })
    }

    /// Count and body, as in the log.
    pub(crate) fn raw(&self) -> (u32, &[u8]) {
        (self.count, &self.body)
    }

    /// The batch with this count and body; `None` if they disagree.
    pub(crate) fn from_raw(count: u32, body: &[u8]) -> Option<Self> {
        let mut rest = body;
        for _ in 0..count {
            rest = split_change(rest).filter(|(change, _)| !change.key.is_empty())?.1;
        }
        rest.is_empty().then(|| Self { body: body.to_vec(), count, reserve_use: ReserveUse::None })
    }

    pub(crate) fn check_size(&self) -> Result<(), StoreError> {
        if self.bytes() > BATCH_BYTES_MAX {
            Err(StoreError::BatchTooLarge { bytes: self.bytes() })
        } else {
            Ok(())
        }
    }
}

fn split_change(bytes: &[u8]) -> Option<(Change<'_>, &[u8])> {
    let (key_bytes, rest) = bytes.split_first_chunk::<2>()?;
    let (value_bytes, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*key_bytes)))?;
    let value_bytes = u32::from_le_bytes(*value_bytes);
    if value_bytes == REMOVED {
        return Some((Change { key, value: None }, rest));
    }
    let (value, rest) = rest.split_at_checked(value_bytes as usize)?;
    Some((Change { key, value: Some(value) }, rest))
}

/// A scan passes each key and value to this function; `Break` ends the scan.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A consistent snapshot of the store at one sequence.
pub trait Snapshot {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits every key in `[from, end)`, ascending.
    fn scan(&self, from: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError>;
}

/// An ordered key-value store with numbered batches. See the module's invariants.
pub trait MetaStore: Send + Sync {
    /// A snapshot of everything committed so far, for one short operation.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, StoreError>;

    /// Applies `batch` and returns its number. From then on the batch survives a kill of the
    /// process (I6).
    fn commit(&self, batch: Batch, fence: Fence) -> Result<Sequence, StoreError>;

    /// The number of the last committed batch.
    fn committed(&self) -> Sequence;

    /// Returns once every batch up to `sequence` survives a loss of power. Callers at the same time
    /// share one flush of the disk.
    fn sync(&self, sequence: Sequence) -> Result<(), StoreError>;

    /// The newest leader fence seen.
    fn fence(&self) -> Fence;

    /// The current value of one key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.snapshot()?.get(key)
    }
}
