//! The end of size marks: when the last writer is gone, the size is collected, flushed and recorded (I5, ADR 0008).
//!
//! ```text
//!   last close ──> queue ──> asked, no flush ──> heard ──> asked to flush ──> recorded, mark ended
//!                    ^            |                |             | a verifier changed: from the start
//!                    |            | a daemon       | stat and    | a daemon is down
//!                    |            | is down        | open ask    |
//!                    `── next tick ┴── a writer ───┴─ nobody ────'
//! ```
//!
//! What the one writer of a new file tells with its close counts as heard (told.rs).
//!
//! Invariants: (1) a size is heard, and recorded, only if no writer opened the file since its daemons were asked: an
//! open for writing takes the file out of `asked` and `heard` before its capability leaves the server; (2) the queue has
//! each file once; (3) what is recorded was on disk when its daemons answered: size and parts alike, so that a part that
//! is recorded and missing is a loss (I11); (4) only daemons that have registered with this run of the server are
//! asked: others may still take writes of capabilities of the run before; (5) the mark of a file that a user with a ticket has closed
//! stays until the fence of its session holds, since it may go on showing its capability. Who holds a client key is believed
//! when it closes a file: it may do anything as anybody.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use braid_meta::{Call as Change, Fetch, Identity, Inode, Parts};
use braid_types::{Failure, FileIndex, SessionId, Status, Timestamp};

use crate::{
    core::{MdsCore, State, report},
    heard::HeardFiles,
    objects::{self, Found},
    size::HowAsked,
    told::{Maker, Makers, Mark},
};

/// Files whose daemons are asked in one call: with 16 parts each, a message of 230 KiB over all daemons.
const COLLECT_FILES_MAX: usize = 1024;
/// Object ids in one batch, whatever the files' widths: the message to one daemon stays below its limit (I9).
const COLLECT_OBJECTS_MAX: usize = 16_384;
/// Files that are flushed in one call: each daemon syncs its file system once for all of them.
const SETTLE_FILES_MAX: usize = 8192;
/// Files, counted once for each session, that sessions of tickets have written and closed (I9), 60 bytes each. Past it a file is
/// collected when it is closed, as that of any client.
const WITHHELD_MAX: usize = 1 << 20;
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
    heard: HeardFiles,
    makers: Makers,
    settling: bool,
    /// By how many sessions of tickets each file was written and closed.
    withheld: HashMap<FileIndex, u32>,
    /// The sum of these.
    withheld_count: usize,
    times_set: HashMap<FileIndex, Timestamp>,
}

impl Collector {
    pub(crate) fn add(&mut self, file: FileIndex) {
        // One that is being asked, undisturbed, will be heard.
        if !self.asked.contains(&file) && self.queued.insert(file) {
            self.queue.push_back(file);
        }
    }

    /// A session of a ticket has closed the file, and may write it all the same: its mark stays.
    pub(crate) fn withhold(&mut self, file: FileIndex) {
        *self.withheld.entry(file).or_default() += 1;
        self.withheld_count += 1;
    }

    /// Whether one more file may be kept from being collected.
    pub(crate) fn may_withhold(&self) -> bool {
        self.withheld_count < WITHHELD_MAX
    }

    /// The session writes no more.
    pub(crate) fn release(&mut self, file: FileIndex) {
        let Some(sessions) = self.withheld.get_mut(&file) else { return };
        *sessions -= 1;
        self.withheld_count -= 1;
        if *sessions == 0 {
            self.withheld.remove(&file);
            self.add(file);
        }
    }

    /// Whether somebody who closed the file may write it all the same.
    pub(crate) fn is_withheld(&self, file: FileIndex) -> bool {
        self.withheld.contains_key(&file)
    }

    /// A writer opened the file: what was asked of its daemons says nothing any more.
    pub(crate) fn disturb(&mut self, file: FileIndex) {
        self.asked.remove(&file);
        self.heard.remove(file);
        self.makers.disturb(file);
    }

