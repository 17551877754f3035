//! All metadata as a stream of bytes, and back.
//!
//! ```text
//! header   "BRAIDDMP" | version u32 | crc32c of the 12 bytes before u32
//! records  as in a log segment, sequences from 1: batches that put every key once, ascending
//! trailer  a record without changes; its fence is the number of keys, and nothing follows it
//! ```
//!
//! 1. The dump shows one moment: a read transaction of the base, and the log after what that
//!    transaction holds. A server may run meanwhile. If a checkpoint ends between the two reads, it
//!    removes segments that the dump needs; then both reads start again.
//! 2. A dump without its trailer is incomplete and is not loaded.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::RwLock;

use super::base::{Base, BaseState};
use super::overlay::Overlay;
use super::snapshot::EngineSnapshot;
use super::{
    Engine, EngineOptions, Memtables, StoreId, SyncedFile, expect_store, lock, log, recovery,
    refuse_other_format,
};
use crate::store::{Batch, Fence, MetaStore, Sequence, Snapshot, StoreError};

const MAGIC: &[u8; 8] = b"BRAIDDMP";
const VERSION: u32 = 1;
/// Approximate bytes of a batch.
const BATCH_BYTES: usize = 64 << 10;
/// How often a dump starts again because a checkpoint ended between its two reads. A checkpoint
/// takes far longer than the reads.
const TRIES_MAX: usize = 100;

/// What a dump holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DumpSummary {
    /// Keys.
    pub keys: u64,
    /// The last batch in it; 0 after a load.
    pub last_batch: Sequence,
}

/// Writes all metadata of the store in `directory` to `out`. A server may run on the store.
///
/// # Errors
/// Errors of the store; [`StoreError::Disk`] for `out`.
pub fn dump(directory: &Path, out: &mut dyn Write) -> Result<DumpSummary, StoreError> {
    expect_store(directory)?;
    let (_, store, synced) = SyncedFile::open(directory)?;
    refuse_other_format(directory)?;
    // If no server runs, nobody else has checked the files.
    let alone = match lock(directory) {
        Ok(lock) => Some(lock),
        Err(StoreError::InUse(_)) => None,
        Err(error) => return Err(error),
    };
    if alone.is_some() {
        Base::check(directory, store)?;
    }
    let base = Base::open_read_only(directory)?;
    for _ in 0..TRIES_MAX {
        let txn = base.reader()?;
        let (state, _) = base.state(&txn)?;
        let mut overlay = Overlay::default();
        let mut upto = state.sequence;
        let mut apply = |record: log::Record| {
            upto = record.sequence;
            record.batch.changes().for_each(|change| overlay.apply(change));
        };
        let is_whole = match alone {
            Some(_) => {
                recovery::replay(directory, store, state, synced, &mut apply).map(|_| true)?
            }
            None => read_log_of_running_server(directory, store, state, &mut apply)?,
        };
        if is_whole {
            let layers = RwLock::new(Memtables { active: overlay, frozen: None });
            let layers = layers.read().unwrap_or_else(braid_types::poisoned);
            let keys = write(&EngineSnapshot::of(layers, &base, txn), out)?;
            return Ok(DumpSummary { keys, last_batch: upto });
        }
    }
    Err(StoreError::Corrupted("the log does not match the base; try: braid mds dump again".into()))
}

/// Reads the log of a store that a server is writing, after `base` and up to its last whole record.
/// Returns whether no segment was removed meanwhile.
fn read_log_of_running_server(
    directory: &Path,
    store: StoreId,
    base: BaseState,
    apply: &mut dyn FnMut(log::Record),
) -> Result<bool, StoreError> {
    let mut next = base.sequence.0 + 1;
    for (first, path) in log::segments(directory)? {
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(StoreError::disk("read a log segment", error)),
        };
        if first.0 > next || log::read_header(&bytes) != log::Header::Whole(first, store) {
            return Ok(false);
        }
        let mut offset = log::HEADER_BYTES;
        while let Some((record, length)) = log::decode(&bytes[offset..]) {
            offset += length;
            if record.sequence.0 == next {
                apply(record);
                next += 1;
            }
        }
    }
    Ok(true)
}

