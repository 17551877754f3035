//! The state of a collective request without threads: the position of each task and, of a read, the
//! chunks. `payload_exchange.rs` has what only a write needs.
//!
//! ```text
//!   ring:   | ready | ready | making |        numbers base, base + 1, base + 2
//!   tasks:     ^ 2     ^ 0     ^ 1, 3         each is at one chunk; the last one is at base
//! ```

use std::{collections::VecDeque, sync::Arc};

use braid_layout::RequestUnion;
use braid_types::{Failure, Status, limits::COLLECTIVE_RING};

use super::{chunk::Chunk, cursor::Cursor, payload_exchange::PayloadExchange, writer::Writer};

#[derive(Debug)]
pub(super) struct CollectiveProgress {
    pub(super) tasks: Vec<TaskState>,
    ring: VecDeque<RingChunk>,
    /// Number of the first chunk in the ring.
    base: u64,
    /// `None` while a chunk is being made.
    union: Option<Box<RequestUnion>>,
    /// No bytes are left for another chunk.
    is_exhausted: bool,
    pub(super) failed: Option<Failure>,
    pub(super) unfinished: usize,
    /// Of a write.
    pub(super) exchange: PayloadExchange,
    /// Memory of released chunks.
    spare: Vec<Vec<u8>>,
    pub(super) version: u64,
    pub(super) moves: u64,
}

/// One task.
#[derive(Debug, Default)]
pub(super) struct TaskState {
    /// Of a read: the first chunk that it has not passed.
    chunk: u64,
    /// It wants no more bytes.
    pub(super) finished: bool,
    /// Payload bytes of its ended calls.
    position: u64,
    joined: bool,
    /// A call of it runs.
    pub(super) busy: bool,
    /// Of a read: its position in its request; `None` while a call has it.
    cursor: Option<Box<Cursor>>,
}

#[derive(Debug)]
struct RingChunk {
    stage: ChunkStage,
    /// Tasks that have not passed it.
    left: usize,
}

#[derive(Debug)]
enum ChunkStage {
    Making,
    Ready(Arc<Chunk>),
    Gone,
}

/// How a task gets its next bytes.
#[derive(Debug)]
pub(super) enum NextAction {
    /// It takes them from this chunk.
    Chunk(Arc<Chunk>),
    /// It makes the chunk, and may use this memory.
    Make(Box<RequestUnion>, Vec<u8>),
    /// It waits for a change.
    Wait,
    /// There are none.
    Nothing,
    /// It ends with this failure.
    Failed(Failure),
}

/// What a joining call does.
#[derive(Debug)]
pub(super) enum JoinAction {
    /// It continues, a read from here.
    Go(Option<Box<Cursor>>),
    /// It waits until the task's earlier call has ended.
    Wait,
    /// Nothing: the task has all its bytes.
    Nothing,
    /// It fails: it does not continue the task's earlier calls.
    Misplaced,
    /// It ends with this failure.
    Failed(Failure),
}

impl CollectiveProgress {
    /// `cursors` of the tasks, by rank; `None` for a task without bytes here.
    pub(super) fn new(
        union: RequestUnion,
        mut cursors: Vec<Option<Box<Cursor>>>,
        writes: bool,
    ) -> Self {
        let mut tasks: Vec<TaskState> = cursors
            .iter()
            .map(|cursor| TaskState { finished: cursor.is_none(), ..TaskState::default() })
            .collect();
        let unfinished = cursors.iter().flatten().count();
        let (union, exchange) = if writes {
            (None, PayloadExchange::new(Writer::new(union, cursors)))
        } else {
            tasks
                .iter_mut()
                .zip(&mut cursors)
                .for_each(|(task, cursor)| task.cursor = cursor.take());
            (Some(Box::new(union)), PayloadExchange::default())
        };
        Self {
            unfinished,
            tasks,
            ring: VecDeque::with_capacity(COLLECTIVE_RING),
            base: 0,
            union,
            is_exhausted: false,
            failed: None,
            exchange,
            spare: Vec::new(),
            version: 0,
            moves: 0,
        }
    }

    /// Rises with every change for which a thread may wait; only then threads are woken.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Rises when a task makes progress.
    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    /// A change for which a thread may wait.
    pub(super) fn wake(&mut self) {
        self.version += 1;
        self.moves += 1;
    }

    /// All tasks have finished, and everything is written.
    fn is_done(&self) -> bool {
        self.unfinished == 0 && self.ring.is_empty() && !self.exchange.is_filling()
    }

    /// It has finished or failed, and all its calls have ended.
    pub(super) fn is_over(&self) -> bool {
        (self.failed.is_some() || self.is_done()) && !self.tasks.iter().any(|task| task.busy)
    }

    /// Releases what it no longer needs when it is over.
    pub(super) fn release(&mut self) {
        debug_assert!(self.is_over(), "7: the calls have ended");
        (self.union, self.spare, self.exchange) = (None, Vec::new(), PayloadExchange::default());
        self.tasks.iter_mut().for_each(|task| task.cursor = None);
    }

    pub(super) fn is_finished(&self, rank: usize) -> bool {
        self.tasks[rank].finished
    }

