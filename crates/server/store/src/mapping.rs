//! Objects in the address space: the kernel sends scattered pieces of one from there by one call, without reading each into a
//! buffer first (`docs/adr/0025-sending-from-a-mapping.md`).
//!
//! Invariants: (1) nothing but a system call looks at the bytes: another process or a truncate may change them or take them away at
//! any time, which the kernel tells by `EFAULT` and a program by its end; (2) a mapping outlasts the object's file being open, and
//! shows the file as it is, holes as zeros; (3) all mappings of a store together are no longer than [`MAPPED_BYTES_MAX`] (I9), each
//! counted from before it is made until it is gone.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Address space for all mappings of a store, of the 128 TiB that a process has; it takes no memory but that for the tables of the
/// pages that were sent from, 2 MiB for each GiB.
pub(crate) const MAPPED_BYTES_MAX: u64 = 4 << 40;
/// Mappings are of a power of two of bytes and at least so many, so that an object that grows is seldom mapped anew.
const BYTES_MIN: u64 = 1 << 20;

/// A file in the address space.
#[derive(Debug)]
pub struct Mapping {
    raw: MmapRaw,
    room: Taken,
}

impl Mapping {
    /// Maps a file from its beginning to `end` at least; it may end before. `None` where there is no room in `budget`, or the system refuses.
    pub(crate) fn of(file: &File, end: u64, budget: &Arc<AtomicU64>) -> Option<Self> {
        let bytes = end.checked_next_power_of_two()?.max(BYTES_MIN);
        let room = Taken::of(budget, bytes)?;
        let raw =
            MmapOptions::new().len(usize::try_from(bytes).ok()?).map_raw_read_only(file).ok()?;
        Some(Self { raw, room })
    }

    /// Where it is.
    pub fn raw(&self) -> &MmapRaw {
        &self.raw
    }

    /// How much of the file it shows, if there is so much.
    pub fn bytes(&self) -> u64 {
        self.room.bytes
    }
}

/// Address space that is counted as used.
#[derive(Debug)]
struct Taken {
    budget: Arc<AtomicU64>,
    bytes: u64,
}

impl Taken {
    fn of(budget: &Arc<AtomicU64>, bytes: u64) -> Option<Self> {
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= MAPPED_BYTES_MAX);
        budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self { budget: Arc::clone(budget), bytes })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_counted_as_long_as_it_lives_and_there_is_an_end() {
        let (file, budget) = (tempfile::tempfile().unwrap(), Arc::new(AtomicU64::new(0)));
        let small = Mapping::of(&file, 5, &budget).unwrap();
        let larger = Mapping::of(&file, BYTES_MIN + 1, &budget).unwrap();
        assert_eq!((small.bytes(), larger.bytes()), (BYTES_MIN, 2 * BYTES_MIN));
        assert_eq!(budget.load(Ordering::Relaxed), 3 * BYTES_MIN);
        assert!(Mapping::of(&file, MAPPED_BYTES_MAX, &budget).is_none(), "the others are counted");
        assert!(Mapping::of(&file, u64::MAX, &budget).is_none());
        drop((small, larger));
        assert_eq!(budget.load(Ordering::Relaxed), 0);
        assert_eq!(
            Mapping::of(&file, MAPPED_BYTES_MAX, &budget).unwrap().bytes(),
            MAPPED_BYTES_MAX
        );
    }
}
