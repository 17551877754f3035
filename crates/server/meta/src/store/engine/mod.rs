//! The embedded engine: a log before an ordered map in memory before LMDB (`docs/adr/0002`).
//!
//! ```text
//! commit ─▶ log segment (one write, no fsync) ─▶ active overlay
//!                                                   │ over `checkpoint_bytes`: frozen, new segment
//!           segment deleted ◀── base synced ◀── checkpoint thread ◀── frozen overlay
//! read   ─▶ active overlay ─▶ frozen overlay ─▶ base (LMDB)
//! ```
//!
//! Invariants:
//! 1. Everything in the overlays is in the log, and everything in the base is synced. Base and log
//!    together hold every committed batch. `commit` appends to the log before it changes an
//!    overlay; `checkpoint_once` asserts that the log is synced up to the end of the checkpoint
//!    before it writes the base.
//! 2. The overlays are exchanged only under the write lock of `memtables`, which the type enforces.
//!    The checkpoint reads the frozen overlay without the lock. At most one overlay is frozen:
//!    `freeze` asserts it.
//! 3. Lock order: `log`, then `memtables`. A snapshot holds `memtables` alone. No assertion checks
//!    this: the locks do not record their owner.
//! 4. Memory is bounded: commits wait for the checkpoint when the active overlay reaches twice
//!    `checkpoint_bytes`. `commit` asserts it.
//! 5. At start every page of the base is checked, and the batches of the log after its sequence are
//!    replayed in order. A torn tail is cut off and reported. Anything else that is wrong stops the
//!    start and leaves every file as it is (`recovery.rs`).
//! 6. What was synced can be proved after the log is gone: the file `synced` and the marks in the
//!    records say up to which sequence (`synced.rs`). The store's id in every file distinguishes
//!    files of two stores. `sync_log` asserts that the proven sequence never falls, and the log
//!    that a record is newer than its mark.
//! 7. There is always a segment whose name and header are synced: it is created before older ones
//!    are deleted. `remove_segments` asserts it.

mod base;
#[cfg(test)]
mod damage_tests;
mod dump;
mod file_permissions;
#[doc(hidden)]
pub mod fuzzing;
mod lmdb_pages;
mod log;
mod overlay;
mod recovery;
mod salvage;
mod snapshot;
mod synced;

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, mpsc};
use std::thread::JoinHandle;

use braid_types::EndProcessOnPanic;

use base::{Base, BaseState};
use log::Segment;
use overlay::Overlay;
use synced::SyncedFile;

pub(crate) use dump::load;
pub use dump::{DumpSummary, dump};
pub(crate) use log::sync_directory;
pub use recovery::TornTail;
pub use salvage::SalvagedRecords;
pub(crate) use salvage::salvage_records;

use super::{Batch, Fence, MetaStore, Sequence, Snapshot, StoreError};

/// Advice to a user whose files have an older format.
const FORMAT_ADVICE: &str = "try: the version of braid that wrote it";

/// Distinguishes the files of one store from those of another. Not a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct StoreId(u64);

impl StoreId {
    /// An id that no other store has: the keys of the standard library's hash maps are random.
    fn random() -> Self {
        Self(RandomState::new().hash_one(std::process::id()))
    }
}

/// How the engine divides memory and disk.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Bytes that the active overlay may hold before a checkpoint moves it into the base. Two
    /// overlays may be in memory.
    pub checkpoint_bytes: usize,
}

impl Default for EngineOptions {
    /// 8 MiB. With the frozen overlay and an active one of twice that size, 24 MiB of the server's
    /// 64 are used.
    fn default() -> Self {
        Self { checkpoint_bytes: 8 << 20 }
    }
}

/// The default metadata store: a directory on a local disk. Dropping it ends its thread; nothing
/// has to be flushed.
pub struct Engine {
    shared: Arc<EngineShared>,
    checkpoint_thread: Option<JoinHandle<()>>,
    wake: Option<mpsc::SyncSender<()>>,
    lock: File,
    cut: Option<TornTail>,
}

