//! Collective reads: a chunk is read once, and each task's pieces are sent from its memory.

use std::{
    io::IoSlice,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_store::ObjectStore;
use braid_types::{
    ByteCount, Failure, ObjectOffset, Status,
    limits::{JOB_SLICE_ACCESSES_MAX, REPLY_DATA_BYTES_MAX},
};
use braid_wire::message::iod::ReadReply;

use super::{
    Collective,
    chunk::{Chunk, ChunkExtent, ChunkPlan},
    create::VIEW_SEARCH_SLICES_MAX,
    cursor::NextPiece,
    join::{ChunkPosition, JoinJob, JoinStep, SliceEnd},
};
use crate::{
    frame_sink::{Answer, FrameSink, SinkError},
    iod_core::IodCore,
    payload::truncated_while_read,
};

/// Why a frame is sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SendReason {
    /// It is full.
    Full,
    /// The next byte is in a later chunk.
    Past,
    /// The call has all bytes that it asked for.
    Done,
    /// The task has no more bytes.
    Over,
    /// The slice is used up: nothing is sent.
    Paused,
}

impl JoinJob {
    /// One slice of a read: sends at most one data frame, or the final one.
    ///
    /// # Errors
    /// [`SinkError::Closed`] when the connection is closed.
    pub fn step<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
        sink: &mut dyn FrameSink,
    ) -> Result<JoinStep, SinkError> {
        match self.read_slice(core, now, sink) {
            Ok(step) => Ok(step),
            Err(SliceEnd::Waits) => Ok(JoinStep::Waits),
            Err(SliceEnd::Closed) => Err(SinkError::Closed),
            // This call is answered already: the other tasks get the failure.
            Err(SliceEnd::Failed(failure)) if self.answered => {
                self.failed(&failure, now);
                Ok(JoinStep::Finished)
            }
            Err(SliceEnd::Failed(failure)) => {
                let answer = self.fail(core, &failure, now);
                sink.finish_from_memory(&answer.body, &[])?;
                Ok(JoinStep::Finished)
            }
        }
    }

    /// The connection has ended. If the `Collect` has arrived, this joins, so that dropping the job
    /// fails the request and the other tasks need not wait.
    pub fn connection_closed<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration) {
        let _ = self.join(core, now); // a job that may not join fails nothing
    }

    fn read_slice<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
        sink: &mut dyn FrameSink,
    ) -> Result<JoinStep, SliceEnd> {
        if self.answered {
            return self.end_read(core, now);
        }
        self.join(core, now)?;
        let chunk = match self.chunk(core, now)? {
            ChunkPosition::Chunk(chunk) => chunk,
            ChunkPosition::Making => {
                self.search.count_empty_slice()?;
                return Ok(JoinStep::Again);
            }
            ChunkPosition::Nothing => return self.answer_read(core, now, None, sink),
        };
        match self.plan_frame(&chunk) {
            SendReason::Paused => Ok(self.searched()?),
            SendReason::Done | SendReason::Over => self.answer_read(core, now, Some(&chunk), sink),
            because => {
                self.send_frame(core, &chunk, sink)?;
                if because == SendReason::Past {
                    self.search.reset();
                    drop(chunk);
                    self.pass(now);
                }
                Ok(JoinStep::Again)
            }
        }
    }

    fn plan_frame(&mut self, chunk: &Chunk) -> SendReason {
        let Some(cursor) = self.joined.as_mut().and_then(|entered| entered.cursor.as_mut()) else {
            return SendReason::Over;
        };
        let mut steps = JOB_SLICE_ACCESSES_MAX;
        let mut planned: usize = self.pieces.iter().map(|(_, bytes)| bytes).sum();
        loop {
            let left = self.bytes - self.had - planned as u64;
            let space = left.min((REPLY_DATA_BYTES_MAX - planned) as u64);
            if left == 0 {
                return SendReason::Done;
            }
            if space == 0 || self.pieces.len() >= JOB_SLICE_ACCESSES_MAX {
                return SendReason::Full;
            }
            match cursor.peek(&chunk.plan, &self.capability, space, &mut steps) {
                NextPiece::Piece(at, bytes) => {
                    cursor.take(bytes);
                    self.search.reset();
                    planned += bytes as usize;
                    match self.pieces.last_mut() {
                        Some((last, length)) if *last + *length == at => *length += bytes as usize,
                        _ => self.pieces.push((at, bytes as usize)),
                    }
                }
                NextPiece::Past => return SendReason::Past,
                NextPiece::Over => return SendReason::Over,
                NextPiece::Paused => return SendReason::Paused,
            }
        }
    }

    fn send_frame<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        chunk: &Chunk,
        sink: &mut dyn FrameSink,
    ) -> Result<(), SliceEnd> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        let pieces = self.planned(chunk);
        sink.data_from_memory(&pieces)?;
        self.sent(core);
        Ok(())
    }

    fn planned<'c>(&self, chunk: &'c Chunk) -> Vec<IoSlice<'c>> {
        self.pieces.iter().map(|(at, bytes)| IoSlice::new(&chunk.memory[*at..at + bytes])).collect()
    }

    /// The planned pieces are sent.
    fn sent<S: ObjectStore>(&mut self, core: &IodCore<S>) {
        let bytes: usize = self.pieces.drain(..).map(|(_, bytes)| bytes).sum();
        self.had += bytes as u64;
        core.counters().bytes_read.fetch_add(bytes as u64, Relaxed);
    }

    /// The final frame, with the planned pieces. After it, the task's progress is updated.
    fn answer_read<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
        chunk: Option<&Arc<Chunk>>,
        sink: &mut dyn FrameSink,
    ) -> Result<JoinStep, SliceEnd> {
        let planned: usize = self.pieces.iter().map(|(_, bytes)| bytes).sum();
        let ends =
            self.joined.as_ref().map_or_else(Vec::new, |entered| entered.collective.ends.clone());
        let answer = Answer::from_outcome(Ok(ReadReply {
            bytes: ByteCount(self.had + planned as u64),
            ends,
        }));
        match chunk {
            Some(chunk) => sink.finish_from_memory(&answer.body, &self.planned(chunk))?,
            None => sink.finish_from_memory(&answer.body, &[])?,
        }
        self.sent(core);
        self.answered = true;
        self.search.reset();
        self.end_read(core, now)
    }

    /// After the final frame: finds out for the other tasks whether this one wants more.
    fn end_read<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
    ) -> Result<JoinStep, SliceEnd> {
        core.admission().check(&self.capability, &self.caller, now)?;
        let mut over = true;
        if let Some(cursor) = self.joined.as_mut().and_then(|entered| entered.cursor.as_mut()) {
            match cursor.is_over(&mut JOB_SLICE_ACCESSES_MAX.clone()) {
                None => return Ok(self.searched()?),
                Some(is_over) => over = is_over,
            }
        }
        if let Some(entered) = &mut self.joined {
            entered.chunk = None;
            if over && entered.cursor.is_some() {
                entered.collective.advance(now, |progress| progress.finish(self.rank));
            }
        }
        self.leave(core, now);
        Ok(JoinStep::Finished)
    }

    /// The slice was spent on searching.
    fn searched(&mut self) -> Result<JoinStep, Failure> {
        self.search.count_empty_slice_up_to(VIEW_SEARCH_SLICES_MAX).map(|()| JoinStep::Again)
    }

    /// The task has its bytes of the chunk.
    fn pass(&mut self, now: Duration) {
        let Some(entered) = &mut self.joined else { return };
        entered.chunk = None;
        entered.collective.advance(now, |progress| progress.pass(self.rank));
    }
}

