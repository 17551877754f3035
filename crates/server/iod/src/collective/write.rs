//! Writing: tasks put their payload into the chunk, and whoever passes it last writes it to the objects.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_store::{Object, ObjectStore};
use braid_types::{ByteCount, Failure, ObjectOffset, Status, limits::JOB_SLICE_ACCESSES_MAX};
use braid_wire::message::iod::WriteReply;

use super::{
    Collective,
    chunk::{Chunk, Extent},
    cursor::Next,
    join::{At, JoinJob, Step, Stop},
    progress::Full,
};
use crate::{iod_core::IodCore, ops::is_there, room::Cost, sink::Answer};

impl JoinJob {
    /// One slice of a write: takes the next bytes of the payload; how many, and what to do then. After a failure the rest is
    /// taken and dropped, so that the connection lives on.
    pub fn push<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration, data: &[u8]) -> (usize, Step) {
        if self.refused.is_some() {
            return (data.len(), Step::Again);
        }
        let before = self.had;
        let outcome = self.write_slice(core, now, data);
        let taken = (self.had - before) as usize;
        match outcome {
            Ok(()) => (taken, Step::Again),
            Err(Stop::Waits) => (taken, Step::Waits),
            Err(Stop::Failed(failure)) => {
                self.refused = Some(self.failed(&failure, now));
                (data.len(), Step::Again)
            }
            Err(Stop::Closed) => (data.len(), Step::Again),
        }
    }

    /// After the whole payload: the answer, or what to do before it is there.
    ///
    /// # Errors
    /// [`Step::Again`] or [`Step::Waits`].
    pub fn finish<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration) -> Result<Answer, Step> {
        if let Some(failure) = self.refused.take() {
            return Ok(self.fail(core, &failure, now));
        }
        match self.settle(core, now) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(Step::Again),
            Err(Stop::Waits) => Err(Step::Waits),
            Err(Stop::Failed(failure)) => Ok(self.fail(core, &failure, now)),
            Err(Stop::Closed) => Err(Step::Again),
        }
    }

    fn write_slice<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration, mut data: &[u8]) -> Result<(), Stop> {
        self.enter(core, now)?;
        let chunk = match self.chunk(core, now)? {
            At::Chunk(chunk) => chunk,
            At::Making => return Ok(()),
            At::Nothing => return Err(self.mismatch().into()),
        };
        let (grant, caller, rank) = (&self.grant, &self.caller, self.rank);
        let mut steps = JOB_SLICE_ACCESSES_MAX;
        let mut memory = None;
        let next = loop {
            let Some(entered) = &mut self.entered else { break Next::Over };
            let Some(cursor) = &mut entered.cursor else { break Next::Over };
            match cursor.peek(&chunk, grant, (data.len() as u64).max(1), &mut steps) {
                Next::Piece(at, bytes) if !data.is_empty() => {
                    let memory = memory.get_or_insert_with(|| {
                        chunk.written_by(grant, caller);
                        entered.collective.advance(now, |progress| progress.put(rank));
                        chunk.memory.write().unwrap_or_else(PoisonError::into_inner)
                    });
                    let (these, later) = data.split_at(bytes as usize);
                    memory[at..at + these.len()].copy_from_slice(these);
                    cursor.take(bytes);
                    self.had += bytes;
                    data = later;
                }
                next => break next,
            }
        };
        drop(memory);
        match next {
            Next::Past => Ok(self.pass_written(core, chunk, now)?),
            Next::Over if !data.is_empty() => Err(self.mismatch().into()),
            _ => Ok(()),
        }
    }

    /// The task has put its bytes into the chunk; when all have, it is written.
    fn pass_written<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        chunk: Arc<Chunk>,
        now: Duration,
    ) -> Result<(), Failure> {
        drop(chunk);
        let Some(entered) = &mut self.entered else { return Ok(()) };
        entered.chunk = None;
        let collective = entered.collective.clone();
        let full = collective.advance(now, |progress| progress.pass(self.rank));
        full.into_iter().try_for_each(|full| collective.land(core, full, now))
    }

    /// Whether the call may be answered: its bytes are taken; when they are the task's last, written.
    fn settle<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration) -> Result<Option<Answer>, Stop> {
        self.enter(core, now)?;
        let Some(entered) = &mut self.entered else { return Err(Failure::from(Status::Internal).into()) };
        let collective = entered.collective.clone();
        let Some(cursor) = &mut entered.cursor else { return Err(self.mismatch().into()) };
        let Some(is_over) = cursor.is_over(&mut JOB_SLICE_ACCESSES_MAX.clone()) else { return Ok(None) };
        if is_over {
            entered.chunk = None;
            let full = collective.advance(now, |progress| progress.finish(self.rank));
            for full in full {
                collective.land(core, full, now)?;
            }
            let (landed, seen) = {
                let progress = collective.progress();
                (progress.has_landed(self.rank)?, (progress.version(), progress.moves()))
            };
            if !landed {
                return Err(self.waits(seen, now));
            }
        }
        self.leave(core, now);
        core.counters().bytes_written.fetch_add(self.had, Relaxed);
        let reply = WriteReply { bytes: ByteCount(self.had), verifier: collective.verifier };
        Ok(Some(Answer::from_outcome(Ok(reply))))
    }

    fn mismatch(&self) -> Failure {
        let detail = format!("a payload of {} bytes is not what task {} wants written here", self.bytes, self.rank);
        Failure::new(Status::Malformed, detail)
    }
}

impl Collective {
    /// Writes a chunk that all tasks have filled, under the passes of all who have put bytes into it.
    fn land<S: ObjectStore>(&self, core: &IodCore<S>, (number, chunk): Full, now: Duration) -> Result<(), Failure> {
        let writers = chunk.writers();
        let landed = core.pass_together(&writers, now).and_then(|_pass| self.put_in_place(core, &chunk, now));
        match landed {
            Ok(()) => self.advance(now, |progress| progress.landed(number, chunk.into_memory())),
            Err(failure) => {
                self.fail(&failure, now);
                return Err(failure);
            }
        }
        Ok(())
    }

    fn put_in_place<S: ObjectStore>(&self, core: &IodCore<S>, chunk: &Chunk, now: Duration) -> Result<(), Failure> {
        let memory = chunk.memory.read().unwrap_or_else(PoisonError::into_inner);
        for Extent { slot, offset, bytes, at } in &chunk.plan.extents {
            let (object, first) = self.object(core, usize::from(*slot))?;
            let in_place = || is_there(&*object, *offset, *bytes);
            let cost = Cost::of(*offset, *bytes, first);
            let _charge = core.room().begin(cost, false, now, || core.measured(), in_place)?;
            let data = &memory[*at..at + *bytes as usize];
            core.warned(object.write_at(data, ObjectOffset(*offset), self.grant.size_generation))?;
            core.counters().collective_store_calls.fetch_add(1, Relaxed);
            core.counters().collective_store_bytes.fetch_add(*bytes, Relaxed);
        }
        Ok(())
    }

    /// The object of a slot, opened or made when it is the first time; whether it is.
    fn object<S: ObjectStore>(&self, core: &IodCore<S>, slot: usize) -> Result<(Arc<dyn Object>, bool), Failure> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = &objects[slot] {
            return Ok((object.clone(), false));
        }
        let object = core.open_or_create(&self.grant, &self.grant.places[slot])?;
        Ok((objects[slot].insert(object).clone(), true))
    }
}