struct EngineShared {
    directory: PathBuf,
    options: EngineOptions,
    store: StoreId,
    base: Base,
    memtables: RwLock<Memtables>,
    log: Mutex<LogState>,
    /// Signalled with `log` when a checkpoint has ended, successfully or not.
    checkpoint_done: Condvar,
    committed: AtomicU64,
    /// Held while the log is synced.
    synced: Mutex<u64>,
    /// A copy of `synced`, for the marks in records.
    known_synced: AtomicU64,
    synced_file: SyncedFile,
    stopped: AtomicBool,
    /// A segment was created whose name may not be on disk yet.
    segment_name_unsynced: AtomicBool,
    #[cfg(test)]
    next_flush_fails: AtomicBool,
}

/// The overlays, which hold the changes that are not in the base yet.
#[derive(Default)]
struct Memtables {
    active: Overlay,
    frozen: Option<Arc<Overlay>>,
}

struct LogState {
    segment: Segment,
    /// Segments that the base does not hold yet, oldest first, the active one last.
    live: Vec<(File, PathBuf)>,
    fence: Fence,
    /// Where the frozen overlay ends, and how many of `live` it spans.
    frozen: Option<(BaseState, usize)>,
    /// Why the last checkpoint failed. Cleared when one succeeds.
    checkpoint_error: Option<StoreError>,
}

impl Engine {
    /// Creates an empty store in `directory` and opens it. The directory must be new or hold
    /// nothing of a store.
    pub fn create(directory: &Path, options: EngineOptions) -> Result<Self, StoreError> {
        file_permissions::make_directory(directory)
            .map_err(|e| StoreError::disk("create the metadata directory", e))?;
        if holds_anything(directory)? {
            return Err(StoreError::Exists(directory.display().to_string()));
        }
        let lock = lock(directory)?;
        let store = StoreId::random();
        let base = Base::create(directory, store)?;
        let segment = Segment::create_synced(directory, Sequence(1), store)?;
        let synced_file = SyncedFile::create(directory, store, Sequence(0))?;
        Self::start(
            directory,
            options,
            lock,
            store,
            Opened { base, state: BaseState::default(), segment, synced_file },
        )
    }

    /// Opens the store in `directory` and recovers what its log holds.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if there is no store, [`StoreError::Damaged`] if anything but the
    /// torn tail of its log is wrong. Nothing is changed or removed then.
    pub fn open(directory: &Path, options: EngineOptions) -> Result<Self, StoreError> {
        expect_store(directory)?;
        let lock = lock(directory)?;
        for path in [directory, &base::base_directory(directory)] {
            file_permissions::tighten(path);
        }
        let (synced_file, store, synced) = SyncedFile::open(directory)?;
        refuse_other_format(directory)?;
        let (opened, cut) = recover(directory, store, synced, synced_file)?;
        let mut engine = Self::start(directory, options, lock, store, opened)?;
        engine.cut = cut;
        Ok(engine)
    }

    fn start(
        directory: &Path,
        options: EngineOptions,
        lock: File,
        store: StoreId,
        opened: Opened,
    ) -> Result<Self, StoreError> {
        let Opened { base, state, segment, synced_file } = opened;
        let live = vec![segment.handle()?];
        let log =
            LogState { segment, live, fence: state.fence, frozen: None, checkpoint_error: None };
        let shared = Arc::new(EngineShared {
            directory: directory.to_owned(),
            options,
            store,
            base,
            memtables: RwLock::default(),
            log: Mutex::new(log),
            checkpoint_done: Condvar::new(),
            committed: AtomicU64::new(state.sequence.0),
            synced: Mutex::new(state.sequence.0),
            known_synced: AtomicU64::new(state.sequence.0),
            synced_file,
            stopped: AtomicBool::new(false),
            segment_name_unsynced: AtomicBool::new(false),
            #[cfg(test)]
            next_flush_fails: AtomicBool::new(false),
        });
        let (wake, woken) = mpsc::sync_channel(1);
        let folding = shared.clone();
        let folder = std::thread::Builder::new()
            .name("meta-fold".into())
            .spawn(move || folding.run_checkpoints(&woken));
        let folder = folder.map_err(|e| StoreError::disk("start the checkpoint thread", e))?;
        Ok(Self { shared, checkpoint_thread: Some(folder), wake: Some(wake), lock, cut: None })
    }