    /// A moment, before a file is made.
    pub(crate) fn makers_mark(&self) -> Mark {
        self.makers.mark()
    }

    /// The file was made and opened for writing, and nobody else has opened it for that.
    pub(crate) fn made(&mut self, file: FileIndex, maker: Maker, since: Mark) {
        self.makers.insert(file, maker, since);
    }

    /// Who made the file and alone may have written it.
    pub(crate) fn maker(&self, file: FileIndex) -> Option<&Maker> {
        self.makers.get(file)
    }

    /// A handle of the file that may write was closed.
    pub(crate) fn end_maker(&mut self, file: FileIndex) {
        self.makers.remove(file);
    }

    /// The session ended: it tells nothing more.
    pub(crate) fn end_makers(&mut self, session: SessionId) {
        self.makers.end(session);
    }

    /// How many files it knows the maker of.
    #[cfg(test)]
    pub(crate) fn makers(&self) -> usize {
        self.makers.len()
    }

    /// Whether more can be heard.
    pub(crate) fn has_room(&self) -> bool {
        !self.heard.is_full()
    }

    /// The last writer told it with its close.
    pub(crate) fn hear_told(&mut self, file: FileIndex, found: Found, now: Duration) {
        self.heard.insert_told(file, found, now);
    }

    /// What a file's daemons said after its last writer.
    pub(crate) fn heard(&self, file: FileIndex) -> Option<&Found> {
        self.heard.get(file)
    }

    /// What was heard of the file is not to be relied on.
    pub(crate) fn begin_again(&mut self, file: FileIndex) {
        self.disturb(file);
        self.add(file);
    }

    /// Forgets a file that is gone.
    fn forget(&mut self, file: FileIndex) {
        self.disturb(file);
        self.times_set.remove(&file);
    }

    /// Somebody set the file's time at `now`: writes before that do not change it.
    pub(crate) fn time_was_set(&mut self, file: FileIndex, now: Timestamp) {
        self.times_set.insert(file, with_slack(now));
    }

    /// From when on writes change the file's time, if somebody set it.
    pub(crate) fn mtime_set(&self, inode: &Inode) -> Option<Timestamp> {
        // Before a restart: the record says that it was set, and not later than its last change.
        let recorded = || inode.mtime_set.then(|| with_slack(inode.ctime));
        self.times_set.get(&inode.file).copied().or_else(recorded)
    }

    /// Whether nothing is under way or could be begun now.
    fn is_quiet(&self) -> bool {
        let idle = !self.running && !self.settling;
        idle && self.queue.is_empty() && self.asked.is_empty() && self.heard.len() == 0
    }