impl Collective {
    /// Reads a planned chunk: one call for each extent, zeros where an object has no bytes.
    pub(super) fn fill<S: ObjectStore>(
        &self,
        core: &IodCore<S>,
        plan: &ChunkPlan,
        memory: &mut [u8],
    ) -> Result<(), Failure> {
        let objects = self.objects().clone();
        if objects.is_empty() {
            return Err(self.closed());
        }
        for ChunkExtent { slot, offset, bytes, at } in &plan.extents {
            let into = &mut memory[*at..at + *bytes as usize];
            let object_end = self.ends[usize::from(*slot)].bytes.0;
            let there = object_end.saturating_sub(*offset).min(*bytes) as usize;
            let (data, hole) = into.split_at_mut(there);
            hole.fill(0);
            let Some(object) = objects[usize::from(*slot)].as_ref().filter(|_| there > 0) else {
                continue;
            };
            let read = core.logged(object.read_at(data, ObjectOffset(*offset)))?;
            core.counters().collective_store_calls.fetch_add(1, Relaxed);
            core.counters().collective_store_bytes.fetch_add(read as u64, Relaxed);
            if read < there {
                return Err(truncated_while_read());
            }
        }
        for object in objects.iter().flatten() {
            if core.logged(object.stat())?.size_generation > self.capability.size_generation {
                let detail = "the file was truncated while a collective request read it";
                return Err(Failure::new(Status::StaleGeneration, detail));
            }
        }
        Ok(())
    }
}
