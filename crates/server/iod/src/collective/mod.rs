//! Collective requests: one job for the requests of all tasks of a program (1996 paper, 2.3.1; `docs/adr/0015-collective-requests.md`).
//!
//! ```text
//!   Collect (master) ──> Collectives: id ─> Collective ── Progress: who is where, which chunks there are   (progress.rs, desk.rs)
//!                                              ^    └──── Sweep: what comes next of the disk               (braid_layout)
//!   JoinRead (each task, own connection)  ── JoinJob: makes chunks, sends from them                        (join.rs, read.rs)
//!   JoinWrite (each task, own connection) ── JoinJob: lends its payload; one of them receives all          (write.rs, writer.rs)
//! ```
//!
//! | a chunk of a read is | while | next |
//! |---|---|---|
//! | making | one task, the leader, plans and reads it | ready |
//! | ready | tasks send their pieces out of it | the last task has passed it: gone |
//!
//! | a chunk of a write is | by whichever task's thread has the writer | next |
//! |---|---|---|
//! | planned | in slices | filled |
//! | filled | of each task in order of rank, from the payload that its thread has lent | landing, when the last has given its bytes |
//! | landing | one call for each run of an object | the next one is planned |
//!
//! Invariants:
//! 1. Chunks are numbered in file order; each task that reads passes every chunk up to its last byte, in order, also those where it has none.
//! 2. At most [`COLLECTIVE_RING`](braid_types::limits::COLLECTIVE_RING) chunks are in memory; of a write one, of as many bytes at most.
//! 3. A collective request fails once and for all its tasks; nothing of a chunk is written after that but what is being written.
//! 4. A chunk is written under the passes of every task that has bytes in it: what was fenced or abandoned does not land (I4).
//! 5. A task's bytes come into a write's chunk after those of all tasks of lower rank: where they overlap, the highest rank wins.
//! 6. A payload that is lent is received by the writer alone, and its thread has it back before it answers, whatever happened.
//! 7. One that is over, has failed or is forgotten holds no object, no chunk and, once the last call in it has ended, no place; its tasks
//!    hear for a while what became of it.
//! 8. [`progress`] knows no thread, clock or socket: it says who may do what, and is tested by itself.

mod begin;
mod chunk;
mod cursor;
mod desk;
mod join;
mod membership;
mod places;
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
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use braid_store::Object;
use braid_types::{Failure, SessionId, Status, WriteVerifier, limits::COLLECTIVE_IDLE_MS};
use braid_wire::message::{collective::CollectiveKind, iod::ObjectEnd};

pub(crate) use begin::collect;
pub use join::{JoinJob, Step};
pub(crate) use join::{join_read, join_write};
pub(crate) use membership::Membership;
use places::{Place, Places};
use progress::Progress;
pub use source::{Given, Gone, Source};

use crate::{connection::User, grant::Grant};

/// Refusals that are remembered, so that tasks which join after one do not wait.
const REFUSED_MAX: usize = 256;

/// Collective requests that are remembered after they are over; some hundred bytes each, and some for each task.
const OVER_MAX: usize = 256;

/// Names a collective request.
pub(crate) type CollectiveId = [u8; 16];

/// All collective requests of the daemon.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    table: Mutex<Table>,
    places: Arc<Places>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    live: HashMap<CollectiveId, Arc<Collective>>,
    /// Those that are over, the oldest first: a task whose bytes lie past the end of the file may come after all others are done.
    over: VecDeque<Arc<Collective>>,
    refused: HashMap<CollectiveId, (Failure, Duration)>,
    /// Counts what arrives, so that nobody sleeps through it.
    version: u64,
}

/// One collective request.
#[derive(Debug)]
pub(crate) struct Collective {
    id: CollectiveId,
    /// Until it is over.
    place: Place,
    kind: CollectiveKind,
    /// The master's.
    grant: Arc<Grant>,
    /// The session of each task, by rank.
    sessions: Vec<SessionId>,
    /// Of a read: where the objects end.
    ends: Vec<ObjectEnd>,
    /// How much a chunk holds.
    chunk_bytes: u64,
    /// From before the first byte was written.
    verifier: WriteVerifier,
    /// By slot; of a write they are opened or made when the first byte of them lands. Empty once it has failed or is over: what is open
    /// keeps its room on the disk, also when it is deleted.
    objects: Mutex<Vec<Option<Arc<dyn Object>>>>,
    progress: Mutex<Progress>,
    changed: Condvar,
    /// When something last moved, in nanoseconds.
    touched: AtomicU64,
}

