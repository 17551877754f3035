//! Read: the daemon's bytes of a request, in request order, as frames.
//!
//! ```text
//!   accesses   |data|hole|data|        |data| past the ends ...
//!   payload    |data|0000|data|00000000|data|               zeros wait until data follows them,
//!   frames     |----- 256 KiB -----|--final-|               so that none are sent at the end
//! ```
//!
//! Invariants:
//! 1. The objects' lengths are taken once, in the first slice. The read ends below them, and the
//!    reply reports them as `ends`. An append during the read is not seen; it is never seen as
//!    zeros.
//! 2. Zeros are sent only before data. The job ends behind the last byte of all objects, however
//!    long the request is.
//! 3. The data of the final frame was read before it is sent, so its status holds.
//! 4. A request that is searched for long without a byte for this daemon is refused (I9).
//! 5. A read of bytes that an object has lost at its end fails (I11). A read of the remaining bytes
//!    does not.
//! 6. A read fails when a truncate overtakes it, and the client repeats it: the zeros that were
//!    sent were never in the file.
//! 7. Each slice is checked once, at its start. The first slice opens the objects behind its check
//!    (I4).
//!
//! `begin_slice` asserts 1 and is the first step of each slice (7). `plan_rest` plans zeros only
//! when data follows (2). `finish` makes the reply before it sends the last frame (3) and looks for
//! a truncate (6). 4 and 5 are errors that `plan` and `search` return, not assertions: a client or
//! a disk causes them.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_layout::{Access, LayoutError, Request, Unfold, Unfolded, View};
use braid_store::{Mapping, Object, ObjectStore};
use braid_types::{
    ByteCount, Failure, FileOffset, ObjectId, Status,
    limits::{FILE_BYTES_MAX, JOB_SLICE_ACCESSES_MAX},
};
use braid_wire::{
    Rights,
    message::iod::{ObjectEnd, Read, ReadReply},
};

use super::{invalid, search_limit::SearchLimit};
use crate::{
    connection::ConnectionState,
    connections::ConnectionEntry,
    frame_sink::{Answer, FrameSink, SinkError},
    iod_core::IodCore,
    payload::{FramePlan, Payload, truncated_while_read},
    verified_capability::VerifiedCapability,
};

/// Payload of up to this many bytes is sent in the final frame. More is sent before it in data
/// frames, which the kernel sends from the file (`docs/adr/0001-iod-data-path.md`: copying is
/// faster up to 32 KiB).
pub const COPIED_BYTES_MAX: usize = 32 * 1024;

/// A read in progress.
#[derive(Debug)]
pub struct ReadJob {
    capability: Arc<VerifiedCapability>,
    caller: Arc<ConnectionEntry>,
    /// Whether the first slice has opened the objects.
    is_open: bool,
    /// By slot.
    objects: Vec<Option<Arc<dyn Object>>>,
    ends: Vec<ObjectEnd>,
    /// By slot, once a frame has several pieces.
    mappings: Vec<Option<Arc<Mapping>>>,
    /// No object has a byte of the file at or after this offset.
    file_end: u64,
    /// Where each object has lost its end, by slot; empty when none has.
    lost: Vec<Option<u64>>,
    accesses: Accesses,
    search: SearchLimit,
    /// The rest of the last access that is not planned yet.
    rest: Option<Rest>,
    pending_zeros: u64,
    ended: bool,
    plan: FramePlan,
    sent: u64,
}

/// Whether a job has more to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadProgress {
    /// Call again.
    Again,
    /// The final frame was sent.
    Finished,
}

/// The accesses of a request that are not planned yet.
#[derive(Debug)]
enum Accesses {
    /// The only access, or none left. A contiguous request in one strip, the usual small read, is
    /// not unfolded.
    One(Option<Access>),
    /// Boxed, since most jobs have none and each job is allocated.
    Many(Box<Unfold>),
}

