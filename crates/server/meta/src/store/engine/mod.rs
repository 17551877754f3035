//! The embedded engine: a log in front of an ordered map in memory in front of LMDB (`docs/adr/0002`).
//!
//! ```text
//! commit ─▶ log segment (one write, no fsync) ─▶ active overlay
//!                                                   │ over `fold_bytes`: frozen, new segment
//!           segment deleted ◀── base synced ◀── fold thread ◀── frozen overlay
//! read   ─▶ active overlay ─▶ frozen overlay ─▶ base (LMDB)
//! ```
//!
//! 1. What the overlays hold is in the log; what the base holds is synced. base + log = everything committed.
//! 2. Layers change only under the write lock of `layers`; the fold itself reads the frozen overlay without it.
//! 3. Lock order: `log`, then `layers`. A view holds `layers` alone.
//! 4. Memory is bounded: commits wait for the fold when the active overlay reaches twice `fold_bytes`.
//! 5. At start the log's batches past the base's sequence are replayed in order, up to the first gap or torn
//!    record, folded, and the old segments deleted: a torn tail is never built upon.

mod base;
mod log;
mod overlay;
mod private;
mod view;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, mpsc};
use std::thread::JoinHandle;

use base::{Base, State};
use log::Segment;
use overlay::Overlay;

use super::{Batch, Fence, MetaStore, Sequence, StoreError, View};

/// How the engine divides memory and disk.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Bytes that the active overlay may hold before it is folded into the base. Two overlays may be in memory.
    pub fold_bytes: usize,
}

impl Default for EngineOptions {
    /// 8 MiB: with the frozen overlay and an active one that has grown to twice that, 24 MiB of the server's 64.
    fn default() -> Self {
        Self { fold_bytes: 8 << 20 }
    }
}

/// The default metadata store: a directory on a local disk. Dropping it ends its thread; nothing has to be flushed.
pub struct Engine {
    shared: Arc<Shared>,
    folder: Option<JoinHandle<()>>,
    wake: Option<mpsc::SyncSender<()>>,
    lock: File,
}

struct Shared {
    directory: PathBuf,
    options: EngineOptions,
    base: Base,
    layers: RwLock<Layers>,
    log: Mutex<LogState>,
    /// Signalled with `log` when a fold ended, well or not.
    folded: Condvar,
    committed: AtomicU64,
    synced: Mutex<u64>,
    stopped: AtomicBool,
    /// A segment was made whose name may not be on the disk yet.
    unsynced_name: AtomicBool,
    #[cfg(test)]
    next_flush_fails: AtomicBool,
}

/// What is in memory over the base.
#[derive(Default)]
struct Layers {
    active: Overlay,
    frozen: Option<Arc<Overlay>>,
}

struct LogState {
    segment: Segment,
    /// Segments that the base does not hold yet, oldest first, the active one last.
    live: Vec<(File, PathBuf)>,
    fence: Fence,
    /// What the frozen overlay ends at, and how many of `live` it spans.
    frozen: Option<(State, usize)>,
    /// Why the last fold failed. Cleared when one succeeds.
    fold_error: Option<StoreError>,
}

impl Engine {
    /// Opens or makes the store in `directory` and recovers what its log holds.
    pub fn open(directory: &Path, options: EngineOptions) -> Result<Self, StoreError> {
        private::make_directory(directory).map_err(|e| StoreError::disk("create the metadata directory", e))?;
        let lock = lock(directory)?;
        private::tighten(directory);
        let base = Base::open(directory)?;
        let state = recover(directory, &base)?;
        let segment = Segment::create(directory, Sequence(state.folded.0 + 1))?;
        let live = vec![segment.handle()?];
        let log = LogState { segment, live, fence: state.fence, frozen: None, fold_error: None };
        let shared = Arc::new(Shared {
            directory: directory.to_owned(),
            options,
            base,
            layers: RwLock::default(),
            log: Mutex::new(log),
            folded: Condvar::new(),
            committed: AtomicU64::new(state.folded.0),
            synced: Mutex::new(state.folded.0),
            stopped: AtomicBool::new(false),
            unsynced_name: AtomicBool::new(true),
            #[cfg(test)]
            next_flush_fails: AtomicBool::new(false),
        });
        let (wake, woken) = mpsc::sync_channel(1);
        let folding = shared.clone();
        let folder = std::thread::Builder::new().name("meta-fold".into()).spawn(move || folding.fold_all(&woken));
        let folder = folder.map_err(|e| StoreError::disk("start the fold thread", e))?;
        Ok(Self { shared, folder: Some(folder), wake: Some(wake), lock })
    }

