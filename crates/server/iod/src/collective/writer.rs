//! The writer of a collective write: it receives the offered payloads, chunk by chunk and in each
//! chunk task by task, and writes them.
//!
//! ```text
//!   plan the next chunk ──> receive each task's pieces, by rank ──> write: one call per extent
//!        ^────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Any task's thread may have the writer. It continues until it needs bytes that are not offered
//! (`payload_exchange.rs`). One thread works for all, so that the received bytes are still in its
//! processor's cache when it writes them. Where pieces overlap, those of a higher rank are received
//! later and win.

use std::{
    io::IoSliceMut,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_layout::RequestUnion;
use braid_store::{Object, ObjectStore};
use braid_types::{Failure, ObjectOffset, Status, limits::JOB_SLICE_ACCESSES_MAX};

use super::{
    Collective,
    chunk::{ChunkExtent, ChunkPlan, PlanResult, RECEIVED_BYTES_MAX},
    cursor::{Cursor, NextPiece},
    payload_exchange::OfferedPayload,
    source::ConnectionLost,
};
use crate::{
    connections::ConnectionEntry, iod_core::IodCore, ops::blocks_allocated, reservation::WriteCost,
    verified_capability::VerifiedCapability,
};

/// Pieces that are shorter on average are received together and copied to their positions: the
/// kernel takes longer for each piece than a copy does.
const PIECE_BYTES_MIN: usize = 1024;
/// What one call of the store writes, as in other writes. With more, the page cache uses larger
/// folios for a new file, and later writes of single pages into these cost twice as much
/// (`docs/adr/0015-collective-requests.md`).
const WRITTEN_BYTES_MAX: usize = 256 * 1024;
/// Pieces in one system call.
const PIECES_MAX: usize = 1024;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Writer {
    union: Box<RequestUnion>,
    /// Each task's position in its request; `None` when it wants no more.
    cursors: Vec<Option<Box<Cursor>>>,
    stage: WriterStage,
    plan: ChunkPlan,
    /// The chunk's memory; may be longer.
    memory: Vec<u8>,
    /// The task whose bytes are received.
    rank: usize,
    /// Its next pieces: position in the memory, and length.
    pieces: Vec<(usize, usize)>,
    /// Buffer for short pieces.
    short: Vec<u8>,
    /// The tasks with bytes in the chunk.
    contributors: Vec<(Arc<VerifiedCapability>, Arc<ConnectionEntry>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WriterStage {
    Planning,
    Filling,
    Writing,
    Over,
}

/// The result of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SliceResult {
    /// Call again.
    Again,
    /// Call again; no bytes came in a while.
    Idle,
    /// The next task's bytes are not offered.
    MissingPayload,
    /// Everything is written.
    Over,
}

impl Writer {
    pub(super) fn new(union: RequestUnion, cursors: Vec<Option<Box<Cursor>>>) -> Self {
        Self {
            union: Box::new(union),
            cursors,
            stage: WriterStage::Planning,
            plan: ChunkPlan::default(),
            memory: Vec::new(),
            rank: 0,
            pieces: Vec::new(),
            short: Vec::new(),
            contributors: Vec::new(),
        }
    }

    pub(super) fn tasks(&self) -> usize {
        self.cursors.len()
    }

    /// One slice: plans, receives from one task, or writes a chunk.
    ///
    /// # Errors
    /// The failure that ends the collective request.
    pub(super) fn slice<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        collective: &Collective,
        now: Duration,
    ) -> Result<SliceResult, Failure> {
        match self.stage {
            WriterStage::Planning => {
                match self.plan.more(
                    &mut self.union,
                    &collective.capability,
                    collective.chunk_bytes,
                    0,
                ) {
                    PlanResult::Paused => return Ok(SliceResult::Again),
                    PlanResult::Nothing => self.stage = WriterStage::Over,
                    PlanResult::Whole => self.begin(collective, now),
                }
                Ok(SliceResult::Again)
            }
            WriterStage::Filling => self.fill(collective, now),
            WriterStage::Writing => {
                self.write_chunk(core, collective, now)?;
                Ok(SliceResult::Again)
            }
            WriterStage::Over => Ok(SliceResult::Over),
        }
    }

    fn begin(&mut self, collective: &Collective, now: Duration) {
        let bytes = self.plan.bytes as usize;
        if self.memory.len() < bytes {
            self.memory.resize(bytes, 0);
        }
        (self.stage, self.rank) = (WriterStage::Filling, 0);
        collective.advance(now, |progress| progress.chunk_begun());
    }

    fn fill(&mut self, collective: &Collective, now: Duration) -> Result<SliceResult, Failure> {
        let mut borrowed = None;
        let mut steps = JOB_SLICE_ACCESSES_MAX;
        while let Some(cursor) = self.cursors.get_mut(self.rank) {
            let rank = self.rank;
            let next = match cursor {
                _ if !self.pieces.is_empty() => NextPiece::Piece(0, 0),
                Some(cursor) => cursor.peek(&self.plan, &collective.capability, 1, &mut steps),
                None => NextPiece::Past,
            };
            match next {
                NextPiece::Paused => return Ok(SliceResult::Again),
                NextPiece::Piece(..) => {
                    if borrowed.is_some() {
                        return Ok(SliceResult::Again);
                    }
                    let Some(mut offer) = OfferGuard::of(collective, rank, now) else {
                        return Ok(SliceResult::MissingPayload);
                    };
                    if offer.left() == 0 {
                        offer.give_back();
                        return Ok(SliceResult::MissingPayload);
                    }
                    if self.receive(&mut offer, collective, now)? == 0 {
                        return Ok(SliceResult::Idle);
                    }
                    borrowed = Some(offer);
                }
                NextPiece::Past | NextPiece::Over => {
                    let wanted = self.cursors[rank].is_some();
                    let offer = borrowed.take().or_else(|| {
                        wanted.then(|| OfferGuard::of(collective, rank, now)).flatten()
                    });
                    if next == NextPiece::Over {
                        self.cursors[rank] = None;
                        collective.advance(now, |progress| progress.finish(rank));
                    }
                    match offer {
                        Some(mut offer) if offer.left() == 0 => offer.give_back(),
                        Some(offer) if next == NextPiece::Over => {
                            return Err(mismatch(rank, offer.left()));
                        }
                        _ => {}
                    }
                    self.rank += 1;
                    collective.advance(now, |progress| progress.task_received());
                }
            }
        }
        self.stage = WriterStage::Writing;
        Ok(SliceResult::Again)
    }

    /// Receives pieces of the current task. Returns how many bytes.
    fn receive(
        &mut self,
        offer: &mut OfferGuard<'_>,
        collective: &Collective,
        now: Duration,
    ) -> Result<usize, Failure> {
        self.look(offer.left(), &collective.capability);
        let bytes: usize = self.pieces.iter().map(|(_, bytes)| bytes).sum();
        let is_long = bytes >= self.pieces.len() * PIECE_BYTES_MIN;
        let buffers = if is_long { memory_slices(&mut self.memory, &self.pieces) } else { None };
        let (received, in_place) = match buffers {
            Some(mut buffers) => (offer.receive(&mut buffers), true),
            None => {
                if self.short.len() < bytes {
                    self.short.resize(bytes, 0);
                }
                (offer.receive(&mut [IoSliceMut::new(&mut self.short[..bytes])]), false)
            }
        };
        let received = received.map_err(|ConnectionLost| {
            let detail =
                format!("the connection of task {} of the collective request ended", self.rank);
            Failure::new(Status::TryAgain, detail)
        })?;
        if received > 0 {
            offer.add_contributor(&mut self.contributors);
            collective.advance(now, |progress| progress.has_bytes_in_chunk(self.rank));
            self.took(received, in_place);
        }
        Ok(received)
    }

    /// Looks up the current task's next pieces, until they fill one call or the rest of the
    /// payload.
    fn look(&mut self, left: usize, capability: &VerifiedCapability) {
        let Some(cursor) = &mut self.cursors[self.rank] else { return };
        let space = left.min(RECEIVED_BYTES_MAX);
        let mut bytes: usize = self.pieces.iter().map(|(_, bytes)| bytes).sum();
        let mut steps = JOB_SLICE_ACCESSES_MAX;
        while bytes < space && self.pieces.len() < PIECES_MAX {
            let NextPiece::Piece(at, more) =
                cursor.peek(&self.plan, capability, (space - bytes) as u64, &mut steps)
            else {
                break;
            };
            cursor.take(more);
            bytes += more as usize;
            match self.pieces.last_mut() {
                Some((last, length)) if *last + *length == at => *length += more as usize,
                _ => self.pieces.push((at, more as usize)),
            }
        }
    }

    /// The first `received` bytes of the pieces have come. Copies them to their positions, unless
    /// they are there.
    fn took(&mut self, received: usize, in_place: bool) {
        let (mut done, mut whole) = (0, 0);
        for (at, bytes) in &mut self.pieces {
            let these = (*bytes).min(received - done);
            if !in_place {
                self.memory[*at..*at + these].copy_from_slice(&self.short[done..done + these]);
            }
            done += these;
            (*at, *bytes) = (*at + these, *bytes - these);
            if *bytes > 0 {
                break;
            }
            whole += 1;
        }
        self.pieces.drain(..whole);
    }

    /// Writes the chunk, under the admission of all tasks with bytes in it (I4).
    fn write_chunk<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        collective: &Collective,
        now: Duration,
    ) -> Result<(), Failure> {
        let failed = collective.progress().failure().cloned();
        failed.map_or(Ok(()), Err)?;
        let guard = core.admission().begin_shared_slice(&self.contributors, now)?;
        for ChunkExtent { slot, offset, bytes, at } in &self.plan.extents {
            let (object, first) = collective.object(core, usize::from(*slot))?;
            let in_place = || blocks_allocated(&*object, *offset, *bytes);
            let cost = WriteCost::of(*offset, *bytes, first);
            let _charge =
                core.reservations().charge(cost, false, now, || core.free_space(), in_place)?;
            let mut offset = ObjectOffset(*offset);
            for data in self.memory[*at..at + *bytes as usize].chunks(WRITTEN_BYTES_MAX) {
                core.logged(object.write_at(data, offset, collective.capability.size_generation))?;
                offset.0 += data.len() as u64;
                core.counters().collective_store_calls.fetch_add(1, Relaxed);
            }
            core.counters().collective_store_bytes.fetch_add(*bytes, Relaxed);
        }
        drop(guard);
        self.contributors.clear();
        (self.stage, self.plan) = (WriterStage::Planning, ChunkPlan::default());
        collective.advance(now, |progress| progress.chunk_written());
        Ok(())
    }
}

