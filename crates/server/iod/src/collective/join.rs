//! A task's call in a collective request: how it joins, waits and ends. `read.rs` and `write.rs`
//! have the rest.

use std::{
    sync::{Arc, Mutex, MutexGuard, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_store::ObjectStore;
use braid_types::{
    Failure, Status,
    limits::{COLLECTIVE_HOLE_BYTES, COLLECTIVE_WAIT_MS_MAX, WINDOW_BYTES},
};
use braid_wire::message::{
    collective::CollectiveKind,
    iod::{JoinRead, JoinWrite},
};

use super::{
    Collective, CollectiveId, Collectives, Participation,
    chunk::{Chunk, ChunkPlan, PlanResult},
    create::rights,
    cursor::Cursor,
    progress::{JoinAction, NextAction},
    source::{MemorySource, PayloadSource},
    write::WriteState,
};
use crate::{
    connection::ConnectionState,
    connections::ConnectionEntry,
    frame_sink::{Answer, FrameSink, SinkError},
    iod_core::IodCore,
    ops::SearchLimit,
    verified_capability::VerifiedCapability,
};

/// A task's call in a collective request.
#[derive(Debug)]
pub struct JoinJob {
    pub(super) kind: CollectiveKind,
    id: CollectiveId,
    pub(super) rank: usize,
    skip: u64,
    /// Payload bytes of the call.
    pub(super) bytes: u64,
    wait: Duration,
    pub(super) capability: Arc<VerifiedCapability>,
    pub(super) caller: Arc<ConnectionEntry>,
    pub(super) collectives: Arc<Collectives>,
    memberships: Arc<Mutex<Vec<Participation>>>,
    begun: Duration,
    pub(super) joined: Option<Joined>,
    waiting: Option<Waiting>,
    /// Payload bytes that were sent or received.
    pub(super) had: u64,
    /// Of a read: the final frame was sent.
    pub(super) answered: bool,
    pub(super) search: SearchLimit,
    pub(super) writing: WriteState,
    /// Pieces of the next frame in the chunk's memory.
    pub(super) pieces: Vec<(usize, usize)>,
}

/// The job's state in its collective request.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) collective: Arc<Collective>,
    /// Whether the call has bytes to transfer; false when earlier calls had all of the task's
    /// bytes.
    is_in_order: bool,
    /// Of a read; `None` when earlier calls had all of the task's bytes.
    pub(super) cursor: Option<Box<Cursor>>,
    pub(super) chunk: Option<Arc<Chunk>>,
    /// The chunk that this job is making.
    making: Option<(Box<braid_layout::RequestUnion>, ChunkPlan, Vec<u8>)>,
}

/// What a job last waited for.
#[derive(Debug)]
struct Waiting {
    /// A change of this one; `None` for the arrival of the `Collect`.
    on: Option<Arc<Collective>>,
    /// The version when it began to wait.
    version: u64,
    moves: u64,
    /// Since when nothing has made progress.
    since: Duration,
}

/// The result of a slice of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinStep {
    /// Call again.
    Again,
    /// [`JoinJob::wait`] for other tasks, then call again.
    Waits,
    /// The call is answered.
    Finished,
}

/// A task's position.
pub(super) enum ChunkPosition {
    /// At this chunk.
    Chunk(Arc<Chunk>),
    /// It makes the next chunk, and continues with that in its next slice.
    Making,
    /// After the last chunk.
    Nothing,
}

/// Why a slice stopped.
pub(super) enum SliceEnd {
    /// It waits for other tasks.
    Waits,
    /// It fails.
    Failed(Failure),
    /// The connection is closed.
    Closed,
}

impl From<Failure> for SliceEnd {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<SinkError> for SliceEnd {
    fn from(error: SinkError) -> Self {
        match error {
            SinkError::Disk(failure) => Self::Failed(failure),
            SinkError::Closed => Self::Closed,
        }
    }
}

pub(crate) fn join_read<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    join: &JoinRead,
) -> Result<Box<JoinJob>, Failure> {
    let JoinRead { handle, present, collective, rank, skip, bytes, wait_ms } = join;
    let names = (*collective, *rank, skip.0, bytes.0, *wait_ms);
    begin(core, connection, now, (*handle, present), CollectiveKind::Read, names)
}

