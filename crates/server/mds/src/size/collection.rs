//! The end of size marks: when the last writer is gone, the size is collected, flushed and recorded
//! (I5, ADR 0008).
//!
//! ```text
//!   last close ──> queue ──> asked, no flush ──> cached ──> asked to flush ──> recorded,
//!                    ^         |                   |           |               mark ended
//!                    |         | a daemon is down  |           | a verifier changed, or a daemon
//!                    |         | (next tick)       |           | is down and the cache is full
//!                    `─────────┴──── a writer ─────┴───────────'
//! ```
//!
//! What the sole writer of a new file reports with its close is cached like a collected size
//! (`sole_writer.rs`).
//!
//! Invariants:
//! 1. A size is cached, and recorded, only if no writer opened the file since its daemons were
//!    asked. An open for writing removes the file from `in_flight` and from the cache before
//!    its capability leaves the server.
//! 2. The queue has each file once.
//! 3. What is recorded was on disk when its daemons answered, size and parts alike. So a part that
//!    is recorded and missing is a loss (I11).
//! 4. Only daemons that have registered since this start of the server are asked. Others may still
//!    accept writes of capabilities of the epoch before.
//! 5. The mark of a file that a user with a ticket has closed stays until the fence of its session
//!    holds, since the user may go on using its capability. The holder of a client key is trusted
//!    when it closes a file: it may do anything as any user anyway.
//!
//! `enqueue` and `pop` assert 2. `cache_collected` and `record_flushed` hold the lock from the
//! check of 1 to the record; `record_flushed` compares the verifiers (3), `next_batch` asks for
//! registrations (4), and `cache_collected` for unfenced closes (5). Nothing here sees what the
//! daemons have on disk.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use braid_meta::{Call as Change, Identity, Inode, ObjectSummary, Parts};
use braid_types::{Failure, FileIndex, SessionId, Status, Timestamp};

use super::{
    SizeTable,
    cache::SizeCache,
    sole_writer::{CreateStart, SoleWriter, SoleWriters},
    true_size::CollectMode,
};
use crate::{
    cluster::Cluster,
    core::{MdsCore, MdsState, report},
    objects::{self, CollectedSize},
};

/// Files of one collection: with 16 parts each, 230 KiB of messages over all daemons.
const COLLECT_FILES_MAX: usize = 1024;
/// Object ids of one batch, whatever the files' widths: the message to one daemon stays below its
/// limit (I9).
const COLLECT_OBJECTS_MAX: usize = 16_384;
/// Files that are flushed together: each daemon syncs its file system once for all of them.
const RECORD_FILES_MAX: usize = 8192;
/// Files, counted once for each session, that sessions of tickets have written and closed (I9), 60
/// bytes each. With more, a file is collected when it is closed, like that of any client.
const UNFENCED_CLOSES_MAX: usize = 1 << 20;
/// The difference that the clocks of an I/O daemon and of the server may have after correction, in
/// nanoseconds: a write that came before a time was set must not count as later.
const CLOCK_SLACK_NANOS: u32 = 50_000_000;

/// Files whose size is to be collected, is being collected, or is cached.
#[derive(Debug, Default)]
pub(super) struct SizeCollector {
    queue: VecDeque<FileIndex>,
    queued: BTreeSet<FileIndex>,
    /// To be asked with the next tick: one of their daemons is down, or a writer came.
    retry_at_tick: BTreeSet<FileIndex>,
    in_flight: BTreeSet<FileIndex>,
    running: bool,
    cache: SizeCache,
    sole_writers: SoleWriters,
    recording: bool,
    /// How many sessions of tickets have written and closed each file.
    unfenced_closes: HashMap<FileIndex, u32>,
    /// The sum of these.
    unfenced_close_count: usize,
    times_set: HashMap<FileIndex, Timestamp>,
}

impl SizeCollector {
    pub(crate) fn enqueue(&mut self, file: FileIndex) {
        // A file that is being asked about, and is not disturbed, will be cached.
        if !self.in_flight.contains(&file) && self.queued.insert(file) {
            self.queue.push_back(file);
        }
        debug_assert_eq!(self.queue.len(), self.queued.len(), "2: the queue has each file once");
    }

    /// A session of a ticket has closed the file and may still write it: its mark stays.
    pub(crate) fn note_unfenced_close(&mut self, file: FileIndex) {
        *self.unfenced_closes.entry(file).or_default() += 1;
        self.unfenced_close_count += 1;
    }

    /// Whether one more file may be withheld from collection.
    pub(crate) fn may_note_unfenced_close(&self) -> bool {
        self.unfenced_close_count < UNFENCED_CLOSES_MAX
    }