/// The memory of the pieces; `None` when their positions do not rise.
fn memory_slices<'m>(
    memory: &'m mut [u8],
    pieces: &[(usize, usize)],
) -> Option<Vec<IoSliceMut<'m>>> {
    let (mut rest, mut from) = (memory, 0);
    let mut buffers = Vec::with_capacity(pieces.len());
    for (at, bytes) in pieces {
        let (_, behind) = rest.split_at_mut(at.checked_sub(from)?);
        let (space, behind) = behind.split_at_mut(*bytes);
        buffers.push(IoSliceMut::new(space));
        (rest, from) = (behind, at + bytes);
    }
    Some(buffers)
}

pub(super) fn mismatch(rank: usize, left: usize) -> Failure {
    let detail = format!("the payload has {left} bytes more than task {rank} writes here");
    Failure::new(Status::Malformed, detail)
}

/// A taken payload, which is returned in any case.
struct OfferGuard<'c> {
    collective: &'c Collective,
    rank: usize,
    now: Duration,
    offer: Option<OfferedPayload>,
}

impl<'c> OfferGuard<'c> {
    fn of(collective: &'c Collective, rank: usize, now: Duration) -> Option<Self> {
        let offer = collective.advance(now, |progress| progress.take_offer(rank))?;
        Some(Self { collective, rank, now, offer: Some(offer) })
    }

