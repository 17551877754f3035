//! Write: each chunk of the payload is written as it arrives; no window is collected in memory.
//!
//! Invariants:
//! 1. The reply's verifier is from before the first byte was written. If unflushed data is lost in
//!    between, the client sees the change and sends the data again (I6).
//! 2. A slice that writes holds an admission guard: a fence, or the abandonment of a connection, is
//!    acknowledged only when no such slice of it runs (I4).
//! 3. Payload and request have the same length, or the call is malformed. What was written before
//!    that is found stays: the client had the right to write it.
//! 4. A slice is charged as space before it is written. One that does not use the session's
//!    reservation leaves all reserved space alone (ADR 0014).
//! 5. A request that is searched for long without a byte for this daemon is refused, before and
//!    after its payload (I9).
//! 6. After a failure the rest of the payload is received and dropped, so that the connection stays
//!    usable.
//!
//! `finish` asserts 3. `begin` takes the verifier before there is a job that could write (1).
//! `write` and `put` hold the guards of 2 and 4 in variables. 5 is an error that `search` returns,
//! since a client causes it, and `push` takes all bytes after a failure (6).

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_layout::{Access, Request, Unfold, Unfolded};
use braid_store::{Object, ObjectStore};
use braid_types::{
    ByteCount, Failure, ObjectOffset, Status, Timestamp, WriteVerifier,
    limits::{JOB_SLICE_ACCESSES_MAX, REPORTED_OBJECTS_MAX},
};
use braid_wire::{
    Rights,
    message::{
        iod::{Reservation, Write, WriteReply, WriteWithReservationReply},
        types::ObjectInfo,
    },
};

use super::{invalid, search_limit::SearchLimit};
use crate::{
    connection::ConnectionState,
    connections::ConnectionEntry,
    frame_sink::Answer,
    iod_core::IodCore,
    reservation::WriteCost,
    slice_admission::AdmissionGuard,
    verified_capability::{LocalPart, VerifiedCapability},
};

/// A write in progress.
#[derive(Debug)]
pub struct WriteJob {
    capability: Arc<VerifiedCapability>,
    caller: Arc<ConnectionEntry>,
    objects: Vec<Option<Arc<dyn Object>>>,
    /// When objects with bytes were last written before this job, if the job sets their time.
    written_before: Vec<Option<Timestamp>>,
    unfold: Unfold,
    search: SearchLimit,
    /// The rest of the last access that is not written yet.
    rest: Option<Rest>,
    written: u64,
    payload_bytes: u64,
    verifier: WriteVerifier,
    /// Whether its bytes are in its session's reservation.
    pub(super) uses_reservation: bool,
    pub(super) reply: WriteReplyForm,
    /// When the program wrote the bytes, by the metadata server's clock, if they were buffered.
    pub(super) modified: Option<Timestamp>,
    outcome: Result<(), Failure>,
}

/// The message that it answers, with the parts that only that reply has.
#[derive(Debug)]
pub(super) enum WriteReplyForm {
    Plain,
    WithReservation(Option<Reservation>),
}

#[derive(Debug)]
struct Rest {
    object: Arc<dyn Object>,
    offset: u64,
    bytes: u64,
    /// Whether this is the job's first write to the object.
    first: bool,
}

pub(crate) fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    write: &Write,
    payload_bytes: u32,
) -> Result<Box<WriteJob>, Failure> {
    job(core, connection, (write.handle, &write.present, &write.request), payload_bytes)
}

/// A job for a handle, a presented capability, and a request. Its slices are not checked yet.
pub(super) fn job<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    (handle, present, request): (u32, &[u8], &Request),
    payload_bytes: u32,
) -> Result<Box<WriteJob>, Failure> {
    let (capability, caller) =
        core.admission().capability(connection, handle, present, Rights::WRITE)?;
    job_of(core, (capability, caller), request, payload_bytes)
}

/// A job of a capability that has the right to write.
pub(super) fn job_of<S: ObjectStore>(
    core: &IodCore<S>,
    (capability, caller): (Arc<VerifiedCapability>, Arc<ConnectionEntry>),
    request: &Request,
    payload_bytes: u32,
) -> Result<Box<WriteJob>, Failure> {
    let unfold = capability.map.unfold(request, &capability.parts).map_err(invalid)?;
    Ok(Box::new(WriteJob {
        objects: vec![None; capability.local_parts.len()],
        written_before: vec![None; capability.local_parts.len()],
        capability,
        caller,
        unfold,
        search: SearchLimit::default(),
        rest: None,
        written: 0,
        payload_bytes: u64::from(payload_bytes),
        verifier: core.store().write_verifier(),
        uses_reservation: false,
        reply: WriteReplyForm::Plain,
        modified: None,
        outcome: Ok(()),
    }))
}

