//! The base: an LMDB file that holds everything that checkpoints took from the log, and the
//! sequence up to which it holds it.
//!
//! ```text
//! data.mdb   key -> value | sequence u64 | crc32c of key, value and sequence u32
//!            ff ff 00 -> version u32 | sequence u64 | fence u64 | store id u64 (the same trailer)
//! ```
//!
//! Invariants:
//! 1. LMDB is copy-on-write and every transaction here is synced. After any crash the file is
//!    therefore as some transaction left it.
//! 2. A checkpoint is several transactions; in one, the touched pages would not fit the memory of a
//!    small server. The last transaction stores the sequence. A crash between them leaves newer
//!    values of some keys under an older sequence. That is harmless: the log that holds every batch
//!    of the checkpoint was synced before it began, which the engine asserts, and is replayed over
//!    it.
//! 3. LMDB gets the file only after every page of it has been checked (`lmdb_pages.rs`), because it
//!    trusts what it maps.
//! 4. Every record is checked again when it is read: a disk may rot while the server runs. A
//!    record's sequence is that of the checkpoint which wrote it: of two copies, salvage takes the
//!    newer.
//!
//! No assertion checks 1, 3 and 4 here: LMDB gives 1, `open` checks the pages before it maps the
//! file (3), and a record that is damaged is an error and not a bug (4).

use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithoutTls};

use super::lmdb_pages::{Bad, OnBad, PageFile};
use super::overlay::Overlay;
use super::{FORMAT_ADVICE, StoreId};
use crate::store::{Fence, Sequence, StoreError};

/// Address space reserved for the file, in bytes; it is not memory. On other systems than 64-bit
/// Unix the file has this size from the start, so the figure is smaller there.
const MAP_BYTES: usize =
    if cfg!(all(unix, target_pointer_width = "64")) { 1 << 40 } else { 1 << 30 };
/// Snapshots that may live at the same time, one per thread.
const READERS_MAX: u32 = 1024;
/// Keys that one transaction of a checkpoint writes. Each may touch a page of its own, which LMDB
/// holds in memory until it commits: at most 8 MiB. Keys come in order, so two transactions share
/// only the page at their boundary.
const CHECKPOINT_KEYS_MAX: usize = 2048;
/// The key of the base's own state. Namespace keys begin with a shard and a letter, and are longer.
const STATE_KEY: &[u8] = b"\xff\xff\0";
/// Format of the state record and of the base's contents. 2: records have a trailer, the state
/// names the store.
const VERSION: u32 = 2;
/// The error for a record that differs from what was written.
const FAILS: &str = "the record fails its checksum";
/// Sequence and checksum after each value.
const TRAILER_BYTES: usize = 12;

pub(super) struct Base {
    env: Env<WithoutTls>,
    data: Database<Bytes, Bytes>,
}

/// The last batch that the base holds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct BaseState {
    pub(super) sequence: Sequence,
    pub(super) fence: Fence,
}

/// What a damaged base held.
#[derive(Clone, Copy, Default)]
pub(super) struct SalvagedBase {
    /// The last batch that it holds.
    pub(super) state: BaseState,
    /// The store it belongs to.
    pub(super) store: Option<StoreId>,
    /// Records that its tree leads to.
    pub(super) followed: u64,
    /// Records that its meta page counts and that its tree does not lead to.
    pub(super) lost: u64,
    /// Records, and older copies of them, that were found outside the tree instead.
    pub(super) strays: u64,
}

fn failed(what: &'static str) -> impl Fn(heed::Error) -> StoreError {
    move |error| match error {
        heed::Error::Io(source) => StoreError::disk(what, source),
        heed::Error::Mdb(heed::MdbError::MapFull) => {
            StoreError::NoSpace(format!("{what}: the map is full"))
        }
        other => StoreError::Corrupted(format!("{what}: {other}")),
    }
}

/// The directory of the base.
pub(super) fn base_directory(directory: &Path) -> PathBuf {
    directory.join("base")
}

/// The file of the base.
pub(super) fn base_file(directory: &Path) -> PathBuf {
    base_directory(directory).join("data.mdb")
}

impl Base {
    /// Creates an empty base.
    pub(super) fn create(directory: &Path, store: StoreId) -> Result<Self, StoreError> {
        super::file_permissions::make_directory(&base_directory(directory))
            .map_err(|e| StoreError::disk("create the base directory", e))?;
        let base = Self::open_checked(directory)?;
        base.checkpoint(&Overlay::default(), BaseState::default(), store)?;
        // LMDB syncs the contents of its file, not the file's name. Without this, a checkpoint
        // would delete the log and a loss of power the base.
        super::log::sync_directory(&base_directory(directory))?;
        Ok(base)
    }

