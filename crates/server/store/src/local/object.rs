//! One open object: reads, writes, size changes, flush.

use super::directory::{Directory, lock};
use super::dirty_state::DirtyState;
use super::{platform, private};
use crate::change::check_generation;
use crate::fault::DiskOp;
use crate::{Mapping, Object, ObjectRecord, ObjectStat, Result, SizeChange, StoreError};
use braid_types::{ObjectId, ObjectOffset, SizeGeneration, Timestamp, WriteVerifier, limits};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[derive(Debug)]
pub(super) struct LocalObject {
    pub(super) id: ObjectId,
    path: PathBuf,
    file: File,
    /// False on a read-only disk, where objects can still be read.
    writable: bool,
    directory: Arc<Directory>,
    /// Shared by writers, exclusive for a size change: no write falls between a change and its
    /// refusal (I5).
    record: RwLock<ObjectRecord>,
    /// The record's flushed length, the only field that is raised while the record is shared.
    flushed_bytes: AtomicU64,
    /// Whether the file was shorter than that at the last look.
    cut_short: AtomicBool,
    /// Whether the next flush must sync the record too, not only the data. Locked during the sync:
    /// the system reports a failed write-back to only one of two flushes, and the other one must
    /// see the new verifier.
    record_unsynced: Mutex<bool>,
    dirty_state: Arc<DirtyState>,
    /// The longest mapping so far.
    mapping: RwLock<Option<Arc<Mapping>>>,
    /// Whether earlier writes went through another descriptor, which may have missed a write-back
    /// error.
    was_reopened: bool,
}

impl LocalObject {
    /// Opens an object's file, verifies its record, and finishes an interrupted size change. The
    /// caller holds the object's creation lock: a file without a record is no object, and is moved
    /// away.
    pub(super) fn open(directory: &Arc<Directory>, id: ObjectId) -> Result<Self> {
        let path = directory.object_path(id);
        let open = || {
            directory.check(DiskOp::Open)?;
            open_file(&path)
        };
        let (file, writable) = open().map_err(|error| directory.object_error("open", id, error))?;
        let bytes = platform::read_record(&file, &path)
            .map_err(|error| StoreError::from_io("read the object record of", &path, error))?;
        let corrupted = |why| StoreError::Corrupted { path: path.display().to_string(), why };
        let Some(bytes) = bytes else { return Err(directory.set_aside(id)) };
        let record = ObjectRecord::decode(&bytes, &path)?;
        if record.id != id {
            return Err(corrupted("its object record is another object's"));
        }
        let mut object = Self::new(directory, record, file, path);
        (object.writable, object.was_reopened) = (writable, true);
        // Before anything is written: whether the object has lost its end.
        object.stat()?;
        object.finish_pending()?;
        Ok(object)
    }

    /// An object with an open, named file and this record.
    pub(super) fn new(
        directory: &Arc<Directory>,
        record: ObjectRecord,
        file: File,
        path: PathBuf,
    ) -> Self {
        Self {
            id: record.id,
            path,
            file,
            writable: true,
            directory: directory.clone(),
            flushed_bytes: AtomicU64::new(record.flushed_bytes),
            cut_short: AtomicBool::new(false),
            record: RwLock::new(record),
            record_unsynced: Mutex::new(true),
            dirty_state: Arc::new(DirtyState::unknown()),
            mapping: RwLock::default(),
            was_reopened: false,
        }
    }

