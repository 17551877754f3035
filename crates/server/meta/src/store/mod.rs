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

use std::ops::{ControlFlow, Range};
use std::path::Path;

use braid_types::limits::BATCH_BYTES_MAX;
use braid_types::{Failure, Status};

use crate::codec::Encoder;

pub use engine::{Cut, Dumped, Engine, EngineOptions, Taken, dump};
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
    #[error(
        "metadata store: no space left: {0}; try: free space on the disk of the metadata directory"
    )]
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
    /// A file of the store is damaged, cut or missing. Nothing was changed; every file is kept.
    #[error(
        "metadata store: {file} at byte {offset}: {why}; try: braid mds salvage --dir {directory}"
    )]
    Damaged {
        /// Which file.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong there.
        why: String,
        /// The directory of the store.
        directory: String,
    },
    /// No store is in the directory.
    #[error("metadata store: no metadata is in {0}: is its disk mounted?; try: mount | grep {0}")]
    Missing(String),
    /// A store, or a part of one, is in the directory already.
    #[error(
        "metadata store: {0} holds a metadata store already, or a part of one; try: another directory"
    )]
    Exists(String),
    /// An earlier failure left the log in doubt; only a restart can tell what it holds.
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
    /// The error for a file of the store in `directory` that is not as it was written.
    pub(crate) fn damaged(
        directory: &Path,
        file: &Path,
        offset: u64,
        why: impl Into<String>,
    ) -> Self {
        let (file, directory) = (file.display().to_string(), directory.display().to_string());
        Self::Damaged { file, offset, why: why.into(), directory }
    }

    /// The error for a failed system call: a full disk is told apart.
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

/// Changes that happen together. A later change of a key wins over an earlier one.
///
/// Held as the log has them, so that a commit copies them once: for each change key length `u16`, value length `u32`
/// (all ones: removed), key, value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    body: Vec<u8>,
    count: u32,
    may_use_reserve: bool,
}

/// Marks a removed key where a value's length stands.
const REMOVED: u32 = u32::MAX;
/// The longest key, in bytes: LMDB's limit. A name of 255 bytes makes one of 266.
pub const KEY_BYTES_MAX: usize = 511;

impl Batch {
    /// A batch without changes.
    pub fn new() -> Self {
        Self { body: Vec::with_capacity(1024), count: 0, may_use_reserve: false }
    }

    /// Lets the batch use the space that the log reserves for changes which free space, or which
    /// record what has already happened. Without it a full disk refuses the batch first.
    pub fn allow_reserve(&mut self) {
        self.may_use_reserve = true;
    }

    /// Whether [`Batch::allow_reserve`] was called.
    pub fn may_use_reserve(&self) -> bool {
        self.may_use_reserve
    }

    /// Sets `key`, of at most [`KEY_BYTES_MAX`], to `value`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        self.push(key.as_ref(), value.len() as u32, value);
    }

    /// Removes `key`; nothing happens when it is not there.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) {
        self.push(key.as_ref(), REMOVED, &[]);
    }

    /// Sets `key` to what `write` appends; where in the batch that stands, for [`Encoder::again`].
    pub(crate) fn put_with(
        &mut self,
        key: impl AsRef<[u8]>,
        write: impl FnOnce(&mut Encoder),
    ) -> Range<usize> {
        self.push(key.as_ref(), 0, &[]);
        let from = self.body.len();
        let length_at = from - key.as_ref().len() - 4;
        let mut out = Encoder::after(std::mem::take(&mut self.body));
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

    /// Whether nothing would change.
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

    /// Count and body, as the log has them.
    pub(crate) fn raw(&self) -> (u32, &[u8]) {
        (self.count, &self.body)
    }

    /// The batch with this count and body; `None` when they do not agree.
    pub(crate) fn from_raw(count: u32, body: &[u8]) -> Option<Self> {
        let mut rest = body;
        for _ in 0..count {
            rest = split_change(rest).filter(|(change, _)| !change.key.is_empty())?.1;
        }
        rest.is_empty().then(|| Self { body: body.to_vec(), count, may_use_reserve: false })
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