    /// Folds everything committed so far into the base and waits for it, where nobody commits meanwhile. For tests
    /// and an orderly stop.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.settle()?;
        let mut log = self.shared.log();
        if log.frozen.is_none() && !self.shared.read_layers().active.is_empty() {
            self.shared.freeze(&mut log)?;
        }
        self.wake_folder();
        self.shared.wait_for_fold(log).map(drop)
    }

    /// Waits until no fold is under way: without commits meanwhile, the files stand still from then on.
    pub fn settle(&self) -> Result<(), StoreError> {
        // A fold that failed is tried again.
        self.wake_folder();
        self.shared.wait_for_fold(self.shared.log()).map(drop)
    }

    /// The next sync of a log segment fails, once.
    #[cfg(test)]
    pub(crate) fn fail_next_flush(&self) {
        self.shared.next_flush_fails.store(true, Ordering::Release);
    }

    fn wake_folder(&self) {
        if let Some(wake) = &self.wake {
            let _ = wake.try_send(());
        }
    }

    /// Starts a fold when the active overlay is large; waits for the running one when it is twice that.
    fn make_room<'a>(&'a self, mut log: MutexGuard<'a, LogState>) -> Result<MutexGuard<'a, LogState>, StoreError> {
        let active = self.shared.read_layers().active.bytes();
        if active < self.shared.options.fold_bytes {
            return Ok(log);
        }
        if log.frozen.is_some() {
            self.wake_folder();
            if active < 2 * self.shared.options.fold_bytes {
                return Ok(log);
            }
            log = self.shared.wait_for_fold(log)?;
        }
        self.shared.freeze(&mut log)?;
        self.wake_folder();
        Ok(log)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(folder) = self.folder.take() {
            let _ = folder.join();
        }
        // Closing alone is not enough: a child that this process is just forking holds the descriptor until its exec.
        // A failure leaves what closing does.
        let _ = self.lock.unlock();
    }
}

fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join("lock");
    let file = private::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|e| StoreError::disk("open the lock file", e))?;
    file.try_lock().map_err(|_| StoreError::InUse(directory.display().to_string()))?;
    Ok(file)
}

/// Brings the base up to the end of the log and removes the segments.
fn recover(directory: &Path, base: &Base) -> Result<State, StoreError> {
    let mut state = base.state()?;
    let mut overlay = Overlay::default();
    let segments = log::segments(directory)?;
    for (_, path) in &segments {
        log::replay(path, &mut |record| {
            if record.sequence.0 > state.folded.0 + 1 {
                return Ok(false);
            }
            if record.sequence.0 == state.folded.0 + 1 {
                state = State { folded: record.sequence, fence: record.fence.max(state.fence) };
                record.batch.changes().for_each(|change| overlay.apply(change));
            }
            Ok(true)
        })?;
    }
    // What a killed process left in the page cache only must be on the disk before the base is built on it.
    for (_, path) in &segments {
        let synced = File::options().write(true).open(path).and_then(|file| file.sync_data());
        synced.map_err(|e| StoreError::disk("sync an old log segment", e))?;
    }
    base.fold(&overlay, state)?;
    for (_, path) in &segments {
        std::fs::remove_file(path).map_err(|e| StoreError::disk("remove an old log segment", e))?;
    }
    Ok(state)
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, LogState> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_layers(&self) -> std::sync::RwLockReadGuard<'_, Layers> {
        self.layers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_layers(&self) -> std::sync::RwLockWriteGuard<'_, Layers> {
        self.layers.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no overlay is frozen. An error that the fold met is handed to who waits.
    fn wait_for_fold<'a>(&self, mut log: MutexGuard<'a, LogState>) -> Result<MutexGuard<'a, LogState>, StoreError> {
        while log.frozen.is_some() {
            if let Some(error) = log.fold_error.take() {
                return Err(error);
            }
            log = self.folded.wait(log).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(log)
    }

    /// Freezes the active overlay and begins a new segment.
    fn freeze(&self, log: &mut LogState) -> Result<(), StoreError> {
        assert!(log.frozen.is_none(), "a second frozen overlay would hide the first");
        let committed = self.committed.load(Ordering::Acquire);
        let segment = Segment::create(&self.directory, Sequence(committed + 1))?;
        let handle = segment.handle()?;
        self.unsynced_name.store(true, Ordering::Release);
        log.frozen = Some((State { folded: Sequence(committed), fence: log.fence }, log.live.len()));
        log.segment = segment;
        log.live.push(handle);
        let mut layers = self.write_layers();
        layers.frozen = Some(Arc::new(std::mem::take(&mut layers.active)));
        Ok(())
    }

    fn fold_all(&self, woken: &mpsc::Receiver<()>) {
        while woken.recv().is_ok() {
            let result = self.fold_once();
            let mut log = self.log();
            log.fold_error = result.err();
            drop(log);
            self.folded.notify_all();
        }
    }

    fn fold_once(&self) -> Result<(), StoreError> {
        let Some((state, segments)) = self.log().frozen else { return Ok(()) };
        let Some(frozen) = self.read_layers().frozen.clone() else { return Ok(()) };
        self.sync_log(state.folded)?;
        self.base.fold(&frozen, state)?;
        let old = self.write_layers().frozen.take();
        let removed = self.remove_segments(segments);
        let mut log = self.log();
        log.frozen = None;
        log.live.drain(..segments);
        drop(log);
        drop((old, frozen));
        removed
    }

    /// Removes the oldest segments: the base holds them. One that stays is found and folded again at the next start.
    fn remove_segments(&self, count: usize) -> Result<(), StoreError> {
        let paths: Vec<_> = self.log().live[..count].iter().map(|(_, path)| path.clone()).collect();
        let removed = paths.iter().try_for_each(std::fs::remove_file);
        removed.map_err(|e| StoreError::disk("remove an old log segment", e))
    }
}