    fn record_shared(&self) -> RwLockReadGuard<'_, ObjectRecord> {
        self.record.read().unwrap_or_else(braid_types::poisoned)
    }

    fn record_exclusive(&self) -> RwLockWriteGuard<'_, ObjectRecord> {
        self.record.write().unwrap_or_else(braid_types::poisoned)
    }

    /// Whether writes can succeed. If not, the object is opened again each time: the disk may
    /// become writable.
    pub(super) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Which changes no flush has covered.
    pub(super) fn dirty_state(&self) -> &Arc<DirtyState> {
        &self.dirty_state
    }

    /// Whether a flush has something to do: data, record or name.
    pub(super) fn is_dirty(&self) -> bool {
        self.dirty_state.is_dirty() || self.directory.names_are_dirty(self.id.file)
    }

    fn expect_writable(&self) -> Result<()> {
        if self.writable {
            Ok(())
        } else {
            Err(StoreError::ReadOnly { path: self.path.display().to_string() })
        }
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> StoreError {
        move |error| StoreError::from_io(action, &self.path, error)
    }

    /// Finishes a pending size change, if there is one.
    fn finish_pending(&self) -> Result<()> {
        if self.record_shared().pending.is_some() {
            self.finish_pending_of(&mut self.record_exclusive())
        } else {
            Ok(())
        }
    }

    /// The same, with the record locked. A refused change is undone: its caller asks again.
    fn finish_pending_of(&self, record: &mut ObjectRecord) -> Result<()> {
        match self.finish(record) {
            Err(error) if error.is_refusal() && record.pending.is_none() => {
                tracing::warn!(object = %self.id, %error, "a refused size change was undone");
                Ok(())
            }
            finished => finished,
        }
    }

    /// The record for a caller of this generation, locked against size changes, with nothing
    /// pending.
    fn record_for_change(
        &self,
        generation: SizeGeneration,
    ) -> Result<RwLockReadGuard<'_, ObjectRecord>> {
        self.expect_writable()?;
        loop {
            self.finish_pending()?;
            let record = self.record_shared();
            check_generation(&record, generation)?;
            if record.pending.is_none() {
                return Ok(record);
            }
        }
    }

    /// Step 1 of a size change, in `change.rs`.
    fn begin(
        &self,
        record: &mut ObjectRecord,
        change: SizeChange,
        generation: SizeGeneration,
    ) -> Result<()> {
        let next = self.with_flushed(record).with_pending(change, generation);
        self.write_record(&next)?;
        // From here on memory refuses older generations too: the state of the record on disk is
        // unknown.
        self.replace_record(record, next);
        self.sync(true)
    }

    /// The record with the current flushed length.
    fn with_flushed(&self, record: &ObjectRecord) -> ObjectRecord {
        ObjectRecord { flushed_bytes: self.flushed_bytes.load(Ordering::Acquire), ..record.clone() }
    }

    /// Replaces the record, which is locked exclusively.
    fn replace_record(&self, record: &mut ObjectRecord, next: ObjectRecord) {
        self.flushed_bytes.store(next.flushed_bytes, Ordering::Release);
        *record = next;
    }

    /// Steps 2 and 3.
    fn finish(&self, record: &mut ObjectRecord) -> Result<()> {
        let Some(change) = record.pending else { return Ok(()) };
        self.expect_writable()?;
        if *lock(&self.record_unsynced) {
            // Step 1 failed, or the daemon died in it. Only a durable record may be followed by
            // step 2.
            self.write_record(record)?;
            self.sync(true)?;
        }
        debug_assert!(
            !*lock(&self.record_unsynced),
            "change.rs 4: step 2 follows a durable record"
        );
        let (op, action) = match change {
            SizeChange::Truncate { .. } => (DiskOp::Truncate, "truncate"),
            SizeChange::Punch { .. } => (DiskOp::Punch, "punch a hole into"),
        };
        let can_be_done = !self.cut_short.load(Ordering::Acquire) || {
            let size = platform::file_stat(&self.file).map_err(self.failed("stat"))?.size;
            self.with_flushed(record).can_apply_to(size)
        };
        let changing = self.dirty_state.begin_change();
        let change =
            || if can_be_done { platform::apply_change(&self.file, change) } else { Ok(()) };
        let changed = self.directory.check(op).and_then(|()| change());
        drop(changing);
        if let Err(error) = changed.map_err(self.failed(action)) {
            if error.is_refusal() {
                self.undo_pending(record)?;
            }
            return Err(error);
        }
        self.sync(true)?;
        let next = self.with_flushed(record).with_pending_done();
        self.write_record(&next)?;
        self.replace_record(record, next);
        Ok(())
    }

    /// After a refused step 2: nothing is pending, durably.
    fn undo_pending(&self, record: &mut ObjectRecord) -> Result<()> {
        let before = self.with_flushed(record).with_pending_undone();
        self.write_record(&before)?;
        self.replace_record(record, before);
        self.sync(true)
    }

    /// Records the length that the object had, at this generation, before a successful flush began.
    /// This is not synced, and a failure does no harm: the record then promises less.
    ///
    /// Only after the flush: the record may reach the disk before the data that it promises.
    pub(super) fn remember_length(&self, size: u64, generation: SizeGeneration) {
        let record = self.record_shared();
        let is_newer = || size > self.flushed_bytes.load(Ordering::Acquire);
        if record.pending.is_some()
            || record.size_generation != generation
            || !self.writable
            || !is_newer()
        {
            return;
        }
        let _one = lock(&self.record_unsynced);
        if is_newer() {
            let next = ObjectRecord { flushed_bytes: size, ..record.clone() };
            match platform::write_record(&self.file, &self.path, &next.encode()) {
                Ok(()) => self.flushed_bytes.store(size, Ordering::Release),
                Err(error) => {
                    tracing::debug!(object = %self.id, %error, "a flushed length was not recorded")
                }
            }
        }
    }

    /// Refuses a change at `offset` that would hide the lost end of the object.
    fn expect_end_at(&self, offset: u64) -> Result<()> {
        if !self.cut_short.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.stat()?.lost_from {
            Some(found) if offset > found => Err(self.cut_short_error(found)),
            _ => Ok(()),
        }
    }

    fn cut_short_error(&self, found: u64) -> StoreError {
        let (object, flushed) = (self.id, self.flushed_bytes.load(Ordering::Acquire));
        StoreError::CutShort {
            object,
            path: self.directory.root.display().to_string(),
            found,
            flushed,
        }
    }

    fn write_record(&self, record: &ObjectRecord) -> Result<()> {
        // Locked during the change. A flush between the flag and the change would reset the flag,
        // and nobody would sync the record that is written after it.
        let mut unsynced = lock(&self.record_unsynced);
        *unsynced = true;
        let _changing = self.dirty_state.begin_change();
        self.directory
            .check(DiskOp::SetRecord)
            .and_then(|()| platform::write_record(&self.file, &self.path, &record.encode()))
            .map_err(self.failed("write the object record of"))
    }

    /// Makes the data durable, and also the record if it has changed or `whole` is set.
    fn sync(&self, whole: bool) -> Result<()> {
        let mut unsynced = lock(&self.record_unsynced);
        let seen = self.dirty_state.change_count();
        let sync = || {
            self.directory.check(DiskOp::Sync)?;
            if whole || *unsynced { self.file.sync_all() } else { self.file.sync_data() }
        };
        sync().map_err(|error| self.directory.sync_failed(&self.path, error))?;
        *unsynced = false;
        self.dirty_state.mark_flushed(seen);
        Ok(())
    }

    fn end(&self, offset: ObjectOffset, length: u64) -> Result<()> {
        match offset.checked_add(length) {
            Some(end) if end.0 <= self.directory.object_bytes_max => Ok(()),
            _ => Err(StoreError::TooLarge { object: self.id }),
        }
    }

    fn read_some(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let allowed = self.directory.allowed(DiskOp::Read, buf.len())?;
        platform::read_at(&self.file, &mut buf[..allowed], offset)
    }

    fn write_some(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        let allowed = self.directory.allowed(DiskOp::Write, data.len())?;
        platform::write_at(&self.file, &data[..allowed], offset)
    }
}

