//! The deletion of objects: the queue in the store is processed in batches, and each daemon is
//! asked once a batch.
//!
//! ```text
//!   queued ─> log synced ─> deleted: space is free ─RECORD_SIZE_MS─> deleted durably ─> dequeued
//!     ^                         | a daemon is down                  | a daemon is or was down
//!     `─────── next pass ───────┴───────────────────────────────────┘
//! ```
//!
//! Invariants:
//! 1. A file leaves the queue when every daemon of its layout has confirmed that no loss of power
//!    brings an object back, which nothing would ever delete. Until then a crash, here or there, or
//!    a daemon that is down only delays the deletion.
//! 2. One pass at a time. Files whose daemons are down are skipped, and tried in the next pass.
//! 3. No object is deleted before the log that unlinks its file is on disk: a loss of power must
//!    not bring back a name whose bytes are gone (I6, I11).
//! 4. Durable deletions are asked for in large batches, since each one costs the daemons a sync.
//! 5. A file that waits only for daemons that are down is deleted on the others once, and again
//!    when a daemon came back.
//! 6. A daemon that was removed from the cluster is neither asked nor waited for.
//!
//! `next_deletions` asserts 2, and `UncertainDeletions::next` the size of the batch of 4.
//! `confirm_deletions` removes only files that every daemon confirmed (1), `delete_page` syncs the
//! log first (3), `next_deletions` leaves out blocked files (5), and `calls` leaves out removed
//! daemons (6): what the daemons did cannot be seen here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use braid_meta::Deletion;
use braid_types::{Failure, FileIndex, IodId, ObjectId};
use braid_wire::message::iod::Delete;

use crate::{
    core::{MdsCore, MdsState, report},
    iod_queries::Replies,
    objects,
    size::RECORD_SIZE_MS,
};

/// Files in one batch.
const DELETE_FILES_MAX: usize = 256;
/// Objects in one message: 14 B each, far below the limit of a message.
const DELETE_OBJECTS_MAX: usize = 16_384;
/// Files that are deleted, and not durably yet, in memory (I9): about 400 B each with layouts of 16
/// parts. With this many they are made durable without waiting.
const UNCERTAIN_FILES_MAX: usize = 8192;

/// Files that wait for a daemon that is down, in memory (I9): 8 B each. With more, the other
/// daemons are asked again in each pass, which does no harm.
const BLOCKED_FILES_MAX: usize = 65_536;

/// The state of the deleter.
#[derive(Debug, Default)]
pub(crate) struct DeletionQueue {
    running: bool,
    /// Something was queued since the pass began.
    queue_changed: bool,
    uncertain: UncertainDeletions,
    /// Deleted by every daemon that is up.
    blocked: BTreeSet<FileIndex>,
}

/// Files whose objects every daemon has deleted, but a loss of power may undo that.
#[derive(Debug, Default)]
struct UncertainDeletions {
    files: BTreeMap<FileIndex, Deletion>,
    /// When the first of them was added.
    since: Duration,
    /// Those that the daemons are being asked to delete durably.
    asked: BTreeSet<FileIndex>,
}

impl DeletionQueue {
    /// Something may have been queued.
    pub(crate) fn note_queued(&mut self) {
        self.queue_changed = true;
    }

    /// A daemon came back, or is not waited for any longer: blocked files are tried again.
    pub(crate) fn retry_blocked(&mut self) {
        self.blocked.clear();
    }
}

impl UncertainDeletions {
    fn insert(&mut self, deletions: impl IntoIterator<Item = Deletion>, now: Duration) {
        if self.files.is_empty() {
            self.since = now;
        }
        self.files.extend(deletions.into_iter().map(|deletion| (deletion.file, deletion)));
    }

    fn contains(&self, file: FileIndex) -> bool {
        self.files.contains_key(&file) || self.asked.contains(&file)
    }

    fn is_full(&self) -> bool {
        self.files.len() >= UNCERTAIN_FILES_MAX
    }

    /// Takes those that the daemons are to be asked for now.
    fn next(&mut self, now: Duration) -> Vec<Deletion> {
        let due = now.saturating_sub(self.since) >= Duration::from_millis(RECORD_SIZE_MS)
            || self.is_full();
        if !due || !self.asked.is_empty() {
            return Vec::new();
        }
        debug_assert!(self.files.len() <= UNCERTAIN_FILES_MAX + DELETE_FILES_MAX, "4: bounded");
        self.asked = self.files.keys().copied().collect();
        std::mem::take(&mut self.files).into_values().collect()
    }
}

impl MdsCore {
    /// Called after an operation that may have queued objects.
    pub(crate) fn note_if_deleted<T>(&self, done: &Result<T, Failure>) {
        if done.is_ok() {
            self.state().deletions.note_queued();
        }
    }

    /// Processes the queue from its start, unless that is in progress.
    pub(crate) fn delete_queued(self: &Arc<Self>, all: bool) {
        {
            let deleter = &mut self.state().deletions;
            if deleter.running || !(deleter.queue_changed || all) {
                return;
            }
            (deleter.running, deleter.queue_changed) = (true, false);
        }
        self.delete_page(None);
    }