    /// A call of the task, which continues at payload byte `skip`.
    pub(super) fn begin(&mut self, rank: usize, skip: u64) -> JoinAction {
        if let Some(failure) = &self.failed {
            return JoinAction::Failed(failure.clone());
        }
        let task = &mut self.tasks[rank];
        if task.finished {
            return JoinAction::Nothing;
        }
        if task.position > skip {
            return JoinAction::Misplaced;
        }
        // An earlier call of the same connection may run, or be queued before this one.
        if task.busy || task.position != skip {
            return JoinAction::Wait;
        }
        task.busy = true;
        let cursor = task.cursor.take();
        if !std::mem::replace(&mut task.joined, true) {
            self.moves += 1;
        }
        JoinAction::Go(cursor)
    }

    /// The call has succeeded with `bytes`.
    pub(super) fn end(&mut self, rank: usize, cursor: Option<Box<Cursor>>, bytes: u64) {
        let task = &mut self.tasks[rank];
        task.cursor = cursor.filter(|_| !task.finished);
        task.position += bytes;
        task.busy = false;
        self.wake();
    }

    /// How the task gets its next bytes.
    pub(super) fn next_action(&mut self, rank: usize) -> NextAction {
        if let Some(failure) = &self.failed {
            return NextAction::Failed(failure.clone());
        }
        let number = self.tasks[rank].chunk;
        debug_assert!(number >= self.base, "1: a chunk is gone that a task has not passed");
        let at = (number - self.base) as usize;
        match self.ring.get(at).map(|slot| &slot.stage) {
            Some(ChunkStage::Ready(chunk)) => NextAction::Chunk(chunk.clone()),
            Some(_) => NextAction::Wait,
            None if self.is_exhausted => NextAction::Nothing,
            None if self.ring.len() >= COLLECTIVE_RING => NextAction::Wait,
            None => match self.union.take() {
                None => NextAction::Wait,
                Some(union) => {
                    self.ring
                        .push_back(RingChunk { stage: ChunkStage::Making, left: self.unfinished });
                    debug_assert!(self.ring.len() <= COLLECTIVE_RING, "2: few chunks in memory");
                    NextAction::Make(union, self.spare.pop().unwrap_or_default())
                }
            },
        }
    }

    /// A chunk is made; `None` when nothing was left for one.
    pub(super) fn made(&mut self, union: Box<RequestUnion>, chunk: Option<Arc<Chunk>>) {
        if self.failed.is_some() {
            return;
        }
        self.wake();
        self.union = Some(union);
        match (chunk, self.ring.back_mut()) {
            (Some(chunk), Some(slot)) => slot.stage = ChunkStage::Ready(chunk),
            _ => {
                self.is_exhausted = true;
                self.ring.pop_back();
            }
        }
    }

    /// The task has its bytes of its chunk.
    pub(super) fn pass(&mut self, rank: usize) {
        if self.failed.is_some() {
            return;
        }
        let number = self.tasks[rank].chunk;
        self.tasks[rank].chunk += 1;
        self.moves += 1;
        self.passed_by_one(number);
        self.drop_gone();
    }

    /// The task wants no more bytes: it need not pass the following chunks.
    pub(super) fn finish(&mut self, rank: usize) {
        if self.failed.is_some() || std::mem::replace(&mut self.tasks[rank].finished, true) {
            return;
        }
        self.unfinished -= 1;
        self.wake();
        let end = self.base + self.ring.len() as u64;
        (self.tasks[rank].chunk..end).for_each(|number| self.passed_by_one(number));
        self.drop_gone();
    }

    fn passed_by_one(&mut self, number: u64) {
        let Some(slot) = self.ring.get_mut((number - self.base) as usize) else { return };
        slot.left = slot.left.saturating_sub(1);
        if slot.left > 0 || !matches!(slot.stage, ChunkStage::Ready(_)) {
            return;
        }
        if let ChunkStage::Ready(chunk) = std::mem::replace(&mut slot.stage, ChunkStage::Gone) {
            self.spare.extend(chunk.into_memory());
        }
    }

    fn drop_gone(&mut self) {
        while self.ring.front().is_some_and(|slot| matches!(slot.stage, ChunkStage::Gone)) {
            self.ring.pop_front();
            self.base += 1;
            self.wake();
        }
    }

    /// Fails it for all tasks, unless it has failed or finished.
    pub(super) fn fail(&mut self, failure: Failure) {
        if self.failed.is_some() || self.is_done() {
            return;
        }
        self.failed = Some(failure);
        self.wake();
        self.ring.clear();
        self.spare.clear();
        self.union = None;
        self.exchange.fail();
    }

    pub(super) fn failure(&self) -> Option<&Failure> {
        self.failed.as_ref()
    }

    /// The failure that names the task for which the others wait without success.
    pub(super) fn stalled(&self, waited_ms: u32) -> Failure {
        let waiting = |task: &&(usize, &TaskState)| !task.1.finished;
        let mut tasks = self.tasks.iter().enumerate();
        let missing = tasks.clone().find(|task| waiting(&task) && !task.1.joined);
        let slowest =
            tasks.by_ref().filter(|task| waiting(&task)).min_by_key(|(_, task)| task.chunk);
        let slowest = self.exchange.awaited_rank().or(slowest.map(|(rank, _)| rank));
        let detail = match (missing, slowest) {
            (Some((rank, _)), _) => {
                format!("task {rank} did not join the collective request within {waited_ms} ms")
            }
            (None, Some(rank)) => {
                format!("task {rank} of the collective request made no progress for {waited_ms} ms")
            }
            (None, None) => format!("the collective request made no progress for {waited_ms} ms"),
        };
        Failure::new(Status::TryAgain, detail)
    }
}