    /// Checks every page of the base and returns its state. Changes nothing.
    pub(super) fn check(directory: &Path, store: StoreId) -> Result<BaseState, StoreError> {
        let file = base_file(directory);
        let damaged = |Bad { offset, why }| StoreError::damaged(directory, &file, offset, why);
        let pages = PageFile::open(&file).map_err(damaged)?;
        let mut found = None;
        let mut on_record = |key: &[u8], value: &[u8]| {
            let value = checked(key, value).ok_or(FAILS)?;
            found = found.take().or((key == STATE_KEY).then(|| value.to_vec()));
            Ok(())
        };
        pages.check(MAP_BYTES as u64, &mut on_record).map_err(damaged)?;
        drop(pages);
        let state = found.ok_or_else(|| {
            damaged(Bad { offset: 0, why: "the record of its sequence is missing".into() })
        })?;
        let (state, of) = decode_state(&state)?;
        if of != store {
            let why = format!("it belongs to store {:016x}, and the log to {:016x}", of.0, store.0);
            return Err(damaged(Bad { offset: 0, why }));
        }
        Ok(state)
    }

    /// Opens a base that has been checked.
    #[allow(unsafe_code)]
    pub(super) fn open_checked(directory: &Path) -> Result<Self, StoreError> {
        let path = base_directory(directory);
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(MAP_BYTES).max_readers(READERS_MAX);
        // SAFETY: the file is mapped, so nothing else may change it: the engine holds the exclusive
        // lock of the directory, opens the base once, and sets no flag that weakens LMDB's own
        // rules. Its pages have been checked: no page that LMDB may follow lies after the end of
        // the file.
        let env = unsafe { options.flags(EnvFlags::NO_READ_AHEAD).open(&path) }
            .map_err(failed("open the base"))?;
        env.clear_stale_readers().map_err(failed("clear readers of the base"))?;
        let mut txn = env.write_txn().map_err(failed("open the base"))?;
        let data = env.create_database(&mut txn, None).map_err(failed("open the base"))?;
        txn.commit().map_err(failed("open the base"))?;
        Ok(Self { env, data })
    }