    fn delete_page(self: &Arc<Self>, after: Option<FileIndex>) {
        let Some((batch, last)) = self.next_deletions(after) else {
            self.state().deletions.running = false;
            return;
        };
        self.sync_log_then(move |core, forced| match forced {
            Ok(()) => core.delete_batch(batch, last),
            Err(failure) => {
                report("syncing the log before objects are deleted", &failure);
                core.state().deletions.running = false;
            }
        });
    }

    /// The next batch of the queue after `after`, and the last file that was looked at.
    fn next_deletions(&self, mut after: Option<FileIndex>) -> Option<(Vec<Deletion>, FileIndex)> {
        loop {
            let page =
                self.namespace.deletions(after, DELETE_FILES_MAX).unwrap_or_else(|failure| {
                    report("reading the deletion queue", &failure);
                    Vec::new()
                });
            let last = page.last()?.file;
            let MdsState { deletions: deleter, sizes, .. } = &mut *self.state();
            debug_assert!(deleter.running, "2: one pass at a time");
            if deleter.uncertain.is_full() {
                deleter.queue_changed = true;
                return None;
            }
            // A truncate in flight would make an object again on a daemon that has deleted it.
            let free = |file: FileIndex| {
                !deleter.uncertain.contains(file)
                    && !deleter.blocked.contains(&file)
                    && !sizes.is_intent_running(file)
            };
            let batch: Vec<Deletion> =
                page.into_iter().filter(|deletion| free(deletion.file)).collect();
            if !batch.is_empty() {
                return Some((batch, last));
            }
            after = Some(last);
        }
    }

    fn delete_batch(self: &Arc<Self>, batch: Vec<Deletion>, last: FileIndex) {
        self.recall_layouts(batch.iter().map(|deletion| deletion.file));
        let removed = self.state().cluster.removed();
        self.query_iods(calls(&batch, false, &removed), move |core, replies| {
            let now = core.now();
            let failed = failed_iods(&replies);
            let (waits, done): (Vec<_>, Vec<_>) =
                batch.into_iter().partition(|deletion| has_object_on(deletion, &failed));
            {
                let MdsState { deletions: deleter, cluster, .. } = &mut *core.state();
                deleter.uncertain.insert(done, now);
                // Checked under the lock: a daemon that has come back is asked in the next pass.
                let is_down = |iod: &IodId| !failed.contains(iod) || !cluster.is_reachable(*iod);
                let held_up =
                    waits.iter().filter(|wait| objects::daemons(&wait.layout).iter().all(is_down));
                let space = BLOCKED_FILES_MAX.saturating_sub(deleter.blocked.len());
                deleter.blocked.extend(held_up.take(space).map(|wait| wait.file));
            }
            core.delete_page(Some(last));
        });
    }

    /// Makes durable what was deleted some time ago, unless that is in progress.
    pub(crate) fn confirm_deletions(self: &Arc<Self>) {
        let now = self.now();
        let batch = self.state().deletions.uncertain.next(now);
        if batch.is_empty() {
            return;
        }
        let removed = self.state().cluster.removed();
        self.query_iods(calls(&batch, true, &removed), move |core, replies| {
            let failed = failed_iods(&replies);
            let done = batch.iter().filter(|deletion| !has_object_on(deletion, &failed));
            let files: Vec<FileIndex> = done.map(|deletion| deletion.file).collect();
            match core.namespace.deletions_done(&files) {
                Ok(()) => {
                    core.counters.deleted.fetch_add(files.len() as u64, Ordering::Relaxed);
                }
                Err(failure) => report("removing deletions from the queue", &failure),
            }
            // The others are in the queue and in no list: the next pass begins with them.
            core.state().deletions.uncertain.asked.clear();
        });
    }
}

/// The calls to the daemons, except for those that were removed from the cluster.
fn calls(batch: &[Deletion], durable: bool, removed: &BTreeSet<IodId>) -> Vec<(IodId, Delete)> {
    let mut wanted = by_daemon(batch);
    wanted.retain(|iod, _| !removed.contains(iod));
    let call =
        |iod: IodId, objects: &[ObjectId]| (iod, Delete { objects: objects.to_vec(), durable });
    wanted
        .iter()
        .flat_map(|(iod, objects)| objects.chunks(DELETE_OBJECTS_MAX).map(|some| call(*iod, some)))
        .collect()
}

/// Daemons whose call failed.
fn failed_iods(replies: &Replies<()>) -> BTreeSet<IodId> {
    replies.iter().filter(|(_, reply)| reply.is_err()).map(|(iod, _)| *iod).collect()
}

/// Whether one of these daemons may have an object of the file.
fn has_object_on(deletion: &Deletion, iods: &BTreeSet<IodId>) -> bool {
    objects::daemons(&deletion.layout).iter().any(|iod| iods.contains(iod))
}

/// Every object that may exist. If the size mark stood, parts may exist that are not recorded.
fn by_daemon(batch: &[Deletion]) -> BTreeMap<IodId, Vec<ObjectId>> {
    let mut wanted = BTreeMap::<IodId, Vec<ObjectId>>::new();
    for deletion in batch {
        for (iod, objects) in objects::by_daemon(deletion.file, &deletion.layout) {
            let exists =
                |object: &ObjectId| !deletion.parts_certain || deletion.parts.contains(object.part);
            wanted.entry(iod).or_default().extend(objects.into_iter().filter(exists));
        }
    }
    wanted.retain(|_, objects| !objects.is_empty());
    wanted
}