    /// Files that wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.later.len() + self.asked.len() + self.heard.len()
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
        self.ask_sizes(batch, HowAsked::COLLECTING, |core, sizes| {
            sizes.into_iter().for_each(|(inode, found)| core.hear(&inode, found));
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
        if state.collector.running || state.collector.heard.is_full() || self.is_in_doubt() {
            return Vec::new();
        }
        let (mut batch, mut objects) = (Vec::new(), 0);
        while batch.len() < COLLECT_FILES_MAX && objects < COLLECT_OBJECTS_MAX {
            let Some(file) = state.collector.pop() else { break };
            let Some(inode) = self.to_collect(&mut state, file) else { continue };
            if !state.knows_daemons(&inode) {
                state.collector.later.insert(file);
                continue;
            }
            let components = inode.layout.iter().flat_map(|layout| &layout.components);
            objects += components.map(|component| component.parts.len()).sum::<usize>();
            state.collector.asked.insert(file);
            batch.push(inode);
        }
        state.collector.running = !batch.is_empty();
        batch
    }

    /// The file, if its mark stands and nobody writes it. When a truncate of it is finished, it comes back.
    fn to_collect(&self, state: &mut State, file: FileIndex) -> Option<Arc<Inode>> {
        match (self.names.needs_collecting(file), self.names.getattr(file)) {
            (Ok(true), Ok(inode)) if !state.gates.is_closed(file) => Some(inode),
            (_, Err(_)) => {
                state.collector.forget(file);
                None
            }
            _ => None,
        }
    }

    /// Takes note of what a file's daemons said without a flush.
    fn hear(&self, inode: &Inode, found: Result<Found, Failure>) {
        let now = self.now();
        // Held for the record: no open for writing falls between the look at `asked` and it.
        let mut state = self.state();
        let undisturbed = state.collector.asked.remove(&inode.file);
        let withheld = state.collector.is_withheld(inode.file);
        match found {
            // Its true size went with a daemon that was removed: the mark stays, and keeps it from being opened.
            Ok(found) if found.lost => {}
            Ok(found) if undisturbed && !withheld && is_recorded(inode, &found) => {
                self.record(&mut state, inode, found)
            }
            Ok(found) if undisturbed => {
                if let Err(failure) = self.names.size_heard(inode.file, found.fetch.size) {
                    report("noting a size for quotas", &failure);
                }
                if !withheld {
                    state.collector.heard.insert(inode.file, found, now);
                }
            }
            // The last close of who came meanwhile adds it again.
            Ok(_) => {}
            Err(failure) => state.ask_later(inode.file, &failure),
        }
    }

    /// Flushes and records files that were heard some time ago, unless that is under way.
    pub(crate) fn settle_sizes(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state().collector.settling, true) {
            return;
        }
        let batch = self.next_due();
        if batch.is_empty() {
            self.state().collector.settling = false;
            return;
        }
        self.ask_parts(batch, HowAsked::FLUSHED, |core, sizes| {
            sizes.into_iter().for_each(|(inode, found)| core.settle_size(&inode, found));
            core.state().collector.settling = false;
            core.settle_sizes();
        });
    }

    /// Settles at once what would wait for its time, because the server is to stop: a file that was closed before a
    /// shutdown in good order is on disk, and a part of it that is missed later is a loss (I11). Whether that is done, but
    /// for files of daemons that are down.
    pub(crate) fn hurry_sizes(self: &Arc<Self>) -> bool {
        self.state().collector.heard.hurry();
        self.collect();
        self.settle_sizes();
        self.state().collector.is_quiet()
    }

    /// Files that are due, with the parts that have an object: the others have none yet, since nobody wrote.
    fn next_due(&self) -> Vec<(Arc<Inode>, Option<Parts>)> {
        let now = self.now();
        let (mut batch, mut objects, mut lost) = (Vec::new(), 0, Vec::new());
        while batch.len() < SETTLE_FILES_MAX && objects < COLLECT_OBJECTS_MAX {
            // Locked for each: a batch is large, and calls wait for the lock.
            let mut state = self.state();
            let Some(file) = state.collector.heard.next_due(now) else { break };
            let Some(inode) = self.to_collect(&mut state, file) else {
                state.collector.heard.remove(file);
                continue;
            };
            let Some(found) = state.collector.heard(file) else { continue };
            if !state.cluster.all_keep(&found.verifiers) {
                state.collector.begin_again(file);
                lost.push(inode);
                continue;
            }
            let parts = found.fetch.parts.clone();
            objects +=
                parts.as_bytes().iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
            // What a client told may not be all.
            let asked = (!state.collector.heard.is_told(file)).then_some(parts);
            batch.push((inode, asked));
        }
        self.forget_kept(&lost);
        batch
    }