    /// Where the torn tail of the log was cut off when the store was opened. Nothing after it was
    /// ever synced.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.cut.as_ref()
    }

    /// Moves everything committed so far into the base and waits for that. Nobody may commit
    /// meanwhile. For tests and an orderly stop.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.wait_for_checkpoint()?;
        let mut log = self.shared.log();
        if log.frozen.is_none() && !self.shared.read_memtables().active.is_empty() {
            self.shared.freeze(&mut log)?;
        }
        self.wake_checkpoint_thread();
        self.shared.wait_for_checkpoint(log).map(drop)
    }

    /// Waits until no checkpoint runs. Without commits the files do not change after that.
    pub fn wait_for_checkpoint(&self) -> Result<(), StoreError> {
        // A failed checkpoint is retried.
        self.wake_checkpoint_thread();
        self.shared.wait_for_checkpoint(self.shared.log()).map(drop)
    }

    /// The newest segment, and the byte of it up to which the log is known to be synced, by a
    /// caller or by a checkpoint.
    #[cfg(test)]
    pub(crate) fn synced_bytes(&self) -> (PathBuf, u64) {
        let (_, path) = self.shared.log().segment.handle().expect("a handle");
        let bytes = std::fs::read(&path).expect("the newest segment");
        let proven = self.shared.known_synced.load(Ordering::Relaxed);
        let mut at = log::HEADER_BYTES;
        while let Some((_, length)) =
            log::decode(&bytes[at..]).filter(|(record, _)| record.sequence.0 <= proven)
        {
            at += length;
        }
        (path, at as u64)
    }

    /// The next sync of a log segment fails, once.
    #[cfg(test)]
    pub(crate) fn fail_next_flush(&self) {
        self.shared.next_flush_fails.store(true, Ordering::Release);
    }

    fn wake_checkpoint_thread(&self) {
        if let Some(wake) = &self.wake {
            let _ = wake.try_send(());
        }
    }

    /// Starts a checkpoint when the active overlay is large. Waits for the running one when the
    /// overlay is twice as large.
    fn limit_memtable<'a>(
        &'a self,
        mut log: MutexGuard<'a, LogState>,
    ) -> Result<MutexGuard<'a, LogState>, StoreError> {
        let active = self.shared.read_memtables().active.bytes();
        if active < self.shared.options.checkpoint_bytes {
            return Ok(log);
        }
        if log.frozen.is_some() {
            self.wake_checkpoint_thread();
            if active < 2 * self.shared.options.checkpoint_bytes {
                return Ok(log);
            }
            log = self.shared.wait_for_checkpoint(log)?;
        }
        self.shared.freeze(&mut log)?;
        self.wake_checkpoint_thread();
        Ok(log)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(folder) = self.checkpoint_thread.take() {
            let _ = folder.join();
        }
        // Closing the file is not enough: a child that this process is forking holds the descriptor
        // until its exec. If unlocking fails, closing still unlocks.
        let _ = self.lock.unlock();
    }
}

/// Keeps other processes out of the store as long as the file is open.
pub(crate) fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join("lock");
    let file = file_permissions::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|e| StoreError::disk("open the lock file", e))?;
    file.try_lock().map_err(|_| StoreError::InUse(directory.display().to_string()))?;
    Ok(file)
}

/// A store whose files have been read.
struct Opened {
    base: Base,
    state: BaseState,
    segment: Segment,
    synced_file: SyncedFile,
}

/// Reads every file of a store as a start does. Changes nothing; the caller holds the lock.
pub(crate) fn check(directory: &Path) -> Result<(), StoreError> {
    expect_store(directory)?;
    let (_, store, synced) = SyncedFile::open(directory)?;
    let state = Base::check(directory, store)?;
    recovery::replay(directory, store, state, synced, &mut drop).map(drop)
}