pub(super) fn write(view: &dyn Snapshot, out: &mut dyn Write) -> Result<u64, StoreError> {
    let failed = |e| StoreError::disk("write the dump", e);
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
    out.write_all(&header).map_err(failed)?;
    let (mut batch, mut keys, mut sequence, mut buffer) = (Batch::new(), 0, 1, Vec::new());
    let mut outcome = Ok(());
    let mut flush = |batch: Batch, fence, sequence| {
        buffer.clear();
        log::encode(&mut buffer, &batch, Sequence(sequence), Fence(fence), Sequence(0));
        out.write_all(&buffer)
    };
    view.scan(b"", END, &mut |key, value| {
        if !batch.is_empty() && batch.bytes() + key.len() + value.len() >= BATCH_BYTES {
            outcome = flush(std::mem::take(&mut batch), 0, sequence);
            sequence += 1;
        }
        batch.put(key, value);
        keys += 1;
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome.map_err(failed)?;
    if !batch.is_empty() {
        flush(batch, 0, sequence).map_err(failed)?;
        sequence += 1;
    }
    flush(Batch::new(), keys, sequence).map_err(failed)?;
    out.flush().map_err(failed)?;
    Ok(keys)
}

/// Sorts after every key.
const END: &[u8] = &[0xff; 16];

/// Creates a store in `directory` from the dump in `from`, synced. The directory must hold no
/// store, and is none until this returns.
///
/// # Errors
/// [`StoreError::Exists`]; [`StoreError::Corrupted`] for an incomplete dump.
pub fn load(directory: &Path, from: &mut dyn Read) -> Result<(Engine, DumpSummary), StoreError> {
    let engine = Engine::create(directory, EngineOptions::default())?;
    let mut commit = |batch| engine.commit(batch, engine.fence()).map(drop);
    match read(from, &mut commit) {
        Ok(dumped) => {
            engine.sync(engine.committed())?;
            Ok((engine, dumped))
        }
        Err(error) => {
            drop(engine);
            // What is left would look like a store that has lost nearly everything.
            let _ = super::remove(directory);
            Err(error)
        }
    }
}

/// Reads a dump and passes on its batches in order. Only the trailer proves that it was complete.
pub(super) fn read(
    from: &mut dyn Read,
    commit: &mut dyn FnMut(Batch) -> Result<(), StoreError>,
) -> Result<DumpSummary, StoreError> {
    let broken = |why: String| StoreError::Corrupted(format!("the dump {why}; try: another dump"));
    let mut header = [0; 16];
    read_exact(from, &mut header).and_then(|whole| {
        whole.then_some(()).ok_or_else(|| broken("is empty or truncated".into()))
    })?;
    if &header[..8] != MAGIC || header[12..] != crc32c::crc32c(&header[..12]).to_le_bytes() {
        return Err(broken("does not begin with the header of a dump".into()));
    }
    if header[8..12] != VERSION.to_le_bytes() {
        let version = u32::from_le_bytes(header[8..12].try_into().unwrap_or_default());
        return Err(broken(format!("is of version {version}, which this program does not read")));
    }
    let (mut keys, mut sequence, mut buffer) = (0, 1, Vec::new());
    loop {
        buffer.resize(log::RECORD_HEADER_BYTES, 0);
        let mut whole = read_exact(from, &mut buffer)?;
        let body = u32::from_le_bytes(buffer[..4].try_into().unwrap_or_default()) as usize;
        if whole && body <= 2 * braid_types::limits::BATCH_BYTES_MAX {
            buffer.resize(log::RECORD_HEADER_BYTES + body, 0);
            whole = read_exact(from, &mut buffer[log::RECORD_HEADER_BYTES..])?;
        }
        let record = whole
            .then(|| log::decode(&buffer))
            .flatten()
            .filter(|(record, _)| record.sequence.0 == sequence);
        let Some((record, _)) = record else {
            return Err(broken(format!("is truncated or damaged after its first {keys} keys")));
        };
        sequence += 1;
        if record.batch.is_empty() {
            let rest = from.read(&mut [0]).map_err(|e| StoreError::disk("read the dump", e))?;
            return match (record.fence.0 == keys, rest) {
                (true, 0) => Ok(DumpSummary { keys, last_batch: Sequence(0) }),
                (true, _) => Err(broken("continues after its trailer".into())),
                (false, _) => Err(broken(format!("holds {keys} of {} keys", record.fence.0))),
            };
        }
        keys += record.batch.changes().count() as u64;
        commit(record.batch)?;
    }
}

/// Whether the stream held `bytes`.
fn read_exact(from: &mut dyn Read, bytes: &mut [u8]) -> Result<bool, StoreError> {
    match from.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(StoreError::disk("read the dump", error)),
    }
}
