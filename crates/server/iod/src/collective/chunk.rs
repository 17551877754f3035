//! A chunk: the next bytes that any task wants, as extents of objects and as bytes in memory.

use std::sync::Arc;

use braid_layout::{Access, NextExtent, RequestUnion};
use braid_types::limits::{
    COLLECTIVE_CHUNK_BYTES_MAX, COLLECTIVE_CHUNK_BYTES_MIN, COLLECTIVE_EXTENTS_MAX,
    COLLECTIVE_FRAME_BYTES, COLLECTIVE_RING, JOB_SLICE_ACCESSES_MAX,
};

use crate::verified_capability::VerifiedCapability;

/// Contiguous bytes of one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChunkExtent {
    pub(super) slot: u16,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Their position in the chunk's memory.
    pub(super) at: usize,
}

/// The plan of a chunk, perhaps unfinished.
#[derive(Debug, Default)]
pub(super) struct ChunkPlan {
    /// In file order while it is planned, then by slot and offset.
    pub(super) extents: Vec<ChunkExtent>,
    /// A file offset: the chunk has all wanted bytes before it that no earlier chunk had.
    pub(super) end: u64,
    pub(super) bytes: u64,
}

/// A chunk that was read.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) plan: ChunkPlan,
    /// May be longer than the plan.
    pub(super) memory: Vec<u8>,
}

/// The result of planning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PlanResult {
    /// The slice is used up.
    Paused,
    /// It is planned.
    Whole,
    /// Nothing is left for another chunk.
    Nothing,
}

impl ChunkPlan {
    /// One slice of planning a chunk of about `bytes_max`. It includes gaps of up to `hole_bytes`
    /// in an object.
    pub(super) fn more(
        &mut self,
        union: &mut RequestUnion,
        capability: &VerifiedCapability,
        bytes_max: u64,
        hole_bytes: u64,
    ) -> PlanResult {
        let mut steps = JOB_SLICE_ACCESSES_MAX;
        loop {
            let space = bytes_max.saturating_sub(self.bytes);
            if space == 0 || self.extents.len() >= COLLECTIVE_EXTENTS_MAX {
                return self.whole(union);
            }
            match union.next_within(space, &mut steps) {
                NextExtent::Paused => return PlanResult::Paused,
                NextExtent::End if self.extents.is_empty() => return PlanResult::Nothing,
                NextExtent::End => return self.whole(union),
                NextExtent::Extent(run) => {
                    let Some(slot) = capability.local_index(run.part) else { continue };
                    // PARTS_MAX fits 16 bits.
                    self.take(slot as u16, run.object_offset.0, run.bytes, hole_bytes);
                }
            }
        }
    }

    /// The position of an access's first bytes in the chunk's memory; `hint` is the extent that was
    /// found last.
    pub(super) fn locate(&self, slot: u16, access: &Access, hint: &mut usize) -> usize {
        let offset = access.object_offset.0;
        let has = |extent: &ChunkExtent| {
            extent.slot == slot && (extent.offset..extent.offset + extent.bytes).contains(&offset)
        };
        if !self.extents.get(*hint).is_some_and(has) {
            let after = self
                .extents
                .partition_point(|extent| (extent.slot, extent.offset) <= (slot, offset));
            *hint = after.saturating_sub(1);
        }
        let extent = &self.extents[*hint];
        assert!(has(extent), "a chunk has every byte that a task wants before its end");
        extent.at + (offset - extent.offset) as usize
    }

    fn take(&mut self, slot: u16, offset: u64, bytes: u64, hole_bytes: u64) {
        // With few parts, this one's last extent is near the end.
        let last = self.extents.iter_mut().rev().take(LOOK_BACK).find(|extent| extent.slot == slot);
        match last {
            Some(last)
                if offset
                    .checked_sub(last.offset + last.bytes)
                    .is_some_and(|gap| gap <= hole_bytes) =>
            {
                let grown = offset + bytes - last.offset;
                self.bytes += grown - last.bytes;
                last.bytes = grown;
            }
            _ => {
                self.extents.push(ChunkExtent { slot, offset, bytes, at: 0 });
                self.bytes += bytes;
            }
        }
    }

    fn whole(&mut self, union: &mut RequestUnion) -> PlanResult {
        self.end = union.position();
        self.extents.sort_unstable_by_key(|extent| (extent.slot, extent.offset));
        let mut at = 0;
        for extent in &mut self.extents {
            extent.at = at;
            at += extent.bytes as usize;
        }
        PlanResult::Whole
    }
}

/// Size of a chunk of a read by this many tasks, in bytes.
pub(super) fn read_bytes_for(tasks: usize) -> u64 {
    (tasks as u64 * COLLECTIVE_FRAME_BYTES)
        .clamp(COLLECTIVE_CHUNK_BYTES_MIN, COLLECTIVE_CHUNK_BYTES_MAX)
}

/// The same for a write, which has one chunk in memory at a time.
pub(super) fn write_bytes_for(tasks: usize) -> u64 {
    let least = COLLECTIVE_CHUNK_BYTES_MIN;
    (tasks as u64 * RECEIVED_BYTES_MAX as u64)
        .clamp(least, COLLECTIVE_RING as u64 * COLLECTIVE_CHUNK_BYTES_MAX)
}

/// How much one call receives from one task of a write, in bytes. With less, the kernel's copies
/// take longer. More leaves the processor's cache before it is written
/// (`docs/adr/0015-collective-requests.md`).
pub(super) const RECEIVED_BYTES_MAX: usize = 256 * 1024;

/// How many extents are searched for one that can grow. A daemon with more parts of one file only
/// has more extents.
const LOOK_BACK: usize = 8;

impl Chunk {
    pub(super) fn new(plan: ChunkPlan, memory: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { plan, memory })
    }

    /// Its memory for reuse, unless a thread still holds the chunk.
    pub(super) fn into_memory(self: Arc<Self>) -> Option<Vec<u8>> {
        Arc::try_unwrap(self).ok().map(|chunk| chunk.memory)
    }
}