/// The names of a store's files in `directory`, in the order in which they are removed: without the
/// first one the directory holds no store.
pub(crate) fn files(directory: &Path) -> Result<Vec<std::ffi::OsString>, StoreError> {
    let list = std::fs::read_dir(directory)
        .map_err(|e| StoreError::disk("list the metadata directory", e))?;
    let mut names: Vec<_> = list.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    names.retain(|name| {
        name == synced::NAME || name == "base" || name.to_string_lossy().starts_with("log.")
    });
    names.sort_by_key(|name| (name != synced::NAME, name == "base", name.clone()));
    Ok(names)
}

/// The directory of a store's base.
pub(crate) fn base_directory(directory: &Path) -> PathBuf {
    base::base_directory(directory)
}

/// Removes a store that was never finished.
pub(crate) fn remove(directory: &Path) -> Result<(), StoreError> {
    for name in files(directory)? {
        let path = directory.join(name);
        let removed = if path.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
        removed.map_err(|e| StoreError::disk("remove an unfinished store", e))?;
    }
    Ok(())
}

/// Whether anything of a store lies in `directory`.
pub(crate) fn holds_anything(directory: &Path) -> Result<bool, StoreError> {
    let holds = directory.join(synced::NAME).exists() || base::base_directory(directory).exists();
    Ok(holds || !log::segments(directory)?.is_empty())
}

/// An empty directory means that a disk is not mounted, or that a store was removed. It is never a
/// new store.
fn expect_store(directory: &Path) -> Result<(), StoreError> {
    if directory.join(synced::NAME).exists() {
        return Ok(());
    }
    if !directory.is_dir() || !holds_anything(directory)? {
        return Err(StoreError::Missing(directory.display().to_string()));
    }
    refuse_other_format(directory)?;
    Err(StoreError::damaged(directory, &directory.join(synced::NAME), 0, "it is missing"))
}

/// Reports a store of another format before anything else in it is taken for damage.
pub(crate) fn refuse_other_format(directory: &Path) -> Result<(), StoreError> {
    for (_, path) in log::segments(directory)? {
        let mut header = Vec::new();
        let file = File::open(&path).map_err(|e| StoreError::disk("read a log segment", e))?;
        std::io::Read::read_to_end(
            &mut std::io::Read::take(file, log::HEADER_BYTES as u64),
            &mut header,
        )
        .map_err(|e| StoreError::disk("read a log segment", e))?;
        if let log::Header::Version(version) = log::read_header(&header) {
            return Err(recovery::other_format(&path, version));
        }
    }
    Ok(())
}

/// Brings the base up to the end of the log, begins a new segment and removes the old ones.
fn recover(
    directory: &Path,
    store: StoreId,
    synced: Sequence,
    synced_file: SyncedFile,
) -> Result<(Opened, Option<TornTail>), StoreError> {
    let mut state = Base::check(directory, store)?;
    let mut overlay = Overlay::default();
    let segments = log::segments(directory)?;
    let cut = recovery::replay(directory, store, state, synced, &mut |record| {
        state = BaseState { sequence: record.sequence, fence: record.fence.max(state.fence) };
        record.batch.changes().for_each(|change| overlay.apply(change));
    })?;
    // Nothing has been changed so far. Bytes that a killed process left only in the page cache must
    // be on disk before the base is built on them.
    for (_, path) in &segments {
        let synced = File::options().write(true).open(path).and_then(|file| {
            // A truncate to the same length frees the reserve, which the new segment may need.
            let _ = file.metadata().and_then(|known| file.set_len(known.len()));
            file.sync_data()
        });
        synced.map_err(|e| StoreError::disk("sync an old log segment", e))?;
    }
    let base = Base::open_checked(directory)?;
    base.checkpoint(&overlay, state, store)?;
    let segment = Segment::create_synced(directory, Sequence(state.sequence.0 + 1), store)?;
    synced_file.write(state.sequence)?;
    synced_file.sync()?;
    let (_, current) = segment.handle()?;
    for (_, path) in segments.iter().filter(|(_, path)| *path != current) {
        std::fs::remove_file(path).map_err(|e| StoreError::disk("remove an old log segment", e))?;
    }
    Ok((Opened { base, state, segment, synced_file }, cut))
}