impl Object for LocalObject {
    fn id(&self) -> ObjectId {
        self.id
    }

    fn record(&self) -> ObjectRecord {
        self.with_flushed(&self.record_shared())
    }

    fn read_at(&self, buf: &mut [u8], offset: ObjectOffset) -> Result<usize> {
        let mut read = 0;
        while read < buf.len()
            && offset.0.checked_add(read as u64).is_some_and(|at| at < limits::FILE_BYTES_MAX)
        {
            match self.read_some(&mut buf[read..], offset.0 + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read")(error)),
            }
        }
        Ok(read)
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn mapping(&self, end: u64) -> Option<Arc<Mapping>> {
        if !platform::CAN_MAP {
            return None;
        }
        let reaches = |mapping: &&Arc<Mapping>| mapping.bytes() >= end;
        let known = |mapping: &Option<Arc<Mapping>>| mapping.as_ref().filter(reaches).cloned();
        if let Some(mapping) = known(&self.mapping.read().unwrap_or_else(braid_types::poisoned)) {
            return Some(mapping);
        }
        let mut longest = self.mapping.write().unwrap_or_else(braid_types::poisoned);
        // Another thread may have been faster.
        if known(&longest).is_none() {
            *longest = Some(Arc::new(Mapping::new(&self.file, end, self.directory.mapped())?));
        }
        longest.clone()
    }

    fn write_at(
        &self,
        data: &[u8],
        offset: ObjectOffset,
        generation: SizeGeneration,
    ) -> Result<()> {
        self.end(offset, data.len() as u64)?;
        let _record = self.record_for_change(generation)?;
        self.expect_end_at(offset.0)?;
        let _changing = self.dirty_state.begin_change();
        let mut written = 0;
        while written < data.len() {
            match self.write_some(&data[written..], offset.0 + written as u64) {
                Ok(0) => return Err(self.failed("write")(io::ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("write")(error)),
            }
        }
        Ok(())
    }

    fn set_modified(&self, modified: Timestamp, generation: SizeGeneration) -> Result<()> {
        let _record = self.record_for_change(generation)?;
        let _changing = self.dirty_state.begin_change();
        platform::set_modified(&self.file, modified).map_err(self.failed("set the time of"))
    }

    fn copy_from(
        &self,
        source: &dyn Object,
        from: ObjectOffset,
        to: ObjectOffset,
        bytes: u64,
        generation: SizeGeneration,
    ) -> Result<Option<u64>> {
        self.end(to, bytes)?;
        let Some(source) = source.file() else { return Ok(None) };
        let _record = self.record_for_change(generation)?;
        self.expect_end_at(to.0)?;
        let _changing = self.dirty_state.begin_change();
        let copy = || {
            let allowed = self
                .directory
                .allowed(DiskOp::Write, usize::try_from(bytes).unwrap_or(usize::MAX))?;
            platform::copy_range(source, from.0, &self.file, to.0, allowed)
        };
        match copy() {
            Ok(copied) => Ok(copied.map(|copied| copied as u64)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(self.failed("write")(error)),
        }
    }

    fn allocate(
        &self,
        offset: ObjectOffset,
        length: u64,
        generation: SizeGeneration,
    ) -> Result<()> {
        self.end(offset, length)?;
        let _record = self.record_for_change(generation)?;
        if length == 0 {
            return Ok(());
        }
        self.expect_end_at(offset.0.saturating_add(length))?;
        let _changing = self.dirty_state.begin_change();
        self.directory
            .check(DiskOp::Allocate)
            .and_then(|()| platform::allocate(&self.file, offset.0, length))
            .map_err(self.failed("reserve space for"))
    }

    fn change_size(&self, change: SizeChange, generation: SizeGeneration) -> Result<()> {
        if !change.fits_in(self.directory.object_bytes_max) {
            return Err(StoreError::TooLarge { object: self.id });
        }
        let mut record = self.record_exclusive();
        check_generation(&record, generation)?;
        self.expect_writable()?;
        self.finish_pending_of(&mut record)?;
        if record.size_generation != generation {
            self.begin(&mut record, change, generation)?;
            self.finish(&mut record)?;
        }
        // Also for a repeated change: the earlier caller may have died before this. The refusal of
        // older generations must survive a loss of power even for a new object.
        self.directory.sync_names(self.id.file)
    }

    fn flush(&self) -> Result<WriteVerifier> {
        if self.dirty_state.is_dirty() {
            if self.was_reopened {
                self.directory.check_closed_objects(self.id)?;
            }
            let seen = self.stat()?;
            self.sync(false)?;
            self.remember_length(seen.size, seen.size_generation);
        }
        self.directory.sync_names(self.id.file)?;
        Ok(self.directory.verifier())
    }

    fn stat(&self) -> Result<ObjectStat> {
        // In this order: nobody truncates the object while its record is shared. So it is not
        // shorter than its flushed length was before the look.
        let record = self.record_shared();
        let flushed = self.flushed_bytes.load(Ordering::Acquire);
        let platform::ObjectFileStat { size, allocated_bytes, mtime } =
            platform::file_stat(&self.file).map_err(self.failed("stat"))?;
        let lost_from = (size < flushed).then_some(size);
        if self.cut_short.load(Ordering::Relaxed) != lost_from.is_some() {
            self.cut_short.store(lost_from.is_some(), Ordering::Release);
            if let Some(found) = lost_from {
                tracing::error!(error = %self.cut_short_error(found), "an object has lost its end");
            }
        }
        let size = size.max(flushed);
        Ok(ObjectStat {
            size,
            lost_from,
            allocated_bytes,
            mtime,
            size_generation: record.size_generation,
        })
    }

    fn next_data(&self, from: ObjectOffset) -> Result<Option<ObjectOffset>> {
        let found = seek_within_limit(from, |from| platform::next_data(&self.file, from))
            .map_err(self.failed("seek data in"))?;
        let lost =
            if self.cut_short.load(Ordering::Acquire) { self.stat()? } else { return Ok(found) };
        Ok(found.or_else(|| lost.lost_data(from)))
    }

    fn next_hole(&self, from: ObjectOffset) -> Result<Option<ObjectOffset>> {
        let found = seek_within_limit(from, |from| platform::next_hole(&self.file, from))
            .map_err(self.failed("seek a hole in"))?;
        let lost =
            if self.cut_short.load(Ordering::Acquire) { self.stat()? } else { return Ok(found) };
        Ok(lost.hole_after_lost(from, found))
    }
}

impl Drop for LocalObject {
    fn drop(&mut self) {
        if self.dirty_state.has_known_changes() {
            self.directory.closed_dirty(self.id);
        }
    }
}

fn open_file(path: &Path) -> io::Result<(File, bool)> {
    match File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            Ok((File::open(path)?, false))
        }
        Err(error) => Err(error),
        Ok(file) => {
            if let Err(error) = private::tighten_file(&file) {
                tracing::debug!(path = %path.display(), %error, "its mode stays as it is");
            }
            Ok((file, true))
        }
    }
}

/// Offsets past the largest file are past the end, not an invalid argument.
fn seek_within_limit(
    from: ObjectOffset,
    seek: impl Fn(u64) -> io::Result<Option<u64>>,
) -> io::Result<Option<ObjectOffset>> {
    if from.0 > limits::FILE_BYTES_MAX { Ok(None) } else { Ok(seek(from.0)?.map(ObjectOffset)) }
}

/// Where an object is created before it has its name.
pub(super) fn temporary_path(root: &Path, number: u64) -> PathBuf {
    root.join(super::directory::TEMPORARY).join(number.to_string())
}