    /// The session can write no more: its fence holds.
    pub(crate) fn end_unfenced_close(&mut self, file: FileIndex) {
        let Some(sessions) = self.unfenced_closes.get_mut(&file) else { return };
        *sessions -= 1;
        self.unfenced_close_count -= 1;
        if *sessions == 0 {
            self.unfenced_closes.remove(&file);
            self.enqueue(file);
        }
    }

    /// Whether a session that closed the file may still write it.
    pub(crate) fn has_unfenced_close(&self, file: FileIndex) -> bool {
        self.unfenced_closes.contains_key(&file)
    }

    /// A writer opened the file: answers of its daemons are stale.
    pub(crate) fn invalidate(&mut self, file: FileIndex) {
        self.in_flight.remove(&file);
        self.cache.remove(file);
        self.sole_writers.note_open(file);
    }

    /// A point in time, before a file is made.
    pub(crate) fn create_start(&self) -> CreateStart {
        self.sole_writers.create_start()
    }

    /// The file was made and opened for writing at `since` or later, and by nobody else.
    pub(crate) fn note_sole_writer(
        &mut self,
        file: FileIndex,
        writer: SoleWriter,
        since: CreateStart,
    ) {
        self.sole_writers.insert(file, writer, since);
    }

    /// The sole writer of the file.
    pub(crate) fn sole_writer(&self, file: FileIndex) -> Option<&SoleWriter> {
        self.sole_writers.get(file)
    }

    /// A handle of the file that may write was closed.
    pub(crate) fn forget_sole_writer(&mut self, file: FileIndex) {
        self.sole_writers.remove(file);
    }

    /// The session ended: it reports nothing more.
    pub(crate) fn forget_session(&mut self, session: SessionId) {
        self.sole_writers.end(session);
    }

    /// Of how many files the sole writer is known.
    #[cfg(test)]
    pub(crate) fn sole_writer_count(&self) -> usize {
        self.sole_writers.len()
    }

    /// Whether the cache has space.
    pub(crate) fn cache_has_room(&self) -> bool {
        !self.cache.is_full()
    }

    /// The sole writer reported the size with its close.
    pub(crate) fn cache_reported(&mut self, file: FileIndex, found: CollectedSize, now: Duration) {
        self.cache.insert_reported(file, found, now);
    }

    /// The cached size of a file.
    pub(crate) fn cached(&self, file: FileIndex) -> Option<&CollectedSize> {
        self.cache.get(file)
    }

    /// What was collected of the file is void: it is collected again.
    pub(crate) fn restart(&mut self, file: FileIndex) {
        self.invalidate(file);
        self.enqueue(file);
    }

    /// Removes a file that is gone.
    fn forget(&mut self, file: FileIndex) {
        self.invalidate(file);
        self.times_set.remove(&file);
    }

    /// The file's time was set at `now`: writes before that do not change it.
    pub(crate) fn time_was_set(&mut self, file: FileIndex, now: Timestamp) {
        self.times_set.insert(file, with_slack(now));
    }

    /// The time after which writes change the file's time, if it was set.
    pub(crate) fn mtime_set(&self, inode: &Inode) -> Option<Timestamp> {
        // Set before a restart: the record has the flag, and the time was no later than the last
        // change.
        let recorded = || inode.mtime_set.then(|| with_slack(inode.ctime));
        self.times_set.get(&inode.file).copied().or_else(recorded)
    }

    /// Whether nothing is in progress or could be started now.
    fn is_quiet(&self) -> bool {
        let idle = !self.running && !self.recording;
        idle && self.queue.is_empty() && self.in_flight.is_empty() && self.cache.len() == 0
    }

    /// Files that wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.retry_at_tick.len() + self.in_flight.len() + self.cache.len()
    }

    /// Queues again what waited for a tick.
    fn retry(&mut self) {
        std::mem::take(&mut self.retry_at_tick).into_iter().for_each(|file| self.enqueue(file));
    }

    /// The file cannot be collected now: with a later tick.
    fn retry_later(&mut self, file: FileIndex, failure: &Failure) {
        report(&format!("collecting the size of file {file}"), failure);
        self.retry_at_tick.insert(file);
    }

    fn pop(&mut self) -> Option<FileIndex> {
        let file = self.queue.pop_front()?;
        let was_queued = self.queued.remove(&file);
        debug_assert!(was_queued, "2: the queue has each file once");
        Some(file)
    }
}

impl MdsCore {
    /// Collects the files that wait, unless a batch is in flight: then they are part of the next.
    pub(crate) fn collect(self: &Arc<Self>) {
        let batch = self.next_batch();
        if batch.is_empty() {
            return;
        }
        self.collect_sizes_of(batch, CollectMode::IN_BACKGROUND, |core, sizes| {
            sizes.into_iter().for_each(|(inode, found)| core.cache_collected(&inode, found));
            core.state().sizes.collector.running = false;
            core.collect();
        });
    }

