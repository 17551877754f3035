//! One open object of the store in memory.

use super::crash::UnsyncedChange;
use super::store::{ObjectEntry, SharedStore, StoreState};
use crate::change::check_generation;
use crate::fault::{DiskOp, Fault};
use crate::{Object, ObjectRecord, ObjectStat, Result, SizeChange, StoreError};
use braid_types::{ObjectId, ObjectOffset, SizeGeneration, Timestamp, WriteVerifier};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Opened in one life of the store, and unusable in the next.
#[derive(Debug)]
pub(super) struct MemObject {
    pub(super) id: ObjectId,
    /// The number of the entry: an object that is deleted and created again is another entry.
    pub(super) entry: u64,
    pub(super) life: u64,
    pub(super) shared: Arc<SharedStore>,
}

impl MemObject {
    fn with<T>(
        &self,
        action: &'static str,
        act: impl FnOnce(&mut StoreState, &mut ObjectEntry) -> Result<T>,
    ) -> Result<T> {
        let mut inner = self.shared.lock();
        if inner.life != self.life {
            return Err(
                self.failed(action, io::Error::other("the daemon that opened it has ended"))
            );
        }
        // Taken out during `act`, so that both can be changed.
        let mut entry = inner.take(self.id, self.entry).ok_or_else(|| self.no_object())?;
        let outcome = act(&mut inner, &mut entry);
        inner.put_back(self.id, entry);
        outcome
    }

    fn failed(&self, action: &'static str, error: io::Error) -> StoreError {
        StoreError::from_io(action, self.shared.path(self.id), error)
    }

    fn no_object(&self) -> StoreError {
        StoreError::NoObject { object: self.id, path: self.shared.name.clone() }
    }

    fn check(&self, action: &'static str, op: DiskOp) -> Result<()> {
        self.shared.faults.check(op).map_err(|error| self.failed(action, error))
    }

    /// Short reads and writes continue; each piece is one more disk operation.
    fn pieces(&self, action: &'static str, op: DiskOp, mut bytes: usize) -> Result<()> {
        while bytes > 0 {
            match self.shared.faults.next_fault(op) {
                None => return Ok(()),
                Some(Fault::Short) => bytes -= bytes.div_ceil(2),
                Some(fault) => {
                    fault.error().map_or(Ok(()), |error| Err(self.failed(action, error)))?
                }
            }
        }
        Ok(())
    }

    fn end(&self, offset: ObjectOffset, length: u64) -> Result<()> {
        match offset.checked_add(length) {
            Some(end) if end.0 <= self.shared.object_bytes_max() => Ok(()),
            _ => Err(StoreError::TooLarge { object: self.id }),
        }
    }

    /// Refuses a change at `offset` that would hide the lost end of the object.
    fn expect_end_at(&self, entry: &ObjectEntry, offset: u64) -> Result<()> {
        match entry.stat().lost_from {
            Some(found) if offset > found => {
                let (object, flushed) = (self.id, entry.live.record.flushed_bytes);
                Err(StoreError::CutShort { object, path: self.shared.name.clone(), found, flushed })
            }
            _ => Ok(()),
        }
    }

    fn set_record(&self, entry: &mut ObjectEntry, record: ObjectRecord) -> Result<()> {
        self.check("write the object record of", DiskOp::SetRecord)?;
        entry.apply_unsynced(UnsyncedChange::Record(record));
        Ok(())
    }

    fn sync(&self, inner: &mut StoreState, entry: &mut ObjectEntry) -> Result<()> {
        self.check("make durable", DiskOp::Sync).inspect_err(|_| inner.sync_failed(entry))?;
        entry.sync();
        Ok(())
    }

    fn sync_name(&self, inner: &mut StoreState, entry: &mut ObjectEntry) -> Result<()> {
        if !entry.name_durable {
            self.check("make durable", DiskOp::SyncDirectory)
                .inspect_err(|_| inner.new_verifier())?;
            entry.name_durable = true;
        }
        Ok(())
    }

    /// Steps 2 and 3 of a size change, in `change.rs`.
    pub(super) fn finish(&self, inner: &mut StoreState, entry: &mut ObjectEntry) -> Result<()> {
        let Some(change) = entry.live.record.pending else { return Ok(()) };
        if entry.durable.record != entry.live.record {
            // Step 1 failed, or the daemon died in it. Only a durable record may be followed by
            // step 2.
            self.set_record(entry, entry.live.record.clone())?;
            self.sync(inner, entry)?;
        }
        let (op, action) = match change {
            SizeChange::Truncate { .. } => (DiskOp::Truncate, "truncate"),
            SizeChange::Punch { .. } => (DiskOp::Punch, "punch a hole into"),
        };
        if let Err(error) = self.check(action, op) {
            if error.is_refusal() {
                self.set_record(entry, entry.live.record.with_pending_undone())?;
                self.sync(inner, entry)?;
            }
            return Err(error);
        }
        if entry.live.record.can_apply_to(entry.live.content.size) {
            entry.apply_unsynced(UnsyncedChange::Change(change));
        }
        self.sync(inner, entry)?;
        self.set_record(entry, entry.live.record.with_pending_done())
    }

