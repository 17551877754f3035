//! The metadata store: ordered bytes, consistent views to read from, numbered batches to change it.
//!
//! ```text
//! namespace ──commit(batch, fence)──▶ MetaStore ──▶ Engine       log + overlay + LMDB (the default)
//!           ◀─────view()────────────            └─▶ MemoryStore  a double that fails and crashes on a seed
//! ```
//!
//! 1. A batch is applied whole or not at all, also across a crash (I7).
//! 2. When `commit` returns, the batch survives the kill of this process; it survives the loss of power
//!    only once `sync` has returned for its sequence or a later one (I6).
//! 3. After any crash the store holds a prefix of the committed batches: none is missing before one that is there.
//! 4. A commit whose fence is older than one the store has seen is refused: one writer at a time owns a shard.
//! 5. A view shows no half of a batch. It is for one short operation: a store may hold commits back while one lives,
//!    so a thread never commits or takes a second view while it holds one.

pub mod engine;
mod memory;

use std::ops::ControlFlow;

use braid_types::limits::BATCH_BYTES_MAX;
use braid_types::{Failure, Status};

pub use engine::{Engine, EngineOptions};
pub use memory::{Faults, MemoryStore};

/// The number of a committed batch, from 1, without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u64);

/// Proves that the writer still owns what it writes: rises with each new owner (the MDS epoch today).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Fence(pub u64);

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk of the store is full. Nothing was changed.
    #[error("metadata store: no space left: {0}; try: free space on the disk of the metadata directory")]
    NoSpace(String),
    /// The disk failed; what was asked did not happen.
    #[error("metadata store: {what}: {source}")]
    Disk {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A newer owner has written; this one must stop.
    #[error("metadata store: fence {offered} is older than {current}: another server took over")]
    Fenced {
        /// The fence of the refused commit.
        offered: u64,
        /// The newest fence that the store has seen.
        current: u64,
    },
    /// A batch over the limit of one log record.
    #[error("metadata store: a batch of {bytes} bytes is over the limit of {BATCH_BYTES_MAX}")]
    BatchTooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
    /// What is on the disk is not what was written, or of a format that this program does not know (I10).
    #[error("metadata store: {0}")]
    Corrupted(String),
    /// An earlier failure left the log in doubt; only a restart can tell what it holds.
    #[error("metadata store: stopped after a failed write; try: restart the metadata server")]
    Stopped,
    /// The directory is in use.
    #[error("metadata store: {0} is in use by another process; try: stop the other metadata server")]
    InUse(String),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::NoSpace(_) => Status::NoSpace,
            StoreError::Disk { .. } | StoreError::Stopped => Status::DiskError,
            StoreError::Fenced { .. } => Status::NotServing,
            StoreError::BatchTooLarge { .. } => Status::LimitExceeded,
            StoreError::Corrupted(_) => Status::Corrupted,
            StoreError::InUse(_) => Status::Busy,
        };
        Self::new(status, error.to_string())
    }
}

impl StoreError {
    /// The error for a failed system call: a full disk is told apart.
    pub(crate) fn disk(what: &'static str, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::NoSpace(what.to_owned()),
            _ => Self::Disk { what, source },
        }
    }
}

/// One change of one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The key.
    pub key: Vec<u8>,
    /// Its new value; `None` removes it.
    pub value: Option<Vec<u8>>,
}

/// Changes that happen together. A later change of a key wins over an earlier one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    changes: Vec<Change>,
    bytes: usize,
}

/// What a change costs in the log beside its key and value, in bytes.
pub(crate) const CHANGE_OVERHEAD_BYTES: usize = 8;

impl Batch {
    /// A batch without changes.
    pub fn new() -> Self {
        Self { changes: Vec::with_capacity(8), bytes: 0 }
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.bytes += key.len() + value.len() + CHANGE_OVERHEAD_BYTES;
        self.changes.push(Change { key, value: Some(value) });
    }

    /// Removes `key`; nothing happens when it is not there.
    pub fn remove(&mut self, key: Vec<u8>) {
        self.bytes += key.len() + CHANGE_OVERHEAD_BYTES;
        self.changes.push(Change { key, value: None });
    }

    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Its size in the log, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The changes in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub(crate) fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    pub(crate) fn check_size(&self) -> Result<(), StoreError> {
        if self.bytes > BATCH_BYTES_MAX { Err(StoreError::BatchTooLarge { bytes: self.bytes }) } else { Ok(()) }
    }
}

/// What a scan hands each key and value to; `Break` ends the scan.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A consistent view of the store at one sequence.
pub trait View {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits every key in `[from, end)`, ascending.
    fn scan(&self, from: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError>;
}

/// An ordered key-value store with numbered batches. See the module's invariants.
pub trait MetaStore: Send + Sync {
    /// A view of everything committed so far, for one short operation.
    fn view(&self) -> Result<Box<dyn View + '_>, StoreError>;

    /// Applies `batch`; its number is returned. Survives the kill of the process from then on (I6).
    fn commit(&self, batch: Batch, fence: Fence) -> Result<Sequence, StoreError>;

    /// The number of the last committed batch.
    fn committed(&self) -> Sequence;

    /// Returns once every batch up to `sequence` survives the loss of power. Callers at the same time share one
    /// flush of the disk.
    fn sync(&self, sequence: Sequence) -> Result<(), StoreError>;

    /// The newest fence seen.
    fn fence(&self) -> Fence;

    /// The value of one key, now.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.view()?.get(key)
    }
}
