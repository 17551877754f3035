//! Collective writes: a task's thread offers its payload, and receives for all tasks when no other
//! thread does.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_store::ObjectStore;
use braid_types::{ByteCount, Failure};
use braid_wire::message::iod::WriteReply;

use super::{
    Collective,
    join::{JoinJob, JoinStep, SliceEnd},
    payload_exchange::{OfferState, OfferedPayload},
    source::PayloadSource,
    writer::{SliceResult, Writer, mismatch},
};
use crate::{frame_sink::Answer, iod_core::IodCore};

/// The state of a call that writes.
#[derive(Debug, Default)]
pub(super) struct WriteState {
    /// Whether it has offered its payload.
    has_offered: bool,
    /// The writer, while this thread receives for all tasks.
    writer: Option<Box<Writer>>,
    /// Why it fails, once it has its payload back.
    refused: Option<Failure>,
}

impl JoinJob {
    /// One slice of a write with the payload `source`. Returns the reply, or what to do before it.
    /// Until the reply the source is offered to other threads: do not use it. After a failure, drop
    /// the rest of the payload.
    ///
    /// # Errors
    /// [`JoinStep::Again`] or [`JoinStep::Waits`].
    pub fn write<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
        source: &Arc<dyn PayloadSource>,
    ) -> Result<Answer, JoinStep> {
        if self.writing.refused.is_none() {
            match self.write_slice(core, now, source) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) | Err(SliceEnd::Closed) => return Err(JoinStep::Again),
                Err(SliceEnd::Waits) => return Err(JoinStep::Waits),
                Err(SliceEnd::Failed(failure)) => self.refuse(failure, now),
            }
        }
        self.end_refused(core, now)
    }

    fn write_slice<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
        source: &Arc<dyn PayloadSource>,
    ) -> Result<Option<Answer>, SliceEnd> {
        self.join(core, now)?;
        let Some(collective) = self.collective() else { return Ok(None) };
        if !self.is_in_order() {
            return Err(mismatch(self.rank, source.left()).into());
        }
        if self.bytes == 0 {
            return Ok(Some(self.written(core, &collective, now)));
        }
        if !std::mem::replace(&mut self.writing.has_offered, true) {
            let offer = OfferedPayload::new(source.clone(), &self.capability, &self.caller);
            collective.advance(now, |progress| progress.offer(self.rank, offer));
        }
        // Before it looks for the writer: a thread that parks the writer after this wakes this
        // thread.
        let seen = collective.seen();
        let slice = if self.is_written(&collective) {
            None
        } else {
            self.receive_for_all(core, &collective, now)?
        };
        let offered = collective.progress().offer_state(self.rank)?;
        match (offered, slice) {
            // When the writer needs this task's next call, this thread must return for it.
            (OfferState::Received(had), None) => {
                self.had = had;
                Ok(Some(self.written(core, &collective, now)))
            }
            (OfferState::Received(had), Some(_))
                if collective.progress().is_finished(self.rank) =>
            {
                self.had = had;
                Ok(Some(self.written(core, &collective, now)))
            }
            (_, Some(SliceResult::Idle)) => match self.waits(seen, now) {
                SliceEnd::Waits => Ok(None),
                stop => Err(stop),
            },
            (_, Some(_)) => Ok(None),
            (_, None) => Err(self.waits(seen, now)),
        }
    }

    /// Whether all bytes of the task are written and its thread does not have the writer: only the
    /// reply is missing.
    fn is_written(&self, collective: &Collective) -> bool {
        if self.writing.writer.is_some() {
            return false;
        }
        let progress = collective.progress();
        progress.is_finished(self.rank)
            && matches!(progress.offer_state(self.rank), Ok(OfferState::Received(_)))
    }

    /// Takes the writer if it is free, and does one slice of its work. `None`: this thread has
    /// nothing to do.
    fn receive_for_all<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        collective: &Collective,
        now: Duration,
    ) -> Result<Option<SliceResult>, Failure> {
        let taken = self
            .writing
            .writer
            .take()
            .or_else(|| collective.advance(now, |progress| progress.take_writer()));
        let Some(mut writer) = taken else { return Ok(None) };
        let slice = writer.slice(core, collective, now)?;
        match slice {
            SliceResult::Again | SliceResult::Idle => {
                self.writing.writer = Some(writer);
                Ok(Some(slice))
            }
            SliceResult::MissingPayload => {
                collective.advance(now, |progress| progress.park_writer(writer));
                Ok(None)
            }
            SliceResult::Over => Ok(None),
        }
    }

    /// The reply. The payload is received; if it was the task's last, it is written.
    fn written<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        collective: &Collective,
        now: Duration,
    ) -> Answer {
        collective.advance(now, |progress| {
            progress.withdraw(self.rank);
            if let Some(writer) = self.writing.writer.take() {
                progress.park_writer(writer);
            }
        });
        self.leave(core, now);
        core.counters().bytes_written.fetch_add(self.had, Relaxed);
        Answer::from_outcome(Ok(WriteReply {
            bytes: ByteCount(self.had),
            verifier: collective.verifier,
        }))
    }

    pub(super) fn refuse(&mut self, failure: Failure, now: Duration) {
        self.writing.writer = None;
        let found = self.collective().and_then(|collective| {
            self.collectives.fail(&collective, &failure, now);
            collective.progress().failure().cloned()
        });
        self.writing.refused = Some(found.unwrap_or(failure));
    }

    /// Ends with a failure, once the thread has its payload back.
    fn end_refused<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
    ) -> Result<Answer, JoinStep> {
        if let Some(collective) = self.collective().filter(|_| self.writing.has_offered) {
            let (is_back, seen) = collective.advance(now, |progress| {
                (progress.reclaim_offer(self.rank), (progress.version(), progress.moves()))
            });
            if !is_back {
                let _ = self.waits(seen, now); // the writer returns it soon
                return Err(JoinStep::Waits);
            }
        }
        let failure =
            self.writing.refused.take().unwrap_or_else(|| braid_types::Status::Internal.into());
        Ok(self.fail(core, &failure, now))
    }
}