impl MetaStore for Engine {
    fn view(&self) -> Result<Box<dyn View + '_>, StoreError> {
        Ok(Box::new(view::EngineView::new(self.shared.read_layers(), &self.shared.base)))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        view::EngineView::new(self.shared.read_layers(), &self.shared.base).get(key)
    }

    fn commit(&self, batch: Batch, fence: Fence) -> Result<Sequence, StoreError> {
        batch.check_size()?;
        let mut log = self.make_room(self.shared.log())?;
        if self.shared.stopped.load(Ordering::Acquire) {
            return Err(StoreError::Stopped);
        }
        if fence < log.fence {
            return Err(StoreError::Fenced { offered: fence.0, current: log.fence.0 });
        }
        let sequence = Sequence(self.shared.committed.load(Ordering::Acquire) + 1);
        if let Err(error) = log.segment.append(&batch, sequence, fence) {
            let stopped = matches!(error, StoreError::Stopped);
            self.shared.stopped.fetch_or(stopped, Ordering::AcqRel);
            return Err(error);
        }
        log.fence = fence;
        let mut layers = self.shared.write_layers();
        batch.changes().for_each(|change| layers.active.apply(change));
        self.shared.committed.store(sequence.0, Ordering::Release);
        Ok(sequence)
    }

    fn committed(&self) -> Sequence {
        Sequence(self.shared.committed.load(Ordering::Acquire))
    }

    fn sync(&self, sequence: Sequence) -> Result<(), StoreError> {
        self.shared.sync_log(sequence)
    }

    fn fence(&self) -> Fence {
        self.shared.log().fence
    }
}

impl Shared {
    /// Syncs the log at least up to `sequence`; who comes while another syncs waits, and mostly finds it done.
    fn sync_log(&self, sequence: Sequence) -> Result<(), StoreError> {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced >= sequence.0 {
            return Ok(());
        }
        if self.stopped.load(Ordering::Acquire) {
            return Err(StoreError::Stopped);
        }
        let (reached, files) = self.unsynced_segments()?;
        let names = match self.unsynced_name.swap(false, Ordering::AcqRel) {
            true => {
                log::names_of(&self.directory).inspect_err(|_| self.unsynced_name.store(true, Ordering::Release))?
            }
            false => None,
        };
        let mut flushed = names.map_or(Ok(()), |names| names.sync_all());
        for file in files {
            flushed = flushed.and_then(|()| self.flush(&file));
        }
        if let Err(error) = flushed {
            // After a failed flush the kernel forgets what it could not write: nothing here may be trusted to be
            // on the disk, and a second flush would lie (I6).
            self.stopped.store(true, Ordering::Release);
            return Err(StoreError::disk("sync the log", error));
        }
        *synced = reached;
        Ok(())
    }

    fn flush(&self, segment: &File) -> std::io::Result<()> {
        #[cfg(test)]
        if self.next_flush_fails.swap(false, Ordering::AcqRel) {
            return Err(std::io::Error::other("injected"));
        }
        segment.sync_data()
    }

    /// The last committed sequence and every segment that the base does not hold yet. A segment that a fold removed
    /// meanwhile is in the base, synced.
    fn unsynced_segments(&self) -> Result<(u64, Vec<File>), StoreError> {
        let log = self.log();
        let files: Result<Vec<_>, _> = log.live.iter().map(|(file, _)| file.try_clone()).collect();
        let files = files.map_err(|e| StoreError::disk("sync the log", e))?;
        Ok((self.committed.load(Ordering::Acquire), files))
    }
}