impl Collectives {
    /// A place for a new one, before it is made.
    ///
    /// # Errors
    /// [`Status::LimitExceeded`].
    fn reserve(
        &self,
        master: (SessionId, Option<User>),
        tasks: usize,
        view_bytes: usize,
        now: Duration,
    ) -> Result<Place, Failure> {
        self.forget_idle(now);
        self.places.take(master, tasks, view_bytes)
    }

    /// Takes a new one in.
    ///
    /// # Errors
    /// [`Status::Exists`] when the id is known.
    fn add(&self, collective: Arc<Collective>) -> Result<(), Failure> {
        let mut table = self.lock();
        if table.knows(&collective.id) {
            return Err(Failure::new(
                Status::Exists,
                "a collective request of this id is under way or over",
            ));
        }
        table.live.insert(collective.id, collective);
        self.arrive(&mut table);
        Ok(())
    }

    /// Remembers that it was refused.
    fn refuse(&self, id: CollectiveId, failure: &Failure, now: Duration) {
        self.forget_idle(now);
        let mut table = self.lock();
        if table.refused.len() < REFUSED_MAX && !table.knows(&id) {
            table.refused.insert(id, (failure.clone(), now));
        }
        self.arrive(&mut table);
    }

    /// The collective request, once its `Collect` came; `Err` when that was refused.
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
        self.retire(collective);
    }

    /// If it is over, well or not, it gives up its place and its memory. What became of it is remembered.
    fn retire(&self, collective: &Arc<Collective>) {
        if collective.progress().is_over() {
            self.lock().remember(collective);
            collective.close();
            collective.progress().release();
            collective.place.give_back();
        }
    }

    /// Ends those in which nothing moved for long: their tasks have given up, or never came.
    fn forget_idle(&self, now: Duration) {
        let idle = self.lock().take_idle(now);
        for collective in idle {
            let detail =
                format!("nothing moved in the collective request for {COLLECTIVE_IDLE_MS} ms");
            self.fail(&collective, &Failure::new(Status::TryAgain, detail), now);
        }
    }

    fn arrive(&self, table: &mut Table) {
        table.version += 1;
        self.arrived.notify_all();
    }

    fn version(&self) -> u64 {
        self.lock().version
    }

    /// Waits until something arrived since `seen`, for `time` at most.
    fn wait(&self, seen: u64, time: Duration) {
        let waited =
            self.arrived.wait_timeout_while(self.lock(), time, |table| table.version == seen);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn knows(&self, id: &CollectiveId) -> bool {
        self.live.contains_key(id) || self.over.iter().any(|over| over.id == *id)
    }

    /// It is live no more.
    fn remember(&mut self, collective: &Arc<Collective>) {
        // Not another one of the same id.
        if !self.live.get(&collective.id).is_some_and(|live| Arc::ptr_eq(live, collective)) {
            return;
        }
        self.live.remove(&collective.id);
        if self.over.len() >= OVER_MAX {
            self.over.pop_front();
        }
        self.over.push_back(collective.clone());
    }

    /// Forgets what was over or refused long ago; those in which nothing moved for as long are live no more.
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
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes its progress, and wakes whoever waits for a change.
    fn advance<T>(&self, now: Duration, change: impl FnOnce(&mut Progress) -> T) -> T {
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

    /// Lets go of the objects: nothing more is read or written.
    fn close(&self) {
        let objects = std::mem::take(&mut *self.objects());
        drop(objects);
    }

    fn objects(&self) -> MutexGuard<'_, Vec<Option<Arc<dyn Object>>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why there are no objects any more.
    fn closed(&self) -> Failure {
        self.progress().failure().cloned().unwrap_or_else(|| Status::Internal.into())
    }

    /// How things stand, for who may wait: the version and the moves.
    fn seen(&self) -> (u64, u64) {
        let progress = self.progress();
        (progress.version(), progress.moves())
    }

    fn wait(&self, seen: u64, time: Duration) {
        let waited = self
            .changed
            .wait_timeout_while(self.progress(), time, |progress| progress.version() == seen);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn touched(&self) -> Duration {
        Duration::from_nanos(self.touched.load(Relaxed))
    }
}
