//! Entry points for `fuzz/` into the parsers of the engine's files. Not a public interface.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use super::base::{self, Base, BaseState};
use super::overlay::Overlay;
use super::{StoreId, dump, log, synced};
use crate::store::{Batch, Change, Fence, MemoryStore, MetaStore, Sequence, StoreError};

const STORE: StoreId = StoreId(7);

/// Keys with their values.
pub type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Creates a base with these records below a directory.
pub fn make_base(directory: &Path, records: &Records) -> Result<(), StoreError> {
    let base = Base::create(directory, STORE)?;
    let mut overlay = Overlay::default();
    records.iter().for_each(|(key, value)| overlay.apply(Change { key, value: Some(value) }));
    base.checkpoint(&overlay, BaseState { sequence: Sequence(9), fence: Fence(1) }, STORE)
}

/// Reads a base as the start of a server does, and as a salvage does. If the start accepts the
/// base, LMDB reads it too. Returns how many records it has.
///
/// # Panics
/// If LMDB does not read what the check accepted.
pub fn read_base(directory: &Path) -> Option<usize> {
    let _ = base::salvage(directory, &mut |_, _| {}, &mut |_, _, _| Ok(()));
    Base::check(directory, STORE).ok()?;
    let (base, mut count) = (Base::open_read_only(directory).expect("it was checked"), 0);
    let txn = base.reader().expect("it was checked");
    let mut visit = |_: &[u8], _: &[u8]| {
        count += 1;
        ControlFlow::Continue(())
    };
    base.range(&txn, b"", &[0xff; 16], &mut visit).expect("it was checked");
    Some(count)
}

/// The dump of a store with these records.
pub fn dump_of(records: &Records) -> Result<Vec<u8>, StoreError> {
    let (store, mut batch, mut out) = (MemoryStore::new(), Batch::new(), Vec::new());
    records.iter().for_each(|(key, value)| batch.put(key, value));
    store.commit(batch, Fence(1))?;
    dump::write(&*store.snapshot()?, &mut out)?;
    Ok(out)
}

/// Reads a dump.
pub fn read_dump(from: &mut dyn Read) -> Result<Records, StoreError> {
    let mut records = Records::new();
    dump::read(from, &mut |batch| {
        let put = batch
            .changes()
            .filter_map(|change| Some((change.key.to_vec(), change.value?.to_vec())));
        records.extend(put);
        Ok(())
    })?;
    Ok(records)
}

/// Reads the bytes as a segment of the log, as the start does and as a salvage does.
pub fn read_segment(bytes: &[u8]) {
    let _ = log::read_header(bytes);
    let mut at = 0;
    while let Some((record, length)) = log::decode(&bytes[at..]) {
        assert!(length > 0, "a record has a header");
        record.batch.changes().for_each(drop);
        at += length;
    }
    let (mut at, mut after) = (0, Sequence(0));
    while let Some((begin, record, length)) = log::next_record(bytes, at, after) {
        assert!(begin >= at && record.sequence > after);
        (at, after) = (begin + length, record.sequence);
    }
}

/// Reads the bytes as the file `synced`. Returns the sequence of its newest slot.
///
/// # Panics
/// When the slot is not the same after encoding it again.
pub fn read_synced(bytes: &[u8]) -> Option<u64> {
    let slot = synced::newest(bytes)?;
    let again = synced::encode(slot.store, slot.synced, slot.writes);
    assert_eq!(synced::newest(&again), Some(slot));
    Some(slot.synced.0)
}

/// The bytes of a slot of the file `synced`.
pub fn synced_slot(sequence: u64, turn: u64) -> Vec<u8> {
    synced::encode(STORE, Sequence(sequence), turn).to_vec()
}
