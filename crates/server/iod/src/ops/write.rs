//! Write: the payload is taken as it arrives and put at its accesses; no window is ever gathered.
//!
//! Invariants:
//! 1. The verifier in the reply is the one from before the first byte was written: if unflushed data is lost
//!    meanwhile, the client sees the change and sends again (I6).
//! 2. A slice that writes holds a pass: a fence is acknowledged only when none of its sessions still writes (I4), and so is
//!    the abandonment of a connection.
//! 3. Payload and request have the same length, or the call is malformed. What was written by then stays: the
//!    client had the right to write it.
//! 4. A slice is counted as space before it is written: one that is not in room leaves alone what is kept for others (ADR 0014).
//! 5. A request that is searched for long without a byte for this daemon is refused, before and after its payload (I9).
//! 6. After a failure the rest of the payload is taken and dropped, so that the connection lives on.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_layout::{Access, Request, Unfold, Unfolded};
use braid_store::{Object, ObjectStore};
use braid_types::{
    ByteCount, Failure, ObjectOffset, Status, Timestamp, WriteVerifier,
    limits::{JOB_SLICE_ACCESSES_MAX, TOLD_OBJECTS_MAX},
};
use braid_wire::{
    Rights,
    message::{
        iod::{Room, Write, WriteReply, WriteWithRoomReply},
        types::ObjectInfo,
    },
};

use super::{invalid, search::Search};
use crate::{
    callers::Caller,
    connection::ConnectionState,
    grant::{Grant, Place},
    iod_core::IodCore,
    room::Cost,
    sink::Answer,
};

/// A write under way.
#[derive(Debug)]
pub struct WriteJob {
    grant: Arc<Grant>,
    caller: Arc<Caller>,
    objects: Vec<Option<Arc<dyn Object>>>,
    /// When those were last written before, of which the time is to be set, and which had bytes.
    written_before: Vec<Option<Timestamp>>,
    unfold: Unfold,
    search: Search,
    /// What of the last access is not written yet.
    rest: Option<Rest>,
    written: u64,
    payload_bytes: u64,
    verifier: WriteVerifier,
    /// Whether its bytes were held in room of its session.
    pub(super) in_room: bool,
    pub(super) reply: Reply,
    /// When the program wrote the bytes, by the metadata server's clock, if that was before now.
    pub(super) modified: Option<Timestamp>,
    outcome: Result<(), Failure>,
}

/// Which message it answers, and with what of its own.
#[derive(Debug)]
pub(super) enum Reply {
    Plain,
    WithRoom(Option<Room>),
}

#[derive(Debug)]
struct Rest {
    object: Arc<dyn Object>,
    offset: u64,
    bytes: u64,
    /// Whether the job has not written to the object yet.
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

/// A job for a handle, what is presented for it, and a request. Its slices are not checked yet.
pub(super) fn job<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    (handle, present, request): (u32, &[u8], &Request),
    payload_bytes: u32,
) -> Result<Box<WriteJob>, Failure> {
    let (grant, caller) =
        core.admission().capability(connection, handle, present, Rights::WRITE)?;
    let unfold = grant.map.unfold(request, &grant.parts).map_err(invalid)?;
    Ok(Box::new(WriteJob {
        objects: vec![None; grant.places.len()],
        written_before: vec![None; grant.places.len()],
        grant,
        caller,
        unfold,
        search: Search::default(),
        rest: None,
        written: 0,
        payload_bytes: u64::from(payload_bytes),
        verifier: core.store().write_verifier(),
        in_room: false,
        reply: Reply::Plain,
        modified: None,
        outcome: Ok(()),
    }))
}

impl WriteJob {
    /// One slice: takes the next bytes of the payload; how many. At least one, unless `data` is empty or the slice
    /// was spent on searching: then call again.
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

