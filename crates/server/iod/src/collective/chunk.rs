//! A chunk: the next stretch of what all tasks want together, as runs of the objects and bytes in
//! memory.

use std::sync::Arc;

use braid_layout::{Access, Sweep, Swept};
use braid_types::limits::{
    COLLECTIVE_CHUNK_BYTES_MAX, COLLECTIVE_CHUNK_BYTES_MIN, COLLECTIVE_FRAME_BYTES,
    COLLECTIVE_RING, COLLECTIVE_RUNS_MAX, JOB_SLICE_ACCESSES_MAX,
};

use crate::grant::Grant;

/// Contiguous bytes of one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    pub(super) slot: u16,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Where they are in the chunk's memory.
    pub(super) at: usize,
}

/// A chunk that is planned, or being planned.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// While it is planned in the order of the file, then by slot and offset.
    pub(super) extents: Vec<Extent>,
    /// Of the file: what any task wants before it, and was in no chunk before, is in this one.
    pub(super) end: u64,
    pub(super) bytes: u64,
}

/// A chunk that was read.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) plan: Plan,
    /// May be longer than the plan.
    pub(super) memory: Vec<u8>,
}

/// What planning came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Planned {
    /// The slice is used up.
    Paused,
    /// It is planned.
    Whole,
    /// Nothing is left for another chunk.
    Nothing,
}

impl Plan {
    /// One slice of planning a chunk of about `bytes_max`. `hole_bytes`: gaps of up to this many
    /// bytes of an object are taken in.
    pub(super) fn more(
        &mut self,
        sweep: &mut Sweep,
        grant: &Grant,
        bytes_max: u64,
        hole_bytes: u64,
    ) -> Planned {
        let mut steps = JOB_SLICE_ACCESSES_MAX;
        loop {
            let room = bytes_max.saturating_sub(self.bytes);
            if room == 0 || self.extents.len() >= COLLECTIVE_RUNS_MAX {
                return self.whole(sweep);
            }
            match sweep.next_within(room, &mut steps) {
                Swept::Paused => return Planned::Paused,
                Swept::End if self.extents.is_empty() => return Planned::Nothing,
                Swept::End => return self.whole(sweep),
                Swept::Run(run) => {
                    let Some(slot) = grant.slot(run.part) else { continue };
                    // PARTS_MAX fits 16 bits.
                    self.take(slot as u16, run.object_offset.0, run.bytes, hole_bytes);
                }
            }
        }
    }

    /// Where the first bytes of an access are in its memory; `hint` is the extent that was found
    /// last.
    pub(super) fn locate(&self, slot: u16, access: &Access, hint: &mut usize) -> usize {
        let offset = access.object_offset.0;
        let has = |extent: &Extent| {
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
        // Of few parts the last extent of this one is near the end.
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
                self.extents.push(Extent { slot, offset, bytes, at: 0 });
                self.bytes += bytes;
            }
        }
    }

    fn whole(&mut self, sweep: &mut Sweep) -> Planned {
        self.end = sweep.position();
        self.extents.sort_unstable_by_key(|extent| (extent.slot, extent.offset));
        let mut at = 0;
        for extent in &mut self.extents {
            extent.at = at;
            at += extent.bytes as usize;
        }
        Planned::Whole
    }
}

/// How much a chunk of a read holds for so many tasks, in bytes.
pub(super) fn read_bytes_for(tasks: usize) -> u64 {
    (tasks as u64 * COLLECTIVE_FRAME_BYTES)
        .clamp(COLLECTIVE_CHUNK_BYTES_MIN, COLLECTIVE_CHUNK_BYTES_MAX)
}

/// The same of a write, of which one chunk at a time is in memory.
pub(super) fn write_bytes_for(tasks: usize) -> u64 {
    let least = COLLECTIVE_CHUNK_BYTES_MIN;
    (tasks as u64 * RECEIVED_BYTES_MAX as u64)
        .clamp(least, COLLECTIVE_RING as u64 * COLLECTIVE_CHUNK_BYTES_MAX)
}

/// What is received of one task of a write at a time, in bytes: with less the kernel's copies take
/// longer, more leaves the processor's cache before it is written
/// (`docs/adr/0015-collective-requests.md`).
pub(super) const RECEIVED_BYTES_MAX: usize = 256 * 1024;

/// How many extents are looked at for one to grow: a daemon that keeps more parts of one file only
/// has more runs.
const LOOK_BACK: usize = 8;

impl Chunk {
    pub(super) fn new(plan: Plan, memory: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { plan, memory })
    }

    /// Its memory, to be used again, unless somebody still holds the chunk.
    pub(super) fn into_memory(self: Arc<Self>) -> Option<Vec<u8>> {
        Arc::try_unwrap(self).ok().map(|chunk| chunk.memory)
    }
}