impl EngineShared {
    fn log(&self) -> MutexGuard<'_, LogState> {
        self.log.lock().unwrap_or_else(braid_types::poisoned)
    }

    fn read_memtables(&self) -> std::sync::RwLockReadGuard<'_, Memtables> {
        self.memtables.read().unwrap_or_else(braid_types::poisoned)
    }

    fn write_memtables(&self) -> std::sync::RwLockWriteGuard<'_, Memtables> {
        self.memtables.write().unwrap_or_else(braid_types::poisoned)
    }

    /// Waits until no overlay is frozen. An error of the checkpoint is returned to a caller that
    /// waits.
    fn wait_for_checkpoint<'a>(
        &self,
        mut log: MutexGuard<'a, LogState>,
    ) -> Result<MutexGuard<'a, LogState>, StoreError> {
        while log.frozen.is_some() {
            if let Some(error) = log.checkpoint_error.take() {
                return Err(error);
            }
            log = self.checkpoint_done.wait(log).unwrap_or_else(braid_types::poisoned);
        }
        Ok(log)
    }

    /// Freezes the active overlay and begins a new segment.
    fn freeze(&self, log: &mut LogState) -> Result<(), StoreError> {
        assert!(log.frozen.is_none(), "2: a second frozen overlay would hide the first");
        let committed = self.committed.load(Ordering::Acquire);
        // On a full disk the new segment needs the space that the old one has reserved.
        log.segment.release_reserve();
        let segment = Segment::create(&self.directory, Sequence(committed + 1), self.store)?;
        let handle = segment.handle()?;
        self.segment_name_unsynced.store(true, Ordering::Release);
        log.frozen =
            Some((BaseState { sequence: Sequence(committed), fence: log.fence }, log.live.len()));
        log.segment = segment;
        log.live.push(handle);
        let mut layers = self.write_memtables();
        layers.frozen = Some(Arc::new(std::mem::take(&mut layers.active)));
        Ok(())
    }

    fn run_checkpoints(&self, woken: &mpsc::Receiver<()>) {
        let _guard = EndProcessOnPanic;
        while woken.recv().is_ok() {
            let result = self.checkpoint_once();
            let mut log = self.log();
            log.checkpoint_error = result.err();
            drop(log);
            self.checkpoint_done.notify_all();
        }
    }

    fn checkpoint_once(&self) -> Result<(), StoreError> {
        let Some((state, segments)) = self.log().frozen else { return Ok(()) };
        let Some(frozen) = self.read_memtables().frozen.clone() else { return Ok(()) };
        // This syncs the new segment too, with its name: the old ones are about to be removed
        // (invariant 7).
        self.sync_log(state.sequence, true)?;
        let proven = self.known_synced.load(Ordering::Relaxed);
        assert!(proven >= state.sequence.0, "1: the log is synced before the base is written");
        self.base.checkpoint(&frozen, state, self.store)?;
        self.synced_file.sync()?;
        if self.stopped.load(Ordering::Acquire) {
            return Err(StoreError::Stopped);
        }
        let old = self.write_memtables().frozen.take();
        let removed = self.remove_segments(segments);
        let mut log = self.log();
        log.frozen = None;
        log.live.drain(..segments);
        drop(log);
        drop((old, frozen));
        removed
    }

    /// Removes the oldest segments, which the base holds. One that cannot be removed is found and
    /// replayed at the next start.
    fn remove_segments(&self, count: usize) -> Result<(), StoreError> {
        let log = self.log();
        assert!(count < log.live.len(), "7: a later segment exists");
        assert!(!self.segment_name_unsynced.load(Ordering::Acquire), "7: its name is synced");
        let paths: Vec<_> = log.live[..count].iter().map(|(_, path)| path.clone()).collect();
        drop(log);
        let removed = paths.iter().try_for_each(std::fs::remove_file);
        removed.map_err(|e| StoreError::disk("remove an old log segment", e))
    }
}

impl MetaStore for Engine {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, StoreError> {
        Ok(Box::new(snapshot::EngineSnapshot::new(self.shared.read_memtables(), &self.shared.base)))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        snapshot::EngineSnapshot::new(self.shared.read_memtables(), &self.shared.base).get(key)
    }

