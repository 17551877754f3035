//! Who of a collective request is where, and which chunks there are: the state machine, without threads.
//!
//! ```text
//!   ring:   | ready | ready | making |        numbers base, base + 1, base + 2
//!   tasks:     ^ 2     ^ 0     ^ 1, 3         each stands at one chunk; base is where the last one stands, or what has not landed
//! ```

use std::{collections::VecDeque, sync::Arc};

use braid_layout::Sweep;
use braid_types::{Failure, Status, limits::COLLECTIVE_RING};

use super::{chunk::Chunk, cursor::Cursor};

#[derive(Debug)]
pub(super) struct Progress {
    tasks: Vec<Standing>,
    ring: VecDeque<Slot>,
    /// Number of the first chunk in the ring.
    base: u64,
    /// `None` while a chunk is being made.
    sweep: Option<Box<Sweep>>,
    /// Nothing is left for another chunk.
    is_swept: bool,
    failed: Option<Failure>,
    unfinished: usize,
    writes: bool,
    /// Memory of chunks that are gone.
    spare: Vec<Vec<u8>>,
    version: u64,
    moves: u64,
}

/// One task.
#[derive(Debug, Default)]
struct Standing {
    /// The chunk that it has not passed.
    chunk: u64,
    /// Just past the last chunk that has bytes of it.
    put_until: u64,
    /// It wants nothing more.
    finished: bool,
    /// Payload bytes that it has had.
    position: u64,
    joined: bool,
    /// Where it is in its request; `None` while a call has it.
    cursor: Option<Box<Cursor>>,
}

#[derive(Debug)]
struct Slot {
    stage: Stage,
    /// Tasks that have to pass it.
    left: usize,
}

#[derive(Debug)]
enum Stage {
    Making,
    Ready(Arc<Chunk>),
    Landing,
    Gone,
}

/// What a task that wants its next bytes does.
#[derive(Debug)]
pub(super) enum Want {
    /// Takes them from this chunk, or puts them into it.
    Chunk(Arc<Chunk>),
    /// Makes the chunk; this memory may be used.
    Make(Box<Sweep>, Vec<u8>),
    /// Waits for a change.
    Wait,
    /// There are none.
    Nothing,
    /// Ends.
    Failed(Failure),
}

/// What a task that joins does.
#[derive(Debug)]
pub(super) enum Turn {
    /// Goes on.
    Go(Box<Cursor>),
    /// Waits until its earlier call has ended.
    Wait,
    /// Has had everything that it asks for.
    Nothing,
    /// Is told that this is no continuation of its earlier calls.
    Misplaced,
    /// Ends.
    Failed(Failure),
}

/// A chunk that everybody has passed, and its number.
pub(super) type Full = (u64, Arc<Chunk>);

impl Progress {
    /// `cursors` of the tasks, by rank; `None` for a task that has no bytes here.
    pub(super) fn new(sweep: Sweep, cursors: Vec<Option<Box<Cursor>>>, writes: bool) -> Self {
        let standing = |cursor: Option<_>| Standing { finished: cursor.is_none(), cursor, ..Standing::default() };
        let tasks: Vec<Standing> = cursors.into_iter().map(standing).collect();
        Self {
            unfinished: tasks.iter().filter(|task| !task.finished).count(),
            tasks,
            ring: VecDeque::with_capacity(COLLECTIVE_RING),
            base: 0,
            sweep: Some(Box::new(sweep)),
            is_swept: false,
            failed: None,
            writes,
            spare: Vec::new(),
            version: 0,
            moves: 0,
        }
    }

    /// Changes with everything that somebody may wait for: only then they are woken.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Changes whenever a task gets on.
    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    /// Something has happened that somebody may wait for.
    fn wake(&mut self) {
        self.version += 1;
        self.moves += 1;
    }

