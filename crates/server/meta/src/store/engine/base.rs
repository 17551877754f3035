//! The base: an LMDB file that holds everything folded out of the log, with the sequence it reaches to.
//!
//! 1. LMDB is copy-on-write and every transaction here is synced, so after any crash the file is as one left it.
//! 2. A fold is several transactions, or the pages that it touches would not fit the memory of a small server. The
//!    last one stores the sequence. A crash between them leaves newer values of some keys under an older sequence:
//!    harmless, since the log that holds every batch of the fold was synced before it began, and is replayed over it.

use std::ops::{Bound, ControlFlow};
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithoutTls};

use super::overlay::Overlay;
use crate::store::{Fence, Sequence, StoreError};

/// Address space set aside for the file, in bytes; it is not memory. Elsewhere than on 64-bit Unix the file grows to
/// this size at once, hence the smaller figure.
const MAP_BYTES: usize = if cfg!(all(unix, target_pointer_width = "64")) { 1 << 40 } else { 1 << 30 };
/// Views that may live at the same time, one a thread.
const READERS_MAX: u32 = 1024;
/// Keys that one transaction of a fold writes. Each may touch a page of its own, which LMDB holds in memory until it
/// commits: at most 8 MiB. Keys come in order, so no page is touched by two transactions but at their edge.
const FOLD_KEYS_MAX: usize = 2048;
/// Where the base keeps its own facts. Namespace keys begin with a shard and a letter, and are longer.
const STATE_KEY: &[u8] = b"\xff\xff\0";
/// Format of the state record and of what the base holds.
const VERSION: u32 = 1;

pub(super) struct Base {
    env: Env<WithoutTls>,
    data: Database<Bytes, Bytes>,
}

/// Up to where the base reaches.
#[derive(Clone, Copy, Default)]
pub(super) struct State {
    pub(super) folded: Sequence,
    pub(super) fence: Fence,
}

fn failed(what: &'static str) -> impl Fn(heed::Error) -> StoreError {
    move |error| match error {
        heed::Error::Io(source) => StoreError::disk(what, source),
        heed::Error::Mdb(heed::MdbError::MapFull) => StoreError::NoSpace(format!("{what}: the map is full")),
        other => StoreError::Corrupted(format!("{what}: {other}")),
    }
}

impl Base {
    #[allow(unsafe_code)]
    pub(super) fn open(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join("base");
        super::private::make_directory(&path).map_err(|e| StoreError::disk("create the base directory", e))?;
        super::private::tighten(&path);
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(MAP_BYTES).max_readers(READERS_MAX);
        // SAFETY: the file is mapped, so nothing else may change it: the engine holds the exclusive lock of the
        // directory, opens the base once, and no flag that weakens LMDB's own rules is set.
        let env = unsafe { options.flags(EnvFlags::NO_READ_AHEAD).open(&path) }.map_err(failed("open the base"))?;
        env.clear_stale_readers().map_err(failed("clear readers of the base"))?;
        let mut txn = env.write_txn().map_err(failed("open the base"))?;
        let data = env.create_database(&mut txn, None).map_err(failed("open the base"))?;
        txn.commit().map_err(failed("open the base"))?;
        // LMDB syncs what is in its file, not the file's name: without it a fold would delete the log and the loss of
        // power the base.
        super::log::sync_directory(&path)?;
        Ok(Self { env, data })
    }

    pub(super) fn state(&self) -> Result<State, StoreError> {
        let txn = self.reader()?;
        let Some(bytes) = self.get(&txn, STATE_KEY)? else { return Ok(State::default()) };
        let number = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        match (bytes.get(..4) == Some(&VERSION.to_le_bytes()), number(4), number(12)) {
            (true, Some(folded), Some(fence)) => Ok(State { folded: Sequence(folded), fence: Fence(fence) }),
            _ => Err(StoreError::Corrupted("the base has a format that this program does not know".into())),
        }
    }

    /// Writes an overlay that ends at `state`, synced. The log up to `state` must be synced (invariant 2).
    pub(super) fn fold(&self, overlay: &Overlay, state: State) -> Result<(), StoreError> {
        let mut txn = self.env.write_txn().map_err(failed("begin a fold"))?;
        for (n, (key, value)) in overlay.iter().enumerate() {
            if n % FOLD_KEYS_MAX == FOLD_KEYS_MAX - 1 {
                txn.commit().map_err(failed("commit a part of a fold"))?;
                txn = self.env.write_txn().map_err(failed("go on with a fold"))?;
            }
            self.set(&mut txn, key, value)?;
        }
        let record = [&VERSION.to_le_bytes()[..], &state.folded.0.to_le_bytes(), &state.fence.0.to_le_bytes()].concat();
        self.set(&mut txn, STATE_KEY, Some(&record))?;
        txn.commit().map_err(failed("commit a fold"))
    }

    fn set(&self, txn: &mut RwTxn<'_>, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
        match value {
            Some(value) => self.data.put(txn, key, value),
            None => self.data.delete(txn, key).map(|_| ()),
        }
        .map_err(failed("fold a key"))
    }

    pub(super) fn reader(&self) -> Result<RoTxn<'_, WithoutTls>, StoreError> {
        self.env.read_txn().map_err(failed("read the base"))
    }

    pub(super) fn get<'t>(&self, txn: &'t RoTxn<'_, WithoutTls>, key: &[u8]) -> Result<Option<&'t [u8]>, StoreError> {
        self.data.get(txn, key).map_err(failed("read the base"))
    }

    /// Visits `[from, end)`; the visitor may end the scan.
    pub(super) fn range<'t>(
        &self,
        txn: &'t RoTxn<'_, WithoutTls>,
        from: &[u8],
        end: &[u8],
        visit: &mut dyn FnMut(&'t [u8], &'t [u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        // LMDB has no empty key, not even to start from.
        let from = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        let bounds = (from, Bound::Excluded(end));
        for entry in self.data.range(txn, &bounds).map_err(failed("scan the base"))? {
            let (key, value) = entry.map_err(failed("scan the base"))?;
            if key != STATE_KEY && visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}