/// Data at `offset` of an object, and the hole behind it.
#[derive(Clone, Copy, Debug)]
struct Rest {
    slot: u16,
    offset: u64,
    bytes: u64,
    hole_bytes: u64,
}

/// The result of planning.
enum PlanResult {
    /// There is more, but the frame is full.
    Full,
    /// The slice is used up.
    Paused,
    /// Nothing follows.
    End,
    /// The next bytes are lost.
    Lost(Failure),
}

pub(crate) fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    read: &Read,
) -> Result<Box<ReadJob>, Failure> {
    let (capability, caller) =
        core.admission().capability(connection, read.handle, &read.present, Rights::READ)?;
    let accesses = Accesses::of(&capability, &read.request).map_err(invalid)?;
    Ok(Box::new(ReadJob {
        capability,
        caller,
        is_open: false,
        objects: Vec::new(),
        ends: Vec::new(),
        mappings: Vec::new(),
        file_end: 0,
        lost: Vec::new(),
        accesses,
        search: SearchLimit::default(),
        rest: None,
        pending_zeros: 0,
        ended: false,
        plan: FramePlan::default(),
        sent: 0,
    }))
}

/// The objects of a capability, opened for reading.
#[derive(Debug)]
pub(crate) struct OpenedObjects {
    /// By slot; `None` when it is absent and was never recorded.
    pub(crate) objects: Vec<Option<Arc<dyn Object>>>,
    /// Where each ends now.
    pub(crate) ends: Vec<ObjectEnd>,
    /// No object has a byte of the file at or after this offset.
    pub(crate) file_end: u64,
    /// Where each has lost its end; empty when none has.
    pub(crate) lost: Vec<Option<u64>>,
}

impl OpenedObjects {
    pub(crate) fn open<S: ObjectStore>(
        core: &IodCore<S>,
        capability: &VerifiedCapability,
    ) -> Result<Self, Failure> {
        let mut objects = Vec::with_capacity(capability.local_parts.len());
        let mut ends = Vec::with_capacity(capability.local_parts.len());
        let mut lost = Vec::new();
        for local_part in &capability.local_parts {
            let opened = core.open(capability, local_part)?;
            let bytes = opened.as_ref().map_or(0, |opened| opened.stat.size);
            if let Some(from) = opened.as_ref().and_then(|opened| opened.stat.lost_from) {
                lost.resize(objects.len(), None);
                lost.push(Some(from));
            }
            ends.push(ObjectEnd { part: local_part.object.part, bytes: ByteCount(bytes) });
            objects.push(opened.map(|opened| opened.object));
        }
        let file_end = file_end(capability, &ends)
            .map_err(|why| Failure::new(Status::Corrupted, why.to_string()))?;
        Ok(Self { objects, ends, file_end, lost })
    }

    /// The error of a read of lost bytes of an object.
    pub(crate) fn lost_range_error(object: ObjectId, from: u64, end: u64) -> Failure {
        let detail = format!(
            "object {object}: bytes {from} to {end} are gone from the disk; try: braid fsck"
        );
        Failure::new(Status::ObjectLost, detail)
    }
}

impl Accesses {
    fn of(capability: &VerifiedCapability, request: &Request) -> Result<Self, LayoutError> {
        match strip(capability, request)? {
            Some(access) => Ok(Self::One(Some(access))),
            None => capability
                .map
                .unfold(request, &capability.parts)
                .map(|unfold| Self::Many(Box::new(unfold))),
        }
    }

    fn next_within(&mut self, steps: &mut usize) -> Unfolded {
        match self {
            Self::One(access) => access.take().map_or(Unfolded::End, Unfolded::Access),
            Self::Many(unfold) => unfold.next_within(steps),
        }
    }

    fn size_bytes(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Many(unfold) => unfold.size_bytes(),
        }
    }
}

