//! Write: the payload is taken as it arrives and put at its accesses; no window is ever gathered.
//!
//! Invariants:
//! 1. The verifier in the reply is the one from before the first byte was written: if unflushed data is lost
//!    meanwhile, the client sees the change and sends again (I6).
//! 2. A slice that writes holds a pass: a fence is acknowledged only when none of its sessions still writes (I4), and so is
//!    the abandonment of a connection.
//! 3. Payload and request have the same length, or the call is malformed. What was written by then stays: the
//!    client had the right to write it.
//! 4. After a failure the rest of the payload is taken and dropped, so that the connection lives on.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_layout::{Access, Unfold, Unfolded};
use braid_store::{Object, ObjectStore};
use braid_types::{ByteCount, Failure, ObjectOffset, Status, WriteVerifier, limits::JOB_SLICE_ACCESSES_MAX};
use braid_wire::{
    Rights,
    message::iod::{Write, WriteReply},
};

use super::invalid;
use crate::{callers::Caller, connection::ConnectionState, grant::Grant, iod_core::IodCore, sink::Answer};

/// A write under way.
#[derive(Debug)]
pub struct WriteJob {
    grant: Arc<Grant>,
    caller: Arc<Caller>,
    objects: Vec<Option<Arc<dyn Object>>>,
    unfold: Unfold,
    /// What of the last access is not written yet.
    rest: Option<Rest>,
    written: u64,
    payload_bytes: u64,
    verifier: WriteVerifier,
    outcome: Result<(), Failure>,
}

#[derive(Debug)]
struct Rest {
    object: Arc<dyn Object>,
    offset: u64,
    bytes: u64,
}

pub(super) fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    write: &Write,
    payload_bytes: u32,
) -> Result<Box<WriteJob>, Failure> {
    let (grant, caller) = core.grant(connection, now, write.handle, &write.present, Rights::WRITE)?;
    let unfold = grant.map.unfold(&write.request, &grant.parts).map_err(invalid)?;
    Ok(Box::new(WriteJob {
        objects: vec![None; grant.places.len()],
        grant,
        caller,
        unfold,
        rest: None,
        written: 0,
        payload_bytes: u64::from(payload_bytes),
        verifier: core.store().write_verifier(),
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
    pub fn finish<S: ObjectStore>(&mut self, core: &IodCore<S>) -> Option<Answer> {
        if self.outcome.is_ok() {
            self.outcome = match (&self.rest, self.unfold.next_within(&mut JOB_SLICE_ACCESSES_MAX.clone())) {
                (None, Unfolded::Paused) => return None,
                (None, Unfolded::End) => Ok(()),
                _ => Err(self.mismatch()),
            };
        }
        let reply = WriteReply { bytes: ByteCount(self.written), verifier: self.verifier };
        let answer = Answer::from_outcome(self.outcome.clone().map(|()| reply));
        core.counters().answered(answer.status);
        core.counters().bytes_written.fetch_add(self.written, Relaxed);
        Some(answer)
    }

    fn write<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration, mut data: &[u8]) -> Result<(), Failure> {
        let _pass = core.pass(&self.grant, &self.caller, now)?;
        let mut steps = JOB_SLICE_ACCESSES_MAX;
        while !data.is_empty() {
            let Some(rest) = self.rest.take() else {
                match self.unfold.next_within(&mut steps) {
                    Unfolded::Access(access) => self.rest = self.take(core, &access)?,
                    Unfolded::Paused => return Ok(()),
                    Unfolded::End => return Err(self.mismatch()),
                }
                continue;
            };
            let (now, later) = data.split_at(rest.bytes.min(data.len() as u64) as usize);
            self.put(core, rest, now)?;
            data = later;
        }
        Ok(())
    }

    /// Writes the beginning of an access; what is left of it waits for more payload.
    fn put<S: ObjectStore>(&mut self, core: &IodCore<S>, rest: Rest, data: &[u8]) -> Result<(), Failure> {
        core.warned(rest.object.write_at(data, ObjectOffset(rest.offset), self.grant.size_generation))?;
        let bytes = data.len() as u64;
        self.written += bytes;
        if bytes < rest.bytes {
            self.rest = Some(Rest { offset: rest.offset + bytes, bytes: rest.bytes - bytes, ..rest });
        }
        Ok(())
    }

    /// Takes the next access up; its object is opened or made when it is the first there.
    fn take<S: ObjectStore>(&mut self, core: &IodCore<S>, access: &Access) -> Result<Option<Rest>, Failure> {
        let Some(slot) = self.grant.slot(access.part) else { return Ok(None) };
        let object = match &self.objects[slot] {
            Some(object) => object.clone(),
            None => {
                let object = core.open_or_create(&self.grant, &self.grant.places[slot])?;
                self.objects[slot].insert(object).clone()
            }
        };
        Ok(Some(Rest { object, offset: access.object_offset.0, bytes: access.bytes }))
    }

    fn mismatch(&self) -> Failure {
        let detail = format!("a payload of {} bytes is not what the request wants written here", self.payload_bytes);
        Failure::new(Status::Malformed, detail)
    }
}
