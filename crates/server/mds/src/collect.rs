//! The end of size marks: when the last writer is gone, the size is collected and recorded (I5).
//!
//! ```text
//!   last close ──> queue ──> one batch at a time: each daemon asked once ──> recorded, mark cleared
//!                    ^                                   | a daemon is down, or a writer came meanwhile
//!                    `──────────── next tick ────────────'
//! ```
//!
//! Invariants: (1) a size is recorded as final only if no writer opened the file since its daemons were asked: an
//! open for writing takes the file out of `asked` before its capability leaves the server; (2) the queue has
//! each file once.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Arc, atomic::Ordering},
};

use braid_meta::{Call as Change, Fetch, Identity, Inode};
use braid_types::{Failure, FileIndex, Timestamp};

use crate::{
    core::{MdsCore, report},
    objects::Found,
    size::Sizes,
};

/// Files whose daemons are asked in one call: with 16 parts each, a message of 230 KiB over all daemons.
const COLLECT_FILES_MAX: usize = 1024;
/// Object ids in one batch, whatever the files' widths: the message to one daemon stays below its limit (I9).
const COLLECT_OBJECTS_MAX: usize = 16_384;
/// How far the clocks of an I/O daemon and of the server may be apart after correction, in nanoseconds: a write that
/// came before a time was set must not count as later.
const CLOCK_SLACK_NANOS: u32 = 50_000_000;

/// Files to collect.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    queue: VecDeque<FileIndex>,
    queued: BTreeSet<FileIndex>,
    /// Not to be asked before the next tick: a daemon of theirs is down, or a writer came.
    later: BTreeSet<FileIndex>,
    asked: BTreeSet<FileIndex>,
    running: bool,
    times_set: HashMap<FileIndex, Timestamp>,
}

impl Collector {
    pub(crate) fn add(&mut self, file: FileIndex) {
        if self.queued.insert(file) {
            self.queue.push_back(file);
        }
    }

    /// A writer opened the file: what was asked of its daemons says nothing any more.
    pub(crate) fn disturb(&mut self, file: FileIndex) {
        self.asked.remove(&file);
    }

    /// Somebody set the file's time at `now`: writes before that do not change it.
    pub(crate) fn time_was_set(&mut self, file: FileIndex, now: Timestamp) {
        let nanos = now.nanos + CLOCK_SLACK_NANOS;
        let (seconds, nanos) = (now.seconds + i64::from(nanos / 1_000_000_000), nanos % 1_000_000_000);
        self.times_set.insert(file, Timestamp { seconds, nanos });
    }

    pub(crate) fn mtime_set(&self, file: FileIndex) -> Option<Timestamp> {
        self.times_set.get(&file).copied()
    }

    /// Files that wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.later.len() + self.asked.len()
    }

    /// Puts back what waited for a tick.
    fn retry(&mut self) {
        std::mem::take(&mut self.later).into_iter().for_each(|file| self.add(file));
    }

    fn pop(&mut self) -> Option<FileIndex> {
        let file = self.queue.pop_front()?;
        self.queued.remove(&file);
        Some(file)
    }
}

impl MdsCore {
    /// Collects what waits, unless a batch is under way: then it goes with the next.
    pub(crate) fn collect(self: &Arc<Self>) {
        let batch = self.next_batch();
        if batch.is_empty() {
            return;
        }
        self.ask_sizes(batch, false, |core, sizes| {
            core.record_sizes(sizes);
            core.state().collector.running = false;
            core.collect();
        });
    }

    /// Also what failed before.
    pub(crate) fn collect_again(self: &Arc<Self>) {
        self.state().collector.retry();
        self.collect();
    }

    fn next_batch(&self) -> Vec<Arc<Inode>> {
        let mut state = self.state();
        // A file in doubt may have writers that have not told yet: no mark ends before they did.
        if state.collector.running || self.is_in_doubt() {
            return Vec::new();
        }
        let (mut batch, mut objects) = (Vec::new(), 0);
        while batch.len() < COLLECT_FILES_MAX && objects < COLLECT_OBJECTS_MAX {
            let Some(file) = state.collector.pop() else { break };
            match (self.names.needs_collecting(file), self.names.getattr(file)) {
                // When the truncate is finished, the file comes back.
                (Ok(true), Ok(_)) if state.gates.is_closed(file) => {}
                (Ok(true), Ok(inode)) => {
                    let components = inode.layout.iter().flat_map(|layout| &layout.components);
                    objects += components.map(|component| component.parts.len()).sum::<usize>();
                    state.collector.asked.insert(file);
                    batch.push(inode);
                }
                _ => {}
            }
        }
        state.collector.running = !batch.is_empty();
        batch
    }

    /// Records what an open file's daemons said, for fsync: with a writer the mark stays.
    pub(crate) fn record_open(&self, inode: &Inode, found: &Found) -> Result<(), Failure> {
        let who = Identity::root();
        let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
        let state = self.state();
        let mtime = state.written_at(inode, found.fetch.mtime);
        if self.names.writers(inode.file).is_empty() {
            // A writer may have come and gone since: the end of the mark is for the collector to decide.
            return Ok(());
        }
        self.names.collect(&change, inode.file, &Fetch { mtime, ..found.fetch.clone() }).map(drop)
    }

    fn record_sizes(&self, sizes: Sizes) {
        let who = Identity::root();
        let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
        // One lock for the batch: no open for writing falls between the look at `asked` and the record.
        let mut state = self.state();
        for (inode, found) in sizes {
            let file = inode.file;
            let undisturbed = state.collector.asked.remove(&file);
            let recorded = match found {
                Ok(found) if undisturbed => {
                    let mtime = state.written_at(&inode, found.fetch.mtime);
                    self.names
                        .collect(&change, file, &Fetch { mtime, ..found.fetch })
                        .map(|inode| !inode.size_in_objects)
                }
                Ok(_) => Ok(false),
                Err(failure) => Err(failure),
            };
            match recorded {
                Ok(true) => {
                    state.collector.times_set.remove(&file);
                    self.counters.collected.fetch_add(1, Ordering::Relaxed);
                }
                // The last close of who came meanwhile adds it again.
                Ok(false) => {}
                Err(failure) => {
                    report(&format!("collecting the size of file {file}"), &failure);
                    state.collector.later.insert(file);
                }
            }
        }
    }
}