    /// Nobody wants anything any more, and everything has landed.
    pub(super) fn is_over(&self) -> bool {
        self.unfinished == 0 && self.ring.is_empty()
    }

    /// Gives up what a collective request that is over needs no more.
    pub(super) fn release(&mut self) {
        (self.sweep, self.spare) = (None, Vec::new());
        self.tasks.iter_mut().for_each(|task| task.cursor = None);
    }

    pub(super) fn is_finished(&self, rank: usize) -> bool {
        self.tasks[rank].finished
    }

    /// A call of the task that continues at payload byte `skip`.
    pub(super) fn begin(&mut self, rank: usize, skip: u64) -> Turn {
        if let Some(failure) = &self.failed {
            return Turn::Failed(failure.clone());
        }
        let task = &mut self.tasks[rank];
        if task.finished {
            return Turn::Nothing;
        }
        if task.position > skip {
            return Turn::Misplaced;
        }
        // An earlier call of the same connection may be under way, or in line before this one.
        let Some(cursor) = task.cursor.take_if(|_| task.position == skip) else { return Turn::Wait };
        if !std::mem::replace(&mut task.joined, true) {
            self.wake();
        }
        Turn::Go(cursor)
    }

    /// The call has ended well; `bytes` is what it had.
    pub(super) fn end(&mut self, rank: usize, cursor: Option<Box<Cursor>>, bytes: u64) {
        let task = &mut self.tasks[rank];
        task.cursor = cursor.filter(|_| !task.finished);
        task.position += bytes;
        self.wake();
    }

    /// What the task does to get on.
    pub(super) fn want(&mut self, rank: usize) -> Want {
        if let Some(failure) = &self.failed {
            return Want::Failed(failure.clone());
        }
        let number = self.tasks[rank].chunk;
        let at = (number - self.base) as usize;
        match self.ring.get(at).map(|slot| &slot.stage) {
            Some(Stage::Ready(chunk)) => {
                let chunk = chunk.clone();
                if self.writes && chunk.plan.overlaps && self.is_behind(rank, number) {
                    Want::Wait
                } else {
                    Want::Chunk(chunk)
                }
            }
            Some(_) => Want::Wait,
            None if self.is_swept => Want::Nothing,
            None if self.ring.len() >= COLLECTIVE_RING => Want::Wait,
            None => match self.sweep.take() {
                None => Want::Wait,
                Some(sweep) => {
                    self.ring.push_back(Slot { stage: Stage::Making, left: self.unfinished });
                    Want::Make(sweep, self.spare.pop().unwrap_or_default())
                }
            },
        }
    }

    /// Whether tasks of higher rank wait at the chunk for those of lower rank.
    fn is_ordered(&self, number: u64) -> bool {
        let stage = self.ring.get((number - self.base) as usize).map(|slot| &slot.stage);
        self.writes && matches!(stage, Some(Stage::Ready(chunk)) if chunk.plan.overlaps)
    }

    /// Whether a task of lower rank has not passed the chunk.
    fn is_behind(&self, rank: usize, number: u64) -> bool {
        self.tasks[..rank].iter().any(|task| !task.finished && task.chunk <= number)
    }

    /// A chunk was made; `None`: there was nothing left for one.
    pub(super) fn made(&mut self, sweep: Box<Sweep>, chunk: Option<Arc<Chunk>>) {
        if self.failed.is_some() {
            return;
        }
        self.wake();
        self.sweep = Some(sweep);
        match (chunk, self.ring.back_mut()) {
            (Some(chunk), Some(slot)) => slot.stage = Stage::Ready(chunk),
            _ => {
                self.is_swept = true;
                self.ring.pop_back();
            }
        }
    }

    /// The task has bytes in its chunk.
    pub(super) fn put(&mut self, rank: usize) {
        let task = &mut self.tasks[rank];
        task.put_until = task.put_until.max(task.chunk + 1);
    }