    /// Collects also what failed before.
    pub(crate) fn collect_retries(self: &Arc<Self>) {
        self.state().sizes.collector.retry();
        self.collect();
    }

    fn next_batch(&self) -> Vec<Arc<Inode>> {
        let MdsState { sizes, cluster, .. } = &mut *self.state();
        // A client that has not reclaimed yet may be writing any file: no mark ends before that.
        if sizes.collector.running || sizes.collector.cache.is_full() || self.sizes_uncertain() {
            return Vec::new();
        }
        let (mut batch, mut objects) = (Vec::new(), 0);
        while batch.len() < COLLECT_FILES_MAX && objects < COLLECT_OBJECTS_MAX {
            let Some(file) = sizes.collector.pop() else { break };
            let Some(inode) = self.inode_to_collect(sizes, file) else { continue };
            if !daemons_registered(cluster, &inode) {
                sizes.collector.retry_at_tick.insert(file);
                continue;
            }
            let components = inode.layout.iter().flat_map(|layout| &layout.components);
            objects += components.map(|component| component.parts.len()).sum::<usize>();
            sizes.collector.in_flight.insert(file);
            batch.push(inode);
        }
        sizes.collector.running = !batch.is_empty();
        batch
    }

    /// The file, if its mark stands and nobody writes it. At the end of a truncate it is queued
    /// again.
    fn inode_to_collect(&self, sizes: &mut SizeTable, file: FileIndex) -> Option<Arc<Inode>> {
        match (self.namespace.needs_size_collection(file), self.namespace.getattr(file)) {
            (Ok(true), Ok(inode)) if !sizes.gates.is_closed(file) => Some(inode),
            (_, Err(_)) => {
                sizes.collector.forget(file);
                None
            }
            _ => None,
        }
    }

    /// Caches what a file's daemons said without a flush.
    fn cache_collected(&self, inode: &Inode, found: Result<CollectedSize, Failure>) {
        let now = self.now();
        // Locked until the record: no open for writing comes between the check of `in_flight` and
        // it.
        let sizes = &mut self.state().sizes;
        let undisturbed = sizes.collector.in_flight.remove(&inode.file);
        let withheld = sizes.collector.has_unfenced_close(inode.file);
        match found {
            // Its size is lost with a removed daemon: the mark stays and prevents opens.
            Ok(found) if found.is_part_lost => {}
            Ok(found) if undisturbed && !withheld && is_recorded(inode, &found) => {
                self.record(sizes, inode, found)
            }
            Ok(found) if undisturbed => {
                if let Err(failure) = self.namespace.size_collected(inode.file, found.fetch.size) {
                    report("noting a size for quotas", &failure);
                }
                if !withheld {
                    sizes.collector.cache.insert(inode.file, found, now);
                }
            }
            // A writer came in the meantime: its last close queues the file again.
            Ok(_) => {}
            Err(failure) => sizes.collector.retry_later(inode.file, &failure),
        }
    }

