//! Collective requests: one job for the requests of all tasks of a program (1996 paper, 2.3.1;
//! `docs/adr/0015-collective-requests.md`).
//!
//! ```text
//!   Collect (leader task) ──> Collectives: id ─> Collective ─┬─ CollectiveProgress: tasks, chunks
//!                                                            └─ RequestUnion: next bytes on disk
//!   JoinRead  (each task) ── JoinJob: makes chunks, and sends from them     join.rs, read.rs
//!   JoinWrite (each task) ── JoinJob: offers its payload; one job receives  write.rs, writer.rs
//! ```
//!
//! Each task joins over its own connection.
//!
//! | a chunk of a read is | while | next |
//! |---|---|---|
//! | making | one task plans and reads it | ready |
//! | ready | tasks send their pieces from it | released, when the last task has passed it |
//!
//! | a chunk of a write is | by the thread that has the writer | next |
//! |---|---|---|
//! | planned | in slices | filled |
//! | filled | from the offered payloads, by rank | written, when all bytes are there |
//! | written | one call for each extent of an object | the next chunk is planned |
//!
//! Invariants:
//! 1. Chunks are numbered in file order. A task that reads passes every chunk up to its last byte
//!    in order, also those without a byte for it.
//! 2. At most [`COLLECTIVE_RING`](braid_types::limits::COLLECTIVE_RING) chunks of a read are in
//!    memory. A write has one, of as many bytes at most.
//! 3. A collective request fails once, for all its tasks. After that no chunk is written, except
//!    one that is just being written.
//! 4. A chunk is written under the admission of every task that has bytes in it: no fenced or
//!    abandoned task's bytes reach the objects (I4).
//! 5. A task's bytes enter a chunk of a write after those of all tasks of lower rank: in an
//!    overlap, the highest rank wins.
//! 6. Only the writer receives an offered payload. The payload's own thread has it back before it
//!    answers, also after a failure.
//! 7. A collective request that has finished, failed or been forgotten holds no object and no
//!    chunk, and after its last call no permit. Its tasks can ask for its outcome for a while.
//! 8. [`progress`] has no thread, clock or socket: it decides who may do what, and is tested by
//!    itself.
//!
//! `progress.rs` asserts 1, 2 and 7. After a failure it gives out no chunk (3). `writer.rs` writes
//! under `begin_shared_slice` of all offers of the chunk (4), and takes the tasks in the order of
//! their ranks (5). An offer that another thread has is not reclaimed (6; `payload_exchange.rs`). 8
//! is about what the file imports.

mod chunk;
mod create;
mod cursor;
mod join;
mod limits;
mod participation;
mod payload_exchange;
mod progress;
mod read;
mod source;
#[cfg(test)]
mod tests;
mod write;
mod writer;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use braid_store::Object;
use braid_types::{Failure, SessionId, Status, WriteVerifier, limits::COLLECTIVE_IDLE_MS};
use braid_wire::message::{collective::CollectiveKind, iod::ObjectEnd};

pub(crate) use create::create;
pub use join::{JoinJob, JoinStep};
pub(crate) use join::{join_read, join_write};
use limits::{CollectiveLimits, CollectivePermit};
pub(crate) use participation::Participation;
use progress::CollectiveProgress;
pub use source::{ConnectionLost, MemorySource, PayloadSource};

use crate::{connection::User, verified_capability::VerifiedCapability};

/// Refusals that are remembered, so that tasks which join later do not wait.
const REFUSED_MAX: usize = 256;

/// Finished collective requests that are remembered: some hundred bytes each, and some for each
/// task.
const FINISHED_MAX: usize = 256;

/// Names a collective request.
pub(crate) type CollectiveId = [u8; 16];

/// All collective requests of the daemon.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    table: Mutex<Table>,
    limits: Arc<CollectiveLimits>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    live: HashMap<CollectiveId, Arc<Collective>>,
    /// Finished ones, the oldest first: a task whose bytes lie past the end of the file may join
    /// after all others.
    over: VecDeque<Arc<Collective>>,
    refused: HashMap<CollectiveId, (Failure, Duration)>,
    /// Rises with each arrival, so that no waiting thread misses one.
    version: u64,
}

/// One collective request.
#[derive(Debug)]
pub(crate) struct Collective {
    id: CollectiveId,
    /// Released when it has finished.
    permit: CollectivePermit,
    kind: CollectiveKind,
    /// The leader task's capability.
    capability: Arc<VerifiedCapability>,
    /// The session of each task, by rank.
    sessions: Vec<SessionId>,
    /// Of a read: the ends of the objects.
    ends: Vec<ObjectEnd>,
    /// Bytes of a chunk.
    chunk_bytes: u64,
    /// From before the first byte was written.
    verifier: WriteVerifier,
    /// By slot. Of a write they are opened or created when their first byte is written. Empty when
    /// the request has failed or finished: an open object keeps its disk space even when it is
    /// deleted.
    objects: Mutex<Vec<Option<Arc<dyn Object>>>>,
    progress: Mutex<CollectiveProgress>,
    changed: Condvar,
    /// When a task last made progress, in nanoseconds.
    touched: AtomicU64,
}

impl Collectives {
    /// A permit for a new one, before it is created.
    ///
    /// # Errors
    /// [`Status::LimitExceeded`].
    fn reserve(
        &self,
        leader: (SessionId, Option<User>),
        tasks: usize,
        view_bytes: usize,
        now: Duration,
    ) -> Result<CollectivePermit, Failure> {
        self.end_idle(now);
        self.limits.take(leader, tasks, view_bytes)
    }

