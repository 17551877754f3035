//! The file `synced`: up to which sequence the log was synced, stored apart from the log.
//!
//! ```text
//! synced   two slots, at 0 and 512: "BRAIDSYN" | version u32 | crc32c of the rest of the slot u32
//!                                 | store id u64 | synced u64 | turn u64
//! ```
//!
//! Invariants:
//! 1. The slots are written alternately, one after each sync of the log. They are not synced
//!    themselves, so each costs only a write to the page cache. A slot survives a kill of the
//!    process; after a loss of power it may be older.
//! 2. Therefore the file is never ahead of the log, and its sequence never falls: `write` asserts
//!    the latter. If the log ends below it, the log has lost synced records; recovery checks that
//!    (`recovery.rs`). A log file that was truncated or removed carries no such proof itself, so
//!    this is a file of its own.
//! 3. It is the last file of a new store to be created, and is never removed. A directory without
//!    it holds no store or a damaged one.
//!
//! Which slot is written follows from the number of the turn (1). Recovery refuses a directory that
//! breaks 3.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;

use super::{StoreId, log};
use crate::store::{Sequence, StoreError};

pub(super) const NAME: &str = "synced";
const MAGIC: &[u8; 8] = b"BRAIDSYN";
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 40;
/// One sector each: a torn write of one leaves the other.
const SLOT_SPACING: u64 = 512;

/// The open file.
pub(super) struct SyncedFile(Mutex<Inner>);

struct Inner {
    file: File,
    store: StoreId,
    synced: Sequence,
    writes: u64,
}

impl SyncedFile {
    /// Creates the file, synced with its name. This makes `directory` a store.
    pub(super) fn create(
        directory: &Path,
        store: StoreId,
        synced: Sequence,
    ) -> Result<Self, StoreError> {
        let mut options = super::file_permissions::options();
        options.read(true).write(true).create_new(true);
        let file = options
            .open(directory.join(NAME))
            .map_err(|e| StoreError::disk("create the file 'synced'", e))?;
        let new = Self(Mutex::new(Inner { file, store, synced, writes: 0 }));
        new.write(synced)?;
        new.write(synced)?;
        new.sync()?;
        log::sync_directory(directory)?;
        Ok(new)
    }

    /// Opens the file. Returns the store it belongs to and the sequence that it records.
    pub(super) fn open(directory: &Path) -> Result<(Self, StoreId, Sequence), StoreError> {
        let path = directory.join(NAME);
        let mut bytes = Vec::new();
        let file = File::options().read(true).write(true).open(&path);
        let mut file = file.map_err(|e| StoreError::disk("open the file 'synced'", e))?;
        file.read_to_end(&mut bytes).map_err(|e| StoreError::disk("read the file 'synced'", e))?;
        let Some(Slot { store, synced, writes }) = newest(&bytes) else {
            return Err(StoreError::damaged(directory, &path, 0, "both of its slots are damaged"));
        };
        Ok((Self(Mutex::new(Inner { file, store, synced, writes })), store, synced))
    }

    /// Records that the log is synced up to `synced`.
    pub(super) fn write(&self, synced: Sequence) -> Result<(), StoreError> {
        let mut inner = self.inner();
        debug_assert!(inner.synced <= synced, "2: the synced sequence never falls");
        inner.synced = synced;
        inner.writes += 1;
        let (slot, at) =
            (encode(inner.store, synced, inner.writes), inner.writes % 2 * SLOT_SPACING);
        let written =
            inner.file.seek(SeekFrom::Start(at)).and_then(|_| inner.file.write_all(&slot));
        written.map_err(|e| StoreError::disk("write the file 'synced'", e))
    }

    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.inner().file.sync_all().map_err(|e| StoreError::disk("sync the file 'synced'", e))
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(braid_types::poisoned)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    pub(super) store: StoreId,
    pub(super) synced: Sequence,
    pub(super) writes: u64,
}

/// The newest slot of the file; `None` if both are damaged.
pub(super) fn newest(file: &[u8]) -> Option<Slot> {
    let slots = [
        file.get(..SLOT_BYTES),
        file.get(SLOT_SPACING as usize..SLOT_SPACING as usize + SLOT_BYTES),
    ];
    slots.into_iter().flatten().filter_map(decode).max_by_key(|slot| slot.writes)
}

fn crc(slot: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&slot[..12]), &slot[16..SLOT_BYTES])
}

pub(super) fn encode(store: StoreId, synced: Sequence, writes: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(MAGIC);
    slot[8..12].copy_from_slice(&VERSION.to_le_bytes());
    slot[16..24].copy_from_slice(&store.0.to_le_bytes());
    slot[24..32].copy_from_slice(&synced.0.to_le_bytes());
    slot[32..40].copy_from_slice(&writes.to_le_bytes());
    let crc = crc(&slot);
    slot[12..16].copy_from_slice(&crc.to_le_bytes());
    slot
}

fn decode(slot: &[u8]) -> Option<Slot> {
    let number = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().unwrap_or_default());
    let whole = &slot[..8] == MAGIC
        && slot[8..12] == VERSION.to_le_bytes()
        && slot[12..16] == crc(slot).to_le_bytes();
    whole.then(|| Slot {
        store: StoreId(number(16)),
        synced: Sequence(number(24)),
        writes: number(32),
    })
}