pub(crate) fn join_write<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    join: &JoinWrite,
    payload_bytes: u32,
) -> Result<Box<JoinJob>, Failure> {
    let JoinWrite { handle, present, collective, rank, skip, wait_ms } = join;
    let names = (*collective, *rank, skip.0, u64::from(payload_bytes), *wait_ms);
    begin(core, connection, now, (*handle, present), CollectiveKind::Write, names)
}

fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    (handle, present): (u32, &[u8]),
    kind: CollectiveKind,
    (id, rank, skip, bytes, wait_ms): (CollectiveId, u32, u64, u64, u32),
) -> Result<Box<JoinJob>, Failure> {
    let (capability, caller) =
        core.admission().capability(connection, handle, present, rights(kind))?;
    if bytes > WINDOW_BYTES {
        return Err(Failure::new(
            Status::LimitExceeded,
            format!("{bytes} bytes exceed the window of {WINDOW_BYTES}"),
        ));
    }
    core.counters().joins.fetch_add(1, Relaxed);
    Ok(Box::new(JoinJob {
        kind,
        id,
        rank: rank as usize,
        skip,
        bytes,
        wait: Duration::from_millis(u64::from(wait_ms.min(COLLECTIVE_WAIT_MS_MAX))),
        capability,
        caller,
        collectives: core.collectives().clone(),
        memberships: connection.participations().clone(),
        begun: now,
        joined: None,
        waiting: None,
        had: 0,
        answered: false,
        search: SearchLimit::default(),
        writing: WriteState::default(),
        pieces: Vec::new(),
    }))
}

impl JoinJob {
    /// Whether it takes a payload by [`JoinJob::write`]; otherwise it runs by [`JoinJob::step`].
    pub fn writes(&self) -> bool {
        self.kind == CollectiveKind::Write
    }

    /// Sleeps until the job may continue, at most for `time`.
    pub fn wait<S: ObjectStore>(&self, core: &IodCore<S>, time: Duration) {
        match &self.waiting {
            Some(Waiting { on: Some(collective), version, .. }) => collective.wait(*version, time),
            Some(Waiting { on: None, version, .. }) => core.collectives().wait(*version, time),
            None => {}
        }
    }