    fn commit(&self, batch: Batch, fence: Fence) -> Result<Sequence, StoreError> {
        batch.check_size()?;
        let mut log = self.limit_memtable(self.shared.log())?;
        if self.shared.stopped.load(Ordering::Acquire) {
            return Err(StoreError::Stopped);
        }
        if fence < log.fence {
            return Err(StoreError::Fenced { offered: fence.0, current: log.fence.0 });
        }
        let sequence = Sequence(self.shared.committed.load(Ordering::Acquire) + 1);
        let synced = Sequence(self.shared.known_synced.load(Ordering::Relaxed));
        if let Err(error) = log.segment.append(&batch, sequence, fence, synced) {
            let stopped = matches!(error, StoreError::Stopped);
            self.shared.stopped.fetch_or(stopped, Ordering::AcqRel);
            return Err(error);
        }
        log.fence = fence;
        let mut layers = self.shared.write_memtables();
        debug_assert!(
            layers.active.bytes() <= 2 * self.shared.options.checkpoint_bytes,
            "4: commits wait for the checkpoint"
        );
        batch.changes().for_each(|change| layers.active.apply(change));
        self.shared.committed.store(sequence.0, Ordering::Release);
        Ok(sequence)
    }

    fn committed(&self) -> Sequence {
        Sequence(self.shared.committed.load(Ordering::Acquire))
    }

    fn sync(&self, sequence: Sequence) -> Result<(), StoreError> {
        self.shared.sync_log(sequence, false)
    }

    fn fence(&self) -> Fence {
        self.shared.log().fence
    }
}

impl EngineShared {
    /// Syncs the log at least up to `sequence`. A caller that arrives during a sync waits and
    /// usually finds its sequence synced. With `always`, syncs even if nothing up to `sequence` is
    /// unsynced, for the rest of the log.
    fn sync_log(&self, sequence: Sequence, always: bool) -> Result<(), StoreError> {
        let mut synced = self.synced.lock().unwrap_or_else(braid_types::poisoned);
        if *synced >= sequence.0 && !always {
            return Ok(());
        }
        if self.stopped.load(Ordering::Acquire) {
            return Err(StoreError::Stopped);
        }
        let (reached, files) = self.unsynced_segments()?;
        let names = match self.segment_name_unsynced.swap(false, Ordering::AcqRel) {
            true => log::names_of(&self.directory)
                .inspect_err(|_| self.segment_name_unsynced.store(true, Ordering::Release))?,
            false => None,
        };
        let mut flushed = names.map_or(Ok(()), |names| names.sync_all());
        for file in files {
            flushed = flushed.and_then(|()| self.flush(&file));
        }
        if let Err(error) = flushed {
            // After a failed flush the kernel drops the pages that it could not write. Nothing may
            // be assumed to be on disk, and a second flush would report a false success (I6).
            self.stopped.store(true, Ordering::Release);
            return Err(StoreError::disk("sync the log", error));
        }
        assert!(*synced <= reached, "6: the proven sequence never falls");
        *synced = reached;
        self.known_synced.store(reached, Ordering::Relaxed);
        // An error leaves an older mark there. Damage may then be taken for a torn tail; nothing
        // else is lost.
        self.synced_file.write(Sequence(reached)).or(Ok(()))
    }

    fn flush(&self, segment: &File) -> std::io::Result<()> {
        #[cfg(test)]
        if self.next_flush_fails.swap(false, Ordering::AcqRel) {
            return Err(std::io::Error::other("injected"));
        }
        segment.sync_data()
    }

    /// The last committed sequence and every segment that the base does not hold yet. A segment
    /// that a checkpoint removed meanwhile is in the base, synced.
    fn unsynced_segments(&self) -> Result<(u64, Vec<File>), StoreError> {
        let log = self.log();
        let files: Result<Vec<_>, _> = log.live.iter().map(|(file, _)| file.try_clone()).collect();
        let files = files.map_err(|e| StoreError::disk("sync the log", e))?;
        Ok((self.committed.load(Ordering::Acquire), files))
    }
}