    /// Flushes and records sizes that have been cached for some time, unless that is in progress.
    pub(crate) fn record_due_sizes(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state().sizes.collector.recording, true) {
            return;
        }
        let batch = self.next_due();
        if batch.is_empty() {
            self.state().sizes.collector.recording = false;
            return;
        }
        self.collect_parts_of(batch, CollectMode::WITH_FLUSH, |core, sizes| {
            sizes.into_iter().for_each(|(inode, found)| core.record_flushed(&inode, found));
            core.state().sizes.collector.recording = false;
            core.record_due_sizes();
        });
    }

    /// Records all cached sizes now, because the server is to stop: a file that was closed before
    /// an orderly shutdown is on disk, and a part of it that is missing later is a loss (I11).
    /// Whether that is done, except for files of daemons that are down.
    pub(crate) fn record_all_sizes(self: &Arc<Self>) -> bool {
        self.state().sizes.collector.cache.make_all_due();
        self.collect();
        self.record_due_sizes();
        self.state().sizes.collector.is_quiet()
    }

    /// Files whose sizes are due, with the parts that have an object. The other parts have none
    /// yet, since nobody wrote them.
    fn next_due(&self) -> Vec<(Arc<Inode>, Option<Parts>)> {
        let now = self.now();
        let (mut batch, mut objects, mut lost) = (Vec::new(), 0, Vec::new());
        while batch.len() < RECORD_FILES_MAX && objects < COLLECT_OBJECTS_MAX {
            // Locked for each file: a batch is large, and calls wait for the lock.
            let MdsState { sizes, cluster, .. } = &mut *self.state();
            let Some(file) = sizes.collector.cache.next_due(now) else { break };
            let Some(inode) = self.inode_to_collect(sizes, file) else {
                sizes.collector.cache.remove(file);
                continue;
            };
            let Some(found) = sizes.collector.cached(file) else { continue };
            if !cluster.verifiers_unchanged(&found.verifiers) {
                sizes.collector.restart(file);
                lost.push(inode);
                continue;
            }
            let parts = found.fetch.parts.clone();
            objects +=
                parts.as_bytes().iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
            // A client's report may not have all parts.
            let asked = (!sizes.collector.cache.is_reported(file)).then_some(parts);
            batch.push((inode, asked));
        }
        self.recall_names(&lost);
        batch
    }

    /// A file's daemons have flushed it: its size is recorded, unless a writer came or a daemon
    /// lost data.
    fn record_flushed(&self, inode: &Arc<Inode>, found: Result<CollectedSize, Failure>) {
        let mut state = self.state();
        let sizes = &mut state.sizes;
        let reported = sizes.collector.cache.is_reported(inode.file);
        let Some(cached) = sizes.collector.cache.take_recording(inode.file) else { return };
        match found {
            // A daemon was removed in the meantime. What was cached before is the whole file (I11).
            Ok(found) if found.is_part_lost => self.record(sizes, inode, cached),
            Ok(found) if !reported && found.lost_object_since(&cached) => {
                // Lost by the disk, or deleted by hand. Reads of it fail (I11).
                tracing::error!(
                    file = %inode.file,
                    "an object that a daemon had is gone; try: braid fsck"
                );
                self.record(sizes, inode, cached);
            }
            Ok(mut found) if found.verifiers == cached.verifiers => {
                let change = found.fetch.change;
                if found.fetch == (ObjectSummary { change, ..cached.fetch.clone() }) {
                    // The change number that was returned to callers is the one to record.
                    found.fetch.change = cached.fetch.change;
                }
                self.record(sizes, inode, found);
            }
            Ok(_) => {
                sizes.collector.restart(inode.file);
                drop(state);
                self.recall_names(std::slice::from_ref(inode));
            }
            // The size stays known: a daemon without an object of the file may be the one down.
            Err(failure) if sizes.collector.cache.may_retry() => {
                // At debug level: it comes for each file, every few seconds, while a daemon is
                // down.
                tracing::debug!(file = %inode.file, %failure, "not flushed yet");
                let now = self.now();
                sizes.collector.cache.insert_retry(inode.file, cached, reported, now);
            }
            Err(failure) => sizes.collector.retry_later(inode.file, &failure),
        }
    }

    /// Records what is on disk and ends the mark.
    fn record(&self, sizes: &mut SizeTable, inode: &Inode, found: CollectedSize) {
        let who = Identity::root();
        let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
        let mtime = sizes.effective_mtime(inode, found.fetch.mtime);
        match self.namespace.record_size(
            &change,
            inode.file,
            &ObjectSummary { mtime, ..found.fetch },
        ) {
            Ok(inode) if inode.size_in_objects => {}
            Ok(inode) => {
                sizes.collector.times_set.remove(&inode.file);
                self.counters.collected.fetch_add(1, Ordering::Relaxed);
            }
            // A truncate is in progress, or the file was removed.
            Err(failure) if failure.status == Status::StaleGeneration => {}
            Err(failure) if failure.status == Status::StaleHandle => {
                sizes.collector.forget(inode.file)
            }
            Err(failure) => sizes.collector.retry_later(inode.file, &failure),
        }
    }

    /// Records what an open file's daemons said after a flush, for fsync. With a writer the mark
    /// stays.
    pub(crate) fn record_of_open_file(
        &self,
        inode: &Inode,
        found: &CollectedSize,
    ) -> Result<(), Failure> {
        let who = Identity::root();
        let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
        let mtime = self.state().sizes.effective_mtime(inode, found.fetch.mtime);
        // Writers may come and go in the meantime: only `record` ends the mark.
        self.namespace.record_size_while_open(
            &change,
            inode.file,
            &ObjectSummary { mtime, ..found.fetch.clone() },
        )
    }
}

/// Whether every daemon of a file has registered with this run of the server.
fn daemons_registered(cluster: &Cluster, inode: &Inode) -> bool {
    let mut iods = inode.layout.iter().flat_map(|layout| objects::daemons(layout));
    iods.all(|iod| cluster.verifier(iod).is_some() || cluster.is_removed(iod))
}

fn with_slack(time: Timestamp) -> Timestamp {
    let nanos = time.nanos + CLOCK_SLACK_NANOS;
    Timestamp {
        seconds: time.seconds + i64::from(nanos / 1_000_000_000),
        nanos: nanos % 1_000_000_000,
    }
}

/// Whether size and parts are those on record, which were flushed.
pub(crate) fn is_recorded(inode: &Inode, found: &CollectedSize) -> bool {
    let mut parts = inode.parts.clone();
    parts.merge(&found.fetch.parts);
    found.fetch.size == inode.size && parts == inode.parts
}