    /// Adds a new one.
    ///
    /// # Errors
    /// [`Status::Exists`] when the id is known.
    fn add(&self, collective: Arc<Collective>) -> Result<(), Failure> {
        let mut table = self.lock();
        if table.knows(&collective.id) {
            return Err(Failure::new(
                Status::Exists,
                "the id was used for another collective request",
            ));
        }
        table.live.insert(collective.id, collective);
        self.notify_arrival(&mut table);
        Ok(())
    }

    /// Remembers a refusal.
    fn refuse(&self, id: CollectiveId, failure: &Failure, now: Duration) {
        self.end_idle(now);
        let mut table = self.lock();
        if table.refused.len() < REFUSED_MAX && !table.knows(&id) {
            table.refused.insert(id, (failure.clone(), now));
        }
        self.notify_arrival(&mut table);
    }

    /// The collective request, once its `Collect` has arrived; `Err` when that was refused.
    fn find(&self, id: &CollectiveId) -> Result<Option<Arc<Collective>>, Failure> {
        let table = self.lock();
        match (table.live.get(id), table.refused.get(id)) {
            (Some(live), _) => Ok(Some(live.clone())),
            (None, Some((failure, _))) => Err(failure.clone()),
            (None, None) => Ok(table.over.iter().rev().find(|over| over.id == *id).cloned()),
        }
    }

    /// Ends it for all its tasks, unless it has failed already.
    fn fail(&self, collective: &Arc<Collective>, failure: &Failure, now: Duration) {
        tracing::debug!(%failure, "collective request failed");
        collective.advance(now, |progress| progress.fail(failure.clone()));
        collective.close();
        self.release_if_over(collective);
    }

    /// If it has finished or failed, releases its permit and memory. Its outcome is remembered.
    fn release_if_over(&self, collective: &Arc<Collective>) {
        if collective.progress().is_over() {
            self.lock().remember(collective);
            collective.close();
            collective.progress().release();
            collective.permit.release();
        }
    }

    /// Ends those without progress for a long time: their tasks gave up, or never joined.
    fn end_idle(&self, now: Duration) {
        let idle = self.lock().take_idle(now);
        for collective in idle {
            let detail =
                format!("the collective request made no progress for {COLLECTIVE_IDLE_MS} ms");
            self.fail(&collective, &Failure::new(Status::TryAgain, detail), now);
        }
    }

    fn notify_arrival(&self, table: &mut Table) {
        table.version += 1;
        self.arrived.notify_all();
    }

    fn version(&self) -> u64 {
        self.lock().version
    }

    /// Waits for an arrival since `seen`, at most for `time`.
    fn wait(&self, seen: u64, time: Duration) {
        let waited =
            self.arrived.wait_timeout_while(self.lock(), time, |table| table.version == seen);
        drop(waited.unwrap_or_else(braid_types::poisoned));
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(braid_types::poisoned)
    }
}

impl Table {
    fn knows(&self, id: &CollectiveId) -> bool {
        self.live.contains_key(id) || self.over.iter().any(|over| over.id == *id)
    }

    /// Moves it from the live ones to the finished ones.
    fn remember(&mut self, collective: &Arc<Collective>) {
        // Another one may have the same id.
        if !self.live.get(&collective.id).is_some_and(|live| Arc::ptr_eq(live, collective)) {
            return;
        }
        self.live.remove(&collective.id);
        if self.over.len() >= FINISHED_MAX {
            self.over.pop_front();
        }
        self.over.push_back(collective.clone());
    }

    /// Forgets old outcomes and refusals. Returns the live ones without progress, which are live no
    /// more.
    fn take_idle(&mut self, now: Duration) -> Vec<Arc<Collective>> {
        let idle =
            |touched| now.saturating_sub(touched) >= Duration::from_millis(COLLECTIVE_IDLE_MS);
        self.refused.retain(|_, (_, since)| !idle(*since));
        while self.over.front().is_some_and(|over| idle(over.touched())) {
            self.over.pop_front();
        }
        let taken: Vec<_> =
            self.live.values().filter(|live| idle(live.touched())).cloned().collect();
        taken.iter().for_each(|collective| self.remember(collective));
        taken
    }
}

impl Collective {
    fn progress(&self) -> MutexGuard<'_, CollectiveProgress> {
        self.progress.lock().unwrap_or_else(braid_types::poisoned)
    }

    /// Changes its progress, and wakes the threads that wait for a change.
    fn advance<T>(&self, now: Duration, change: impl FnOnce(&mut CollectiveProgress) -> T) -> T {
        let mut progress = self.progress();
        let (version, moves) = (progress.version(), progress.moves());
        let out = change(&mut progress);
        let (woke, moved) = (progress.version() != version, progress.moves() != moves);
        drop(progress);
        if woke {
            self.changed.notify_all();
        }
        if moved {
            self.touched.store(now.as_nanos() as u64, Relaxed);
        }
        out
    }

    /// Drops the objects: nothing more is read or written.
    fn close(&self) {
        let objects = std::mem::take(&mut *self.objects());
        drop(objects);
    }

    fn objects(&self) -> MutexGuard<'_, Vec<Option<Arc<dyn Object>>>> {
        self.objects.lock().unwrap_or_else(braid_types::poisoned)
    }

    /// Why it has no objects any more.
    fn closed(&self) -> Failure {
        self.progress().failure().cloned().unwrap_or_else(|| Status::Internal.into())
    }

    /// The current version and moves, for a thread that may have to wait.
    fn seen(&self) -> (u64, u64) {
        let progress = self.progress();
        (progress.version(), progress.moves())
    }

    fn wait(&self, seen: u64, time: Duration) {
        let waited = self
            .changed
            .wait_timeout_while(self.progress(), time, |progress| progress.version() == seen);
        drop(waited.unwrap_or_else(braid_types::poisoned));
    }

    fn touched(&self) -> Duration {
        Duration::from_nanos(self.touched.load(Relaxed))
    }
}