/// The access of a contiguous request within one strip of a local part. `None` for any other
/// request, also for a malformed one.
fn strip(
    capability: &VerifiedCapability,
    request: &Request,
) -> Result<Option<Access>, LayoutError> {
    let Request { view, start, bytes } = request;
    let is_small = *bytes > 0 && start.checked_add(*bytes).is_some_and(|end| end <= FILE_BYTES_MAX);
    if !is_small || *view != View::whole() {
        return Ok(None);
    }
    let location = capability.map.locate(FileOffset(*start))?;
    let access = Access {
        part: location.part,
        object_offset: location.object_offset,
        bytes: *bytes,
        stream_offset: 0,
        packed_offset: 0,
        file_offset: FileOffset(*start),
    };
    Ok((location.contiguous >= *bytes && capability.parts.contains(location.part))
        .then_some(access))
}

fn file_end(capability: &VerifiedCapability, ends: &[ObjectEnd]) -> Result<u64, LayoutError> {
    let lengths: Vec<_> = ends.iter().map(|end| (end.part, end.bytes.0)).collect();
    capability.map.file_size_from_objects(&lengths)
}

impl ReadJob {
    /// Memory of the job in bytes: for its view, for each object, and for the capability, even if
    /// others share that.
    pub fn size_bytes(&self) -> usize {
        let of_object = size_of::<Option<Arc<dyn Object>>>()
            + size_of::<ObjectEnd>()
            + size_of::<Option<Arc<Mapping>>>();
        self.accesses.size_bytes()
            + self.capability.local_parts.len() * of_object
            + self.capability.memory_bytes()
    }