    fn left(&self) -> usize {
        self.offer.as_ref().map_or(0, |offer| offer.source.left())
    }

    fn receive(&mut self, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, ConnectionLost> {
        let Some(offer) = &mut self.offer else { return Err(ConnectionLost) };
        let received = offer.source.receive(buffers)?;
        offer.had += received as u64;
        Ok(received)
    }

    /// Adds the task to those with bytes in the chunk.
    fn add_contributor(&self, givers: &mut Vec<(Arc<VerifiedCapability>, Arc<ConnectionEntry>)>) {
        let Some(offer) = &self.offer else { return };
        if !givers.iter().any(|(_, known)| Arc::ptr_eq(known, &offer.caller)) {
            givers.push((offer.capability.clone(), offer.caller.clone()));
        }
    }

    /// The payload is received completely.
    fn give_back(&mut self) {
        if let Some(offer) = self.offer.take() {
            self.collective.advance(self.now, |progress| progress.complete_offer(self.rank, offer));
        }
    }
}

impl Drop for OfferGuard<'_> {
    fn drop(&mut self) {
        if let Some(offer) = self.offer.take() {
            self.collective.advance(self.now, |progress| progress.return_offer(self.rank, offer));
        }
    }
}

impl Collective {
    /// The object of a slot, which the first call opens or creates. Returns whether this was the
    /// first call.
    ///
    /// # Errors
    /// Disk errors, or why the collective request has ended.
    fn object<S: ObjectStore>(
        &self,
        core: &IodCore<S>,
        slot: usize,
    ) -> Result<(Arc<dyn Object>, bool), Failure> {
        let mut objects = self.objects();
        let found = objects.get_mut(slot).ok_or_else(|| self.closed())?;
        if let Some(object) = found {
            return Ok((object.clone(), false));
        }
        let object = core.open_or_create(&self.capability, &self.capability.local_parts[slot])?;
        Ok((found.insert(object).clone(), true))
    }
}