    /// The task has passed its chunk; if that makes it full, whoever passes it writes it.
    pub(super) fn pass(&mut self, rank: usize) -> Option<Full> {
        if self.failed.is_some() {
            return None;
        }
        let number = self.tasks[rank].chunk;
        self.tasks[rank].chunk += 1;
        self.moves += 1;
        if self.is_ordered(number) {
            self.version += 1;
        }
        let full = self.passed_by_one(number);
        self.drop_gone();
        full
    }

    /// The task wants nothing more: it need not pass the chunks that follow. Those that this makes full are to be written.
    pub(super) fn finish(&mut self, rank: usize) -> Vec<Full> {
        if self.failed.is_some() || std::mem::replace(&mut self.tasks[rank].finished, true) {
            return Vec::new();
        }
        self.unfinished -= 1;
        self.wake();
        let end = self.base + self.ring.len() as u64;
        let full = (self.tasks[rank].chunk..end).filter_map(|number| self.passed_by_one(number)).collect();
        self.drop_gone();
        full
    }

    fn passed_by_one(&mut self, number: u64) -> Option<Full> {
        let slot = self.ring.get_mut((number - self.base) as usize)?;
        slot.left = slot.left.saturating_sub(1);
        if slot.left > 0 || !matches!(slot.stage, Stage::Ready(_)) {
            return None;
        }
        let after = if self.writes { Stage::Landing } else { Stage::Gone };
        let Stage::Ready(chunk) = std::mem::replace(&mut slot.stage, after) else { return None };
        if self.writes {
            return Some((number, chunk));
        }
        self.spare.extend(chunk.into_memory());
        None
    }

    /// The chunk is in the objects.
    pub(super) fn landed(&mut self, number: u64, memory: Option<Vec<u8>>) {
        if self.failed.is_some() {
            return;
        }
        if let Some(slot) = self.ring.get_mut((number - self.base) as usize) {
            slot.stage = Stage::Gone;
        }
        self.spare.extend(memory);
        self.wake();
        self.drop_gone();
    }

    /// Whether every chunk with bytes of the task is in the objects.
    ///
    /// # Errors
    /// The failure.
    pub(super) fn has_landed(&self, rank: usize) -> Result<bool, Failure> {
        match &self.failed {
            Some(failure) => Err(failure.clone()),
            None => Ok(self.base >= self.tasks[rank].put_until),
        }
    }

    fn drop_gone(&mut self) {
        while self.ring.front().is_some_and(|slot| matches!(slot.stage, Stage::Gone)) {
            self.ring.pop_front();
            self.base += 1;
            self.wake();
        }
    }

    /// It fails for everybody, if it has not failed before and is not over.
    pub(super) fn fail(&mut self, failure: Failure) {
        if self.failed.is_some() || self.is_over() {
            return;
        }
        self.failed = Some(failure);
        self.wake();
        self.ring.clear();
        self.spare.clear();
        self.sweep = None;
    }

    pub(super) fn failure(&self) -> Option<&Failure> {
        self.failed.as_ref()
    }

    /// The failure that says whom the others wait for in vain.
    pub(super) fn stalled(&self, waited_ms: u32) -> Failure {
        let waiting = |task: &&(usize, &Standing)| !task.1.finished;
        let mut tasks = self.tasks.iter().enumerate();
        let missing = tasks.clone().find(|task| waiting(&task) && !task.1.joined);
        let slowest = tasks.by_ref().filter(|task| waiting(&task)).min_by_key(|(_, task)| task.chunk);
        let detail = match (missing, slowest) {
            (Some((rank, _)), _) => format!("task {rank} did not join the collective request within {waited_ms} ms"),
            (None, Some((rank, _))) => {
                format!("task {rank} of the collective request did not go on for {waited_ms} ms")
            }
            (None, None) => format!("nothing moved in the collective request for {waited_ms} ms"),
        };
        Failure::new(Status::TryAgain, detail)
    }
}