    /// A file's daemons have flushed it: its size is recorded, unless somebody came, or a daemon lost what it had.
    fn settle_size(&self, inode: &Arc<Inode>, found: Result<Found, Failure>) {
        let mut state = self.state();
        let told = state.collector.heard.is_told(inode.file);
        let Some(heard) = state.collector.heard.settled(inode.file) else { return };
        match found {
            // A daemon was removed meanwhile. What was heard before is the whole file (I11).
            Ok(found) if found.lost => self.record(&mut state, inode, heard),
            Ok(found) if !told && found.misses(&heard) => {
                // A disk took it, or a hand. Whoever reads it is told (I11).
                tracing::error!(file = %inode.file, "an object that a daemon had is gone; try: braid fsck");
                self.record(&mut state, inode, heard);
            }
            Ok(mut found) if found.verifiers == heard.verifiers => {
                let change = found.fetch.change;
                if found.fetch == (Fetch { change, ..heard.fetch.clone() }) {
                    // What was told since is what is recorded.
                    found.fetch.change = heard.fetch.change;
                }
                self.record(&mut state, inode, found);
            }
            Ok(_) => {
                state.collector.begin_again(inode.file);
                drop(state);
                self.forget_kept(std::slice::from_ref(inode));
            }
            // A daemon that has no object of it need not be there for its size to be known.
            Err(failure) if state.collector.heard.may_wait_again() => {
                // Each file that is to be settled, every few seconds, while a daemon is down: nothing to tell a person.
                tracing::debug!(file = %inode.file, %failure, "not flushed yet");
                let now = self.now();
                state.collector.heard.insert_again(inode.file, heard, told, now);
            }
            Err(failure) => state.ask_later(inode.file, &failure),
        }
    }

    /// Records what is on disk, and ends the mark.
    fn record(&self, state: &mut State, inode: &Inode, found: Found) {
        let who = Identity::root();
        let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
        let mtime = state.written_at(inode, found.fetch.mtime);
        match self.names.collect(&change, inode.file, &Fetch { mtime, ..found.fetch }) {
            Ok(inode) if inode.size_in_objects => {}
            Ok(inode) => {
                state.collector.times_set.remove(&inode.file);
                self.counters.collected.fetch_add(1, Ordering::Relaxed);
            }
            // A truncate is under way, or the file went.
            Err(failure) if failure.status == Status::StaleGeneration => {}
            Err(failure) if failure.status == Status::StaleHandle => {
                state.collector.forget(inode.file)
            }
            Err(failure) => state.ask_later(inode.file, &failure),
        }
    }

    /// Records what an open file's daemons said after a flush, for fsync: with a writer the mark stays.
    pub(crate) fn record_open(&self, inode: &Inode, found: &Found) -> Result<(), Failure> {
        let who = Identity::root();
        let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
        let mtime = self.state().written_at(inode, found.fetch.mtime);
        // Writers may come and go meanwhile: the end of the mark is for `record` alone.
        self.names.note_size(&change, inode.file, &Fetch { mtime, ..found.fetch.clone() })
    }
}

impl State {
    /// Whether every daemon of a file has registered with this run of the server.
    fn knows_daemons(&self, inode: &Inode) -> bool {
        let iods = inode.layout.iter().flat_map(|layout| objects::daemons(layout));
        iods.into_iter()
            .all(|iod| self.cluster.verifier(iod).is_some() || self.cluster.is_removed(iod))
    }

    fn ask_later(&mut self, file: FileIndex, failure: &Failure) {
        report(&format!("collecting the size of file {file}"), failure);
        self.collector.later.insert(file);
    }
}

fn with_slack(time: Timestamp) -> Timestamp {
    let nanos = time.nanos + CLOCK_SLACK_NANOS;
    Timestamp {
        seconds: time.seconds + i64::from(nanos / 1_000_000_000),
        nanos: nanos % 1_000_000_000,
    }
}

/// Whether size and parts are those on record: what is on record was flushed.
pub(crate) fn is_recorded(inode: &Inode, found: &Found) -> bool {
    let mut parts = inode.parts.clone();
    parts.merge(&found.fetch.parts);
    found.fetch.size == inode.size && parts == inode.parts
}