    /// After the whole payload: the answer, or `None` when a slice was spent on making sure that the request wants no
    /// more: then call again.
    pub fn finish<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration) -> Option<Answer> {
        if self.outcome.is_ok() {
            match self.ended(core, now) {
                Ok(false) => return None,
                Ok(true) => self.outcome = self.set_modified(core, now),
                Err(failure) => self.outcome = Err(failure),
            }
        }
        let (bytes, verifier, outcome) =
            (ByteCount(self.written), self.verifier, self.outcome.clone());
        let answer = match &self.reply {
            Reply::Plain => Answer::from_outcome(outcome.map(|()| WriteReply { bytes, verifier })),
            Reply::WithRoom(room) => {
                let (room, objects) = (room.clone(), self.touched(core));
                Answer::from_outcome(outcome.map(|()| WriteWithRoomReply {
                    bytes,
                    verifier,
                    room,
                    objects,
                }))
            }
        };
        core.counters().answered(answer.status);
        core.counters().bytes_written.fetch_add(self.written, Relaxed);
        Some(answer)
    }

    /// The objects get the time at which the program wrote: its bytes were buffered by its client since.
    fn set_modified<S: ObjectStore>(
        &self,
        core: &IodCore<S>,
        now: Duration,
    ) -> Result<(), Failure> {
        let Some(modified) = self.modified else { return Ok(()) };
        let _pass = core.admission().begin_slice(&self.grant, &self.caller, now)?;
        for (object, before) in self.objects.iter().zip(&self.written_before) {
            let Some(object) = object else { continue };
            let written = core.warned(object.stat())?.mtime;
            if let Some(modified) = core.buffered_since(modified, written) {
                // No write makes a file older than the write before it.
                let modified = before.map_or(modified, |before| before.max(modified));
                core.warned(object.set_modified(modified, self.grant.size_generation))?;
            }
        }
        Ok(())
    }

    /// Checks a slice that writes nothing.
    pub(super) fn check<S: ObjectStore>(
        &self,
        core: &IodCore<S>,
        now: Duration,
    ) -> Result<(), Failure> {
        core.admission().check(&self.grant, &self.caller, now)
    }

    /// Whether the request wants nothing more, as far as a slice tells.
    fn ended<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration) -> Result<bool, Failure> {
        match (&self.rest, self.unfold.next_within(&mut JOB_SLICE_ACCESSES_MAX.clone())) {
            (None, Unfolded::Paused) => {
                // It does not go on for a session that was fenced, or a connection that was given up.
                self.check(core, now)?;
                self.search.found_nothing().map(|()| false)
            }
            // No byte came, so that no slice was checked yet.
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
        let _pass = core.admission().begin_slice(&self.grant, &self.caller, now)?;
        let mut steps = JOB_SLICE_ACCESSES_MAX;
        let before = self.written;
        while !data.is_empty() {
            let Some(rest) = self.rest.take() else {
                match self.unfold.next_within(&mut steps) {
                    Unfolded::Access(access) => self.rest = self.take(core, &access)?,
                    Unfolded::Paused if self.written == before => {
                        return self.search.found_nothing();
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

    /// Writes the beginning of an access; what is left of it waits for more payload.
    fn put<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
        rest: Rest,
        data: &[u8],
    ) -> Result<(), Failure> {
        let (offset, bytes) = (ObjectOffset(rest.offset), data.len() as u64);
        let in_place = || rest.is_there(bytes);
        let cost = Cost::of(rest.offset, bytes, rest.first);
        let _charge = core.room().begin(cost, self.in_room, now, || core.measured(), in_place)?;
        core.warned(rest.object.write_at(data, offset, self.grant.size_generation))?;
        self.written += bytes;
        self.search.found();
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

    /// Takes the next access up; its object is opened or made when it is the first there.
    fn take<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        access: &Access,
    ) -> Result<Option<Rest>, Failure> {
        let Some(slot) = self.grant.slot(access.part) else { return Ok(None) };
        let first = self.objects[slot].is_none();
        let object = match &self.objects[slot] {
            Some(object) => object.clone(),
            None => {
                let object = core.open_or_create(&self.grant, &self.grant.places[slot])?;
                if self.modified.is_some() {
                    let stat = core.warned(object.stat())?;
                    self.written_before[slot] = (stat.size > 0).then_some(stat.mtime);
                }
                self.objects[slot].insert(object).clone()
            }
        };
        Ok(Some(Rest { object, offset: access.object_offset.0, bytes: access.bytes, first }))
    }

    /// The objects that were written, as they are now; none when they are many, or one cannot be looked at: then whoever wants
    /// to know asks.
    fn touched<S: ObjectStore>(&self, core: &IodCore<S>) -> Vec<ObjectInfo> {
        let written = || {
            self.grant
                .places
                .iter()
                .zip(&self.objects)
                .filter_map(|(at, object)| Some((at, object.as_ref()?)))
        };
        if self.outcome.is_err() || written().count() > TOLD_OBJECTS_MAX {
            return Vec::new();
        }
        let look = |(place, object): (&Place, &Arc<dyn Object>)| {
            let stat = core.warned(object.stat()).ok()?;
            Some(core.info(place.object.part, Some(&stat)))
        };
        written().map(look).collect::<Option<_>>().unwrap_or_default()
    }

    fn mismatch(&self) -> Failure {
        let detail = format!(
            "a payload of {} bytes is not what the request wants written here",
            self.payload_bytes
        );
        Failure::new(Status::Malformed, detail)
    }
}

impl Rest {
    /// Whether its next bytes fall on blocks that the object has: the disk need not give any.
    fn is_there(&self, bytes: u64) -> bool {
        is_there(&*self.object, self.offset, bytes)
    }
}

/// Whether these bytes of an object fall on blocks that it has.
pub(crate) fn is_there(object: &dyn Object, offset: u64, bytes: u64) -> bool {
    let hole = object.next_hole(ObjectOffset(offset));
    hole.is_ok_and(|hole| hole.is_some_and(|hole| hole.0 >= offset.saturating_add(bytes)))
}
