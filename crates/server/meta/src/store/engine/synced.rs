//! The file `synced`: up to which sequence the log was synced, kept apart from the log.
//!
//! ```text
//! synced   two slots, at 0 and 512: "BRAIDSYN" | version u32 | crc32c of the rest of the slot u32
//!                                 | store id u64 | synced u64 | turn u64
//! ```
//!
//! 1. A slot is written, in turns, after each sync of the log, and is not synced itself: that costs a write to the page
//!    cache for each sync. It survives the kill of the process; after a loss of power it may be older.
//! 2. So it is never ahead of the log. Where the log ends below it, the log has lost what was synced. A log file that was
//!    cut or removed carries no such proof in itself, which is why this is a file of its own.
//! 3. It is made last of a new store and never removed: a directory without it holds no store, or a damaged one.

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
/// A sector each: a torn write of one leaves the other.
const SLOT_SPACING: u64 = 512;

/// The open file.
pub(super) struct SyncedFile(Mutex<Inner>);

struct Inner {
    file: File,
    store: StoreId,
    turn: u64,
}

impl SyncedFile {
    /// Makes the file, synced with its name. `directory` becomes a store by it.
    pub(super) fn create(
        directory: &Path,
        store: StoreId,
        synced: Sequence,
    ) -> Result<Self, StoreError> {
        let mut options = super::private::options();
        options.read(true).write(true).create_new(true);
        let file = options
            .open(directory.join(NAME))
            .map_err(|e| StoreError::disk("create the file 'synced'", e))?;
        let new = Self(Mutex::new(Inner { file, store, turn: 0 }));
        new.write(synced)?;
        new.write(synced)?;
        new.sync()?;
        log::sync_directory(directory)?;
        Ok(new)
    }

    /// Opens it; the store that it belongs to and what it says was synced.
    pub(super) fn open(directory: &Path) -> Result<(Self, StoreId, Sequence), StoreError> {
        let path = directory.join(NAME);
        let mut bytes = Vec::new();
        let file = File::options().read(true).write(true).open(&path);
        let mut file = file.map_err(|e| StoreError::disk("open the file 'synced'", e))?;
        file.read_to_end(&mut bytes).map_err(|e| StoreError::disk("read the file 'synced'", e))?;
        let slots = [
            bytes.get(..SLOT_BYTES),
            bytes.get(SLOT_SPACING as usize..SLOT_SPACING as usize + SLOT_BYTES),
        ];
        let newest = slots.into_iter().flatten().filter_map(decode).max_by_key(|slot| slot.turn);
        let Some(Slot { store, synced, turn }) = newest else {
            return Err(StoreError::damaged(
                directory,
                &path,
                0,
                "neither of its two slots checks out",
            ));
        };
        Ok((Self(Mutex::new(Inner { file, store, turn })), store, synced))
    }

    /// Notes that the log is synced up to `synced`.
    pub(super) fn write(&self, synced: Sequence) -> Result<(), StoreError> {
        let mut inner = self.inner();
        inner.turn += 1;
        let (slot, at) = (encode(inner.store, synced, inner.turn), inner.turn % 2 * SLOT_SPACING);
        let written =
            inner.file.seek(SeekFrom::Start(at)).and_then(|_| inner.file.write_all(&slot));
        written.map_err(|e| StoreError::disk("write the file 'synced'", e))
    }

    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.inner().file.sync_all().map_err(|e| StoreError::disk("sync the file 'synced'", e))
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

struct Slot {
    store: StoreId,
    synced: Sequence,
    turn: u64,
}

fn crc(slot: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&slot[..12]), &slot[16..SLOT_BYTES])
}

fn encode(store: StoreId, synced: Sequence, turn: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(MAGIC);
    slot[8..12].copy_from_slice(&VERSION.to_le_bytes());
    slot[16..24].copy_from_slice(&store.0.to_le_bytes());
    slot[24..32].copy_from_slice(&synced.0.to_le_bytes());
    slot[32..40].copy_from_slice(&turn.to_le_bytes());
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
        turn: number(32),
    })
}