    /// Does the whole call if it need not wait for another task: for simulated networks, which have
    /// no threads.
    pub(crate) fn run_without_waiting<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
        payload: &[u8],
        out: &mut dyn FrameSink,
    ) -> Result<(), SinkError> {
        let would_wait = || Failure::new(Status::TryAgain, "another task has not joined yet");
        if self.kind == CollectiveKind::Read {
            loop {
                match self.step(core, now, out)? {
                    JoinStep::Again => {}
                    JoinStep::Finished => return Ok(()),
                    JoinStep::Waits => {
                        return out
                            .finish_from_memory(&self.fail(core, &would_wait(), now).body, &[]);
                    }
                }
            }
        }
        let source: Arc<dyn PayloadSource> = MemorySource::new(payload, usize::MAX / 2);
        loop {
            match self.write(core, now, &source) {
                Ok(answer) => return out.finish_from_memory(&answer.body, &[]),
                Err(JoinStep::Waits) => self.refuse(would_wait(), now),
                Err(_) => {}
            }
        }
    }

    pub(super) fn collective(&self) -> Option<Arc<Collective>> {
        self.joined.as_ref().map(|entered| entered.collective.clone())
    }

    /// Whether the call has bytes to transfer.
    pub(super) fn is_in_order(&self) -> bool {
        self.joined.as_ref().is_some_and(|entered| entered.is_in_order)
    }

    /// Checks the slice. Joins, once the `Collect` has arrived and the task's earlier calls have
    /// ended.
    pub(super) fn join<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
    ) -> Result<(), SliceEnd> {
        core.admission().check(&self.capability, &self.caller, now)?;
        if self.joined.is_some() {
            return Ok(());
        }
        let version = core.collectives().version();
        let Some(collective) = core.collectives().find(&self.id)? else {
            if now.saturating_sub(self.begun) >= self.wait {
                let detail = format!(
                    "the leader task sent no collective request within {} ms",
                    self.wait.as_millis()
                );
                return Err(Failure::new(Status::TryAgain, detail).into());
            }
            self.waiting = Some(Waiting { on: None, version, moves: 0, since: now });
            return Err(SliceEnd::Waits);
        };
        self.check(&collective, now)?;
        match collective
            .advance(now, |progress| (progress.begin(self.rank, self.skip), progress.version()))
        {
            (JoinAction::Go(cursor), _) => {
                self.waiting = None;
                self.record_participation(&collective);
                self.joined = Some(Joined {
                    collective,
                    is_in_order: true,
                    cursor,
                    chunk: None,
                    making: None,
                });
                Ok(())
            }
            (JoinAction::Nothing, _) => {
                self.joined = Some(Joined {
                    collective,
                    is_in_order: false,
                    cursor: None,
                    chunk: None,
                    making: None,
                });
                Ok(())
            }
            (JoinAction::Failed(failure), _) => Err(failure.into()),
            (JoinAction::Misplaced, _) => {
                let detail =
                    format!("task {} had byte {} in an earlier call", self.rank, self.skip);
                Err(Failure::new(Status::Malformed, detail).into())
            }
            (JoinAction::Wait, version) => {
                if now.saturating_sub(self.begun) >= self.wait.max(TURN_WAIT_MIN) {
                    let detail = format!("an earlier call of task {} has not ended", self.rank);
                    return Err(Failure::new(Status::TryAgain, detail).into());
                }
                self.waiting =
                    Some(Waiting { on: Some(collective), version, moves: 0, since: now });
                Err(SliceEnd::Waits)
            }
        }
    }

    /// Whether the call may join. A refused call changes nothing for the tasks.
    fn check(&self, collective: &Arc<Collective>, now: Duration) -> Result<(), Failure> {
        let session = collective.sessions.get(self.rank).filter(|_| self.kind == collective.kind);
        if session != Some(&self.capability.session)
            || self.capability.file != collective.capability.file
        {
            let detail =
                format!("the collective request has no task {} of this session", self.rank);
            return Err(Failure::new(Status::BadCapability, detail));
        }
        if self.capability.has_same_file_and_layout(&collective.capability) {
            return Ok(());
        }
        let detail =
            format!("task {} and the leader task have different size generations", self.rank);
        let failure = Failure::new(Status::StaleGeneration, detail);
        self.collectives.fail(collective, &failure, now);
        Err(failure)
    }

    fn record_participation(&self, collective: &Arc<Collective>) {
        let mut memberships = lock(&self.memberships);
        memberships.retain(|membership| !membership.is_over());
        if !memberships.iter().any(|membership| membership.is_of(collective, self.rank)) {
            memberships.push(Participation::new(&self.collectives, collective, self.rank));
        }
    }

    /// The job must wait. `version` and `moves` are from before it looked, so that it misses no
    /// change. Without progress for too long, the collective request fails.
    pub(super) fn waits(&mut self, (version, moves): (u64, u64), now: Duration) -> SliceEnd {
        let Some(collective) = self.joined.as_ref().map(|entered| entered.collective.clone())
        else {
            return SliceEnd::Waits;
        };
        let since = match &self.waiting {
            Some(waiting) if waiting.moves == moves => waiting.since,
            _ => now,
        };
        if now.saturating_sub(since) >= self.wait {
            return SliceEnd::Failed(collective.progress().stalled(self.wait.as_millis() as u32));
        }
        self.waiting = Some(Waiting { on: Some(collective), version, moves, since });
        SliceEnd::Waits
    }

    /// The task's chunk. The job makes it if no other task does.
    pub(super) fn chunk<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
    ) -> Result<ChunkPosition, SliceEnd> {
        loop {
            let Some(entered) = self.joined.as_mut().filter(|entered| entered.cursor.is_some())
            else {
                return Ok(ChunkPosition::Nothing);
            };
            if let Some(chunk) = &entered.chunk {
                return Ok(ChunkPosition::Chunk(chunk.clone()));
            }
            if entered.making.is_some() {
                if self.make(core, now)? {
                    continue;
                }
                return Ok(ChunkPosition::Making);
            }
            let (want, seen) = entered.collective.advance(now, |progress| {
                (progress.next_action(self.rank), (progress.version(), progress.moves()))
            });
            match want {
                NextAction::Chunk(chunk) => entered.chunk = Some(chunk),
                NextAction::Make(union, memory) => {
                    entered.making = Some((union, ChunkPlan::default(), memory))
                }
                NextAction::Wait => return Err(self.waits(seen, now)),
                NextAction::Nothing => return Ok(ChunkPosition::Nothing),
                NextAction::Failed(failure) => return Err(failure.into()),
            }
        }
    }

    /// One slice of making a chunk. Returns whether the chunk is made.
    fn make<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration) -> Result<bool, Failure> {
        let Some(Joined { collective, making, .. }) = &mut self.joined else { return Ok(true) };
        let Some((union, plan, _)) = making else { return Ok(true) };
        let planned =
            plan.more(union, &collective.capability, collective.chunk_bytes, COLLECTIVE_HOLE_BYTES);
        if planned == PlanResult::Paused {
            return Ok(false);
        }
        let Some((union, plan, mut memory)) = making.take() else { return Ok(true) };
        let chunk = if planned == PlanResult::Whole {
            fit(&mut memory, plan.bytes as usize);
            collective.fill(core, &plan, &mut memory)?;
            Some(Chunk::new(plan, memory))
        } else {
            None
        };
        collective.advance(now, |progress| progress.made(union, chunk));
        Ok(true)
    }

    /// Ends the collective request with this failure, unless it has one. Returns the one that it
    /// has.
    pub(super) fn failed(&mut self, failure: &Failure, now: Duration) -> Failure {
        let Some(Joined { collective, is_in_order, .. }) = self.joined.take() else {
            return failure.clone();
        };
        // Another call of the task may run: a call without bytes to transfer has offered nothing.
        if is_in_order {
            collective.progress().withdraw(self.rank);
        }
        self.collectives.fail(&collective, failure, now);
        let found = collective.progress().failure().cloned();
        found.unwrap_or_else(|| failure.clone())
    }

    /// The same, as a reply.
    pub(super) fn fail<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        failure: &Failure,
        now: Duration,
    ) -> Answer {
        let failure = self.failed(failure, now);
        tracing::debug!(%failure, rank = self.rank, "a task's call in a collective request failed");
        core.counters().answered(failure.status);
        Answer::failure(&failure)
    }

    /// The call succeeds.
    pub(super) fn leave<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration) {
        let Some(Joined { collective, cursor, is_in_order, .. }) = self.joined.take() else {
            return;
        };
        let had = self.had;
        if is_in_order {
            collective.advance(now, |progress| progress.end(self.rank, cursor, had));
        }
        self.collectives.release_if_over(&collective);
        core.counters().answered(Status::Ok);
    }
}

/// How long, at least, a call waits for an earlier call of its task.
const TURN_WAIT_MIN: Duration = Duration::from_millis(COLLECTIVE_WAIT_MS_MAX as u64);

impl Drop for JoinJob {
    /// Cancelled, or its connection ended.
    fn drop(&mut self) {
        let failure = Failure::new(
            Status::Cancelled,
            format!("task {} left the collective request", self.rank),
        );
        let touched = self.joined.as_ref().map(|entered| entered.collective.touched());
        self.failed(&failure, touched.unwrap_or_default());
    }
}

/// Makes the memory long enough for the chunk, which overwrites the old contents.
fn fit(memory: &mut Vec<u8>, bytes: usize) {
    if memory.len() < bytes {
        memory.resize(bytes, 0);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(braid_types::poisoned)
}