    /// Opens the base of a store for reading while another process may change it.
    #[allow(unsafe_code)]
    pub(super) fn open_read_only(directory: &Path) -> Result<Self, StoreError> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(MAP_BYTES).max_readers(READERS_MAX);
        let flags = EnvFlags::NO_READ_AHEAD | EnvFlags::READ_ONLY;
        // SAFETY: as in `open_checked`. The process that changes the file follows LMDB's rules; it
        // has checked the pages, or this one does.
        let env = unsafe { options.flags(flags).open(base_directory(directory)) }
            .map_err(failed("open the base"))?;
        let txn = env.read_txn().map_err(failed("read the base"))?;
        let data = env.open_database(&txn, None).map_err(failed("open the base"))?;
        // The handle outlives the transaction only if the transaction commits.
        txn.commit().map_err(failed("open the base"))?;
        let data =
            data.ok_or_else(|| StoreError::Corrupted("the base holds no database".into()))?;
        Ok(Self { env, data })
    }

    /// The state that a transaction sees, and the store that the base belongs to.
    pub(super) fn state(
        &self,
        txn: &RoTxn<'_, WithoutTls>,
    ) -> Result<(BaseState, StoreId), StoreError> {
        decode_state(self.get(txn, STATE_KEY)?.unwrap_or_default())
    }

    /// Writes an overlay that ends at `state`, synced. The log up to `state` must be synced
    /// (invariant 2).
    pub(super) fn checkpoint(
        &self,
        overlay: &Overlay,
        state: BaseState,
        store: StoreId,
    ) -> Result<(), StoreError> {
        let mut txn = self.env.write_txn().map_err(failed("begin a checkpoint"))?;
        for (n, (key, value)) in overlay.iter().enumerate() {
            if n % CHECKPOINT_KEYS_MAX == CHECKPOINT_KEYS_MAX - 1 {
                txn.commit().map_err(failed("commit a part of a checkpoint"))?;
                txn = self.env.write_txn().map_err(failed("continue a checkpoint"))?;
            }
            self.set(&mut txn, key, value, state.sequence)?;
        }
        let (folded, fence) = (state.sequence.0.to_le_bytes(), state.fence.0.to_le_bytes());
        let record = [&VERSION.to_le_bytes()[..], &folded, &fence, &store.0.to_le_bytes()].concat();
        self.set(&mut txn, STATE_KEY, Some(&record), state.sequence)?;
        txn.commit().map_err(failed("commit a checkpoint"))
    }

    fn set(
        &self,
        txn: &mut RwTxn<'_>,
        key: &[u8],
        value: Option<&[u8]>,
        at: Sequence,
    ) -> Result<(), StoreError> {
        let Some(value) = value else {
            return self
                .data
                .delete(txn, key)
                .map(drop)
                .map_err(failed("write a key of a checkpoint"));
        };
        let sequence = at.0.to_le_bytes();
        let crc = checksum(key, value, &sequence).to_le_bytes();
        let written = self.data.put_reserved(txn, key, value.len() + TRAILER_BYTES, |space| {
            use std::io::Write;
            space.write_all(value)?;
            space.write_all(&sequence)?;
            space.write_all(&crc)
        });
        written.map_err(failed("write a key of a checkpoint"))
    }

    pub(super) fn reader(&self) -> Result<RoTxn<'_, WithoutTls>, StoreError> {
        self.env.read_txn().map_err(failed("read the base"))
    }

    pub(super) fn get<'t>(
        &self,
        txn: &'t RoTxn<'_, WithoutTls>,
        key: &[u8],
    ) -> Result<Option<&'t [u8]>, StoreError> {
        let stored = self.data.get(txn, key).map_err(failed("read the base"))?;
        stored.map(|stored| checked(key, stored).ok_or_else(|| record_corrupted(key))).transpose()
    }

    /// Visits `[from, end)`; the visitor may end the scan.
    pub(super) fn range<'t>(
        &self,
        txn: &'t RoTxn<'_, WithoutTls>,
        from: &[u8],
        end: &[u8],
        visit: &mut dyn FnMut(&'t [u8], &'t [u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        // LMDB has no empty key, not even as the start of a range.
        let from = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        let bounds = (from, Bound::Excluded(end));
        for entry in self.data.range(txn, &bounds).map_err(failed("scan the base"))? {
            let (key, stored) = entry.map_err(failed("scan the base"))?;
            let value = checked(key, stored).ok_or_else(|| record_corrupted(key))?;
            if key != STATE_KEY && visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Every record of a base that may be damaged, and what is wrong with it. A key may come several
/// times; the last one counts.
pub(super) fn salvage(
    directory: &Path,
    on_record: &mut dyn FnMut(&[u8], &[u8]),
    on_bad: &mut OnBad<'_>,
) -> Result<SalvagedBase, Bad> {
    let path = base_file(directory);
    if let Err(bad) = PageFile::open(&path) {
        on_bad(bad, b"", None)?;
    }
    let pages = PageFile::open_damaged(&path)?;
    let mut strays: Vec<(u64, Vec<u8>, Vec<u8>)> = Vec::new();
    let mut on_stray = |key: &[u8], stored: &[u8]| {
        if let Some(value) = checked(key, stored) {
            let sequence = stored[value.len()..]
                .first_chunk::<8>()
                .map_or(0, |bytes| u64::from_le_bytes(*bytes));
            strays.push((sequence, key.to_vec(), value.to_vec()));
        }
    };
    let mut is_whole =
        |key: &[u8], stored: &[u8]| checked(key, stored).map(drop).ok_or_else(|| FAILS.to_owned());
    pages.survey(&mut on_stray, &mut is_whole, on_bad);
    strays.sort();
    let (mut state, mut store, mut followed) = (BaseState::default(), None, 0);
    let mut take = |key: &[u8], value: &[u8]| match (key == STATE_KEY, decode_state(value)) {
        (false, _) => on_record(key, value),
        (true, Ok((newer, of))) => (state, store) = (newer, Some(of)),
        (true, Err(_)) => {}
    };
    strays.iter().for_each(|(_, key, value)| take(key, value));
    pages.records(&mut |key, stored| {
        let value = checked(key, stored).ok_or(FAILS)?;
        followed += 1;
        take(key, value);
        Ok(())
    });
    Ok(SalvagedBase {
        state,
        store,
        followed,
        lost: pages.entries().saturating_sub(followed),
        strays: strays.len() as u64,
    })
}

fn checksum(key: &[u8], value: &[u8], sequence: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(key), value), sequence)
}

/// The value of a stored record; `None` if its checksum fails.
fn checked<'a>(key: &[u8], stored: &'a [u8]) -> Option<&'a [u8]> {
    let (covered, crc) = stored.split_last_chunk::<4>()?;
    let value_bytes = stored.len().checked_sub(TRAILER_BYTES)?;
    (crc32c::crc32c_append(crc32c::crc32c(key), covered) == u32::from_le_bytes(*crc))
        .then(|| &stored[..value_bytes])
}

fn record_corrupted(key: &[u8]) -> StoreError {
    StoreError::Corrupted(format!(
        "the base's record of key {key:02x?} fails its checksum; \
         try: stop the metadata server, then braid mds salvage"
    ))
}

fn decode_state(bytes: &[u8]) -> Result<(BaseState, StoreId), StoreError> {
    let number = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    match (bytes.get(..4) == Some(&VERSION.to_le_bytes()), number(4), number(12), number(20)) {
        (true, Some(folded), Some(fence), Some(store)) => {
            Ok((BaseState { sequence: Sequence(folded), fence: Fence(fence) }, StoreId(store)))
        }
        _ => Err(StoreError::Corrupted(format!(
            "the base has a format that this program does not know; {FORMAT_ADVICE}"
        ))),
    }
}