    /// One slice: sends at most one data frame, or the final one.
    ///
    /// # Errors
    /// [`SinkError::Closed`] when the connection is closed.
    pub fn step<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
        sink: &mut dyn FrameSink,
    ) -> Result<ReadProgress, SinkError> {
        if let Err(failure) = self.begin_slice(core, now) {
            return self.fail(core, &failure, sink);
        }
        let sent = match self.plan() {
            PlanResult::Paused => match self.search.count_empty_slice() {
                Ok(()) => return Ok(ReadProgress::Again),
                Err(failure) => return self.fail(core, &failure, sink),
            },
            PlanResult::Lost(failure) => return self.fail(core, &failure, sink),
            PlanResult::Full => self.send_data(sink).map(|()| ReadProgress::Again),
            PlanResult::End if self.plan.bytes() > COPIED_BYTES_MAX as u64 => {
                self.send_data(sink).map(|()| ReadProgress::Again)
            }
            PlanResult::End => self.finish(core, sink).map(|()| ReadProgress::Finished),
        };
        match sent {
            Err(SinkError::Disk(failure)) => self.fail(core, &failure, sink),
            other => other,
        }
    }

    /// Checks the slice. The first slice then opens the objects, so that a small read is checked
    /// once.
    fn begin_slice<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
    ) -> Result<(), Failure> {
        core.admission().check(&self.capability, &self.caller, now)?;
        if !self.is_open {
            debug_assert!(self.sent == 0, "1: the lengths are taken before anything is sent");
            let OpenedObjects { objects, ends, file_end, lost } =
                OpenedObjects::open(core, &self.capability)?;
            (self.objects, self.ends, self.file_end, self.lost) = (objects, ends, file_end, lost);
            self.is_open = true;
        }
        Ok(())
    }

    /// Plans the next frame within the slice's budget.
    fn plan(&mut self) -> PlanResult {
        let mut steps = JOB_SLICE_ACCESSES_MAX;
        loop {
            if !self.plan_rest() {
                return PlanResult::Full;
            }
            if self.ended {
                return PlanResult::End;
            }
            match self.accesses.next_within(&mut steps) {
                Unfolded::Access(access) if access.file_offset.0 < self.file_end => {
                    match self.lost_range_error_of(&access) {
                        None => self.take(&access),
                        Some(failure) => return PlanResult::Lost(failure),
                    }
                }
                Unfolded::Access(_) | Unfolded::End => self.ended = true,
                Unfolded::Paused => return PlanResult::Paused,
            }
        }
    }

    /// The error of an access to lost bytes of its object.
    fn lost_range_error_of(&self, access: &Access) -> Option<Failure> {
        if self.lost.is_empty() {
            return None;
        }
        let slot = self.capability.local_index(access.part)?;
        let (from, end) = ((*self.lost.get(slot)?)?, self.ends[slot].bytes.0);
        let (start, stop) =
            (access.object_offset.0, access.object_offset.0.saturating_add(access.bytes).min(end));
        (start < end && stop > from).then(|| {
            OpenedObjects::lost_range_error(self.capability.local_parts[slot].object, from, end)
        })
    }

    /// Takes the next access: before its object's end it is data, behind that a hole.
    fn take(&mut self, access: &Access) {
        self.search.reset();
        let Some(slot) = self.capability.local_index(access.part) else { return };
        let Access { object_offset, bytes, .. } = *access;
        let data = self.ends[slot].bytes.0.saturating_sub(object_offset.0).min(bytes);
        if data == 0 {
            self.pending_zeros += bytes;
        } else {
            // PARTS_MAX fits 16 bits.
            self.rest = Some(Rest {
                slot: slot as u16,
                offset: object_offset.0,
                bytes: data,
                hole_bytes: bytes - data,
            });
        }
    }

    /// Plans the pending zeros and the rest of the last access; `false` when the frame is full
    /// first.
    fn plan_rest(&mut self) -> bool {
        let Some(rest) = &mut self.rest else { return true };
        while self.pending_zeros > 0 {
            match self.plan.push(None, 0, self.pending_zeros) {
                0 => return false,
                taken => self.pending_zeros -= taken,
            }
        }
        while rest.bytes > 0 {
            match self.plan.push(Some(rest.slot), rest.offset, rest.bytes) {
                0 => return false,
                taken => (rest.offset, rest.bytes) = (rest.offset + taken, rest.bytes - taken),
            }
        }
        self.pending_zeros = rest.hole_bytes;
        self.rest = None;
        true
    }

    fn send_data(&mut self, sink: &mut dyn FrameSink) -> Result<(), SinkError> {
        if sink.wants_mappings() && self.plan.piece_count() > 1 && self.mappings.is_empty() {
            let mapping = |(object, end): (&Option<Arc<dyn Object>>, &ObjectEnd)| {
                object.as_ref()?.mapping(end.bytes.0)
            };
            self.mappings = self.objects.iter().zip(&self.ends).map(mapping).collect();
        }
        sink.data(&self.plan.payload(&self.objects).mapped(&self.mappings))?;
        self.sent += self.plan.bytes();
        self.plan.clear();
        Ok(())
    }

    fn finish<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        sink: &mut dyn FrameSink,
    ) -> Result<(), SinkError> {
        if self.sent > 0 && self.was_truncated()? {
            return Err(SinkError::Disk(truncated_while_read()));
        }
        let bytes = self.sent + self.plan.bytes();
        let reply = ReadReply { bytes: ByteCount(bytes), ends: std::mem::take(&mut self.ends) };
        let answer = Answer::from_outcome(Ok(reply));
        sink.finish(&answer.body, &self.plan.payload(&self.objects))?;
        core.counters().answered(Status::Ok);
        core.counters().bytes_read.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Whether an object became shorter since the read began: the kernel then sends zeros from it.
    fn was_truncated(&self) -> Result<bool, SinkError> {
        for (object, end) in self.objects.iter().zip(&self.ends) {
            if let Some(object) = object
                && object.stat().map_err(|why| SinkError::Disk(why.into()))?.size < end.bytes.0
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends the call in the middle. On this status the client discards what was sent.
    fn fail<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        failure: &Failure,
        sink: &mut dyn FrameSink,
    ) -> Result<ReadProgress, SinkError> {
        tracing::debug!(%failure, "a read ended early");
        core.counters().answered(failure.status);
        sink.finish(&Answer::failure(failure).body, &Payload::EMPTY)?;
        Ok(ReadProgress::Finished)
    }
}