impl WriteJob {
    /// One slice: writes the next bytes of the payload. Returns how many: at least one, unless
    /// `data` is empty or the slice was spent on searching; then call again.
    pub fn push<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration, data: &[u8]) -> usize {
        if self.outcome.is_err() {
            return data.len();
        }
        let before = self.written;
        if let Err(failure) = self.write(core, now, data) {
            self.outcome = Err(failure);
            return data.len();
        }
        (self.written - before) as usize
    }

    /// After the whole payload: whether the job has ended. `false` when the slice was spent on
    /// checking that the request wants no more; then call again.
    fn end<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration) -> bool {
        if self.outcome.is_ok() {
            match self.wants_no_more(core, now) {
                Ok(false) => return false,
                Ok(true) => self.outcome = self.set_modified(core, now),
                Err(failure) => self.outcome = Err(failure),
            }
        }
        debug_assert!(
            self.outcome.is_err() || self.written == self.payload_bytes,
            "3: payload and request have the same length"
        );
        true
    }

    /// As [`WriteJob::finish`], for a caller that makes the reply itself: the write verifier.
    pub(super) fn outcome<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
    ) -> Option<Result<WriteVerifier, Failure>> {
        if !self.end(core, now) {
            return None;
        }
        core.counters().bytes_written.fetch_add(self.written, Relaxed);
        Some(self.outcome.clone().map(|()| self.verifier))
    }

    /// After the whole payload: the reply. `None` when the slice was spent on checking that the
    /// request wants no more; then call again.
    pub fn finish<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration) -> Option<Answer> {
        if !self.end(core, now) {
            return None;
        }
        let (bytes, verifier, outcome) =
            (ByteCount(self.written), self.verifier, self.outcome.clone());
        let answer = match &self.reply {
            WriteReplyForm::Plain => {
                Answer::from_outcome(outcome.map(|()| WriteReply { bytes, verifier }))
            }
            WriteReplyForm::WithReservation(reservation) => {
                let (reservation, objects) = (reservation.clone(), self.written_objects(core));
                Answer::from_outcome(outcome.map(|()| WriteWithReservationReply {
                    bytes,
                    verifier,
                    reservation,
                    objects,
                }))
            }
        };
        core.counters().answered(answer.status);
        core.counters().bytes_written.fetch_add(self.written, Relaxed);
        Some(answer)
    }

    /// Sets the objects' time to when the program wrote, since its client buffered the bytes.
    fn set_modified<S: ObjectStore>(
        &self,
        core: &IodCore<S>,
        now: Duration,
    ) -> Result<(), Failure> {
        let Some(modified) = self.modified else { return Ok(()) };
        let _guard = self.begin_slice(core, now)?;
        for (object, before) in self.objects.iter().zip(&self.written_before) {
            let Some(object) = object else { continue };
            let written = core.logged(object.stat())?.mtime;
            if let Some(modified) = core.buffered_since(modified, written) {
                // A write never makes a file older than the write before it.
                let modified = before.map_or(modified, |before| before.max(modified));
                core.logged(object.set_modified(modified, self.capability.size_generation))?;
            }
        }
        Ok(())
    }

    /// Checks a slice that writes nothing.
    fn check<S: ObjectStore>(&self, core: &IodCore<S>, now: Duration) -> Result<(), Failure> {
        core.admission().check(&self.capability, &self.caller, now)
    }

    /// Admits a slice that changes something. Fences of the session wait for its end.
    pub(super) fn begin_slice<'c, S: ObjectStore>(
        &self,
        core: &'c IodCore<S>,
        now: Duration,
    ) -> Result<AdmissionGuard<'c>, Failure> {
        core.admission().begin_slice(&self.capability, &self.caller, now)
    }

    /// Whether the request wants no more bytes, as far as one slice can find out.
    fn wants_no_more<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
    ) -> Result<bool, Failure> {
        match (&self.rest, self.unfold.next_within(&mut JOB_SLICE_ACCESSES_MAX.clone())) {
            (None, Unfolded::Paused) => {
                // A fence or an abandonment ends the search.
                self.check(core, now)?;
                self.search.count_empty_slice().map(|()| false)
            }
            // No byte was received, so no slice was checked yet.
            (None, Unfolded::End) if self.payload_bytes == 0 => {
                self.check(core, now).map(|()| true)
            }
            (None, Unfolded::End) => Ok(true),
            _ => Err(self.mismatch()),
        }
    }

    fn write<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
        mut data: &[u8],
    ) -> Result<(), Failure> {
        let _guard = self.begin_slice(core, now)?;
        let mut steps = JOB_SLICE_ACCESSES_MAX;
        let before = self.written;
        while !data.is_empty() {
            let Some(rest) = self.rest.take() else {
                match self.unfold.next_within(&mut steps) {
                    Unfolded::Access(access) => self.rest = self.take(core, &access)?,
                    Unfolded::Paused if self.written == before => {
                        return self.search.count_empty_slice();
                    }
                    Unfolded::Paused => return Ok(()),
                    Unfolded::End => return Err(self.mismatch()),
                }
                continue;
            };
            let (these, later) = data.split_at(rest.bytes.min(data.len() as u64) as usize);
            self.put(core, now, rest, these)?;
            data = later;
        }
        Ok(())
    }

    /// Writes the beginning of an access. Its rest waits for more payload.
    fn put<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
        rest: Rest,
        data: &[u8],
    ) -> Result<(), Failure> {
        let (offset, bytes) = (ObjectOffset(rest.offset), data.len() as u64);
        let in_place = || rest.blocks_allocated(bytes);
        let cost = WriteCost::of(rest.offset, bytes, rest.first);
        let _charge = core.reservations().charge(
            cost,
            self.uses_reservation,
            now,
            || core.free_space(),
            in_place,
        )?;
        core.logged(rest.object.write_at(data, offset, self.capability.size_generation))?;
        self.written += bytes;
        self.search.reset();
        if bytes < rest.bytes {
            self.rest = Some(Rest {
                offset: rest.offset + bytes,
                bytes: rest.bytes - bytes,
                first: false,
                ..rest
            });
        }
        Ok(())
    }

    /// Takes the next access. Its object is opened or created at the first one.
    fn take<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        access: &Access,
    ) -> Result<Option<Rest>, Failure> {
        let Some(slot) = self.capability.local_index(access.part) else { return Ok(None) };
        let first = self.objects[slot].is_none();
        let object = match &self.objects[slot] {
            Some(object) => object.clone(),
            None => {
                let object =
                    core.open_or_create(&self.capability, &self.capability.local_parts[slot])?;
                if self.modified.is_some() {
                    let stat = core.logged(object.stat())?;
                    self.written_before[slot] = (stat.size > 0).then_some(stat.mtime);
                }
                self.objects[slot].insert(object).clone()
            }
        };
        Ok(Some(Rest { object, offset: access.object_offset.0, bytes: access.bytes, first }))
    }

    /// The state of the written objects. Empty when they are many, or one of them has no state:
    /// then the client asks.
    fn written_objects<S: ObjectStore>(&self, core: &IodCore<S>) -> Vec<ObjectInfo> {
        let written = || {
            self.capability
                .local_parts
                .iter()
                .zip(&self.objects)
                .filter_map(|(at, object)| Some((at, object.as_ref()?)))
        };
        if self.outcome.is_err() || written().count() > REPORTED_OBJECTS_MAX {
            return Vec::new();
        }
        let look = |(local_part, object): (&LocalPart, &Arc<dyn Object>)| {
            let stat = core.logged(object.stat()).ok()?;
            Some(core.object_info(local_part.object.part, Some(&stat)))
        };
        written().map(look).collect::<Option<_>>().unwrap_or_default()
    }

    fn mismatch(&self) -> Failure {
        let detail = format!(
            "a payload of {} bytes differs from what the request writes here",
            self.payload_bytes
        );
        Failure::new(Status::Malformed, detail)
    }
}

impl Rest {
    /// Whether the next bytes fall on allocated blocks, so that the disk need not allocate any.
    fn blocks_allocated(&self, bytes: u64) -> bool {
        blocks_allocated(&*self.object, self.offset, bytes)
    }
}

/// Whether these bytes of an object fall on allocated blocks.
pub(crate) fn blocks_allocated(object: &dyn Object, offset: u64, bytes: u64) -> bool {
    let hole = object.next_hole(ObjectOffset(offset));
    hole.is_ok_and(|hole| hole.is_some_and(|hole| hole.0 >= offset.saturating_add(bytes)))
}