    /// Finishes a change that a crash left pending.
    pub(super) fn finish_pending(&self) -> Result<()> {
        self.with("open", |inner, entry| self.finish_pending_of(inner, entry))
    }

    /// The same; a refused change is undone.
    fn finish_pending_of(&self, inner: &mut StoreState, entry: &mut ObjectEntry) -> Result<()> {
        match self.finish(inner, entry) {
            Err(error) if error.is_refusal() && entry.live.record.pending.is_none() => Ok(()),
            finished => finished,
        }
    }
}

impl Object for MemObject {
    fn id(&self) -> ObjectId {
        self.id
    }

    fn record(&self) -> ObjectRecord {
        self.shared.lock().record(self.id).unwrap_or_else(|| ObjectRecord {
            id: self.id,
            size_generation: SizeGeneration::default(),
            uid: 0,
            gid: 0,
            layout: Arc::from([]),
            pending: None,
            flushed_bytes: 0,
        })
    }

    fn read_at(&self, buf: &mut [u8], offset: ObjectOffset) -> Result<usize> {
        self.with("read", |_, entry| {
            self.pieces("read", DiskOp::Read, buf.len())?;
            Ok(entry.live.content.read(buf, offset.0))
        })
    }

    fn file(&self) -> Option<&File> {
        None
    }

    fn write_at(
        &self,
        data: &[u8],
        offset: ObjectOffset,
        generation: SizeGeneration,
    ) -> Result<()> {
        self.end(offset, data.len() as u64)?;
        self.with("write", |inner, entry| {
            check_generation(&entry.live.record, generation)?;
            self.finish_pending_of(inner, entry)?;
            self.expect_end_at(entry, offset.0)?;
            self.pieces("write", DiskOp::Write, data.len())?;
            inner.take_space(data.len() as u64).map_err(|error| self.failed("write", error))?;
            if !data.is_empty() {
                entry.apply_unsynced(UnsyncedChange::Write {
                    offset: offset.0,
                    data: data.to_vec(),
                });
            }
            Ok(())
        })
    }

    fn set_modified(&self, modified: Timestamp, generation: SizeGeneration) -> Result<()> {
        self.with("set the time of", |_, entry| {
            check_generation(&entry.live.record, generation)?;
            entry.modified = Some(modified);
            Ok(())
        })
    }

    fn allocate(
        &self,
        offset: ObjectOffset,
        length: u64,
        generation: SizeGeneration,
    ) -> Result<()> {
        self.end(offset, length)?;
        self.with("reserve space for", |inner, entry| {
            check_generation(&entry.live.record, generation)?;
            self.finish_pending_of(inner, entry)?;
            if length > 0 {
                self.expect_end_at(entry, offset.0.saturating_add(length))?;
                self.check("reserve space for", DiskOp::Allocate)?;
                inner
                    .take_space(length)
                    .map_err(|error| self.failed("reserve space for", error))?;
                entry.apply_unsynced(UnsyncedChange::Allocate { offset: offset.0, length });
            }
            Ok(())
        })
    }

    fn change_size(&self, change: SizeChange, generation: SizeGeneration) -> Result<()> {
        if !change.fits_in(self.shared.object_bytes_max()) {
            return Err(StoreError::TooLarge { object: self.id });
        }
        self.with("change the size of", |inner, entry| {
            check_generation(&entry.live.record, generation)?;
            self.finish_pending_of(inner, entry)?;
            if entry.live.record.size_generation != generation {
                self.set_record(entry, entry.live.record.with_pending(change, generation))?;
                self.sync(inner, entry)?;
                self.finish(inner, entry)?;
            }
            self.sync_name(inner, entry)
        })
    }

    fn flush(&self) -> Result<WriteVerifier> {
        self.with("make durable", |inner, entry| {
            if entry.dirty {
                self.sync(inner, entry)?;
                entry.remember_length(entry.live.content.size);
            }
            self.sync_name(inner, entry)?;
            Ok(inner.verifier)
        })
    }

    fn stat(&self) -> Result<ObjectStat> {
        self.with("stat", |_, entry| Ok(entry.stat()))
    }

    fn next_data(&self, from: ObjectOffset) -> Result<Option<ObjectOffset>> {
        self.with("seek data in", |_, entry| {
            let found = entry.live.content.next_data(from.0).map(ObjectOffset);
            Ok(found.or_else(|| entry.stat().lost_data(from)))
        })
    }

    fn next_hole(&self, from: ObjectOffset) -> Result<Option<ObjectOffset>> {
        self.with("seek a hole in", |_, entry| {
            let found = entry.live.content.next_hole(from.0).map(ObjectOffset);
            Ok(entry.stat().hole_after_lost(from, found))
        })
    }
}
