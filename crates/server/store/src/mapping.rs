//! Objects mapped into memory: the kernel sends scattered pieces of one with one call, without a
//! read into a buffer for each (`docs/adr/0025-sending-from-a-mapping.md`).
//!
//! Invariants:
//! 1. Only system calls touch the mapped bytes. Another process or a truncate may change or remove
//!    them at any time: a system call then returns `EFAULT`, but a program dies.
//! 2. A mapping lives on when the object's file is closed. It shows the file as it is, with holes
//!    as zeros.
//! 3. All mappings of a store together have at most [`MAPPED_BYTES_MAX`] bytes (I9). Each is
//!    counted from before it is made until it is removed.
//!
//! The drop of a charge asserts the count of 3. `MmapRaw` gives no reference to the bytes (1); the
//! kernel keeps 2.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Address space for all mappings of a store, of the 128 TiB of a process. It takes no memory
/// except page tables for the pages that were sent, 2 MiB for each GiB.
pub(crate) const MAPPED_BYTES_MAX: u64 = 4 << 40;
/// A mapping has a power of two of bytes, and at least this many, so that a growing object is
/// seldom mapped again.
const BYTES_MIN: u64 = 1 << 20;

/// A mapped file.
#[derive(Debug)]
pub struct Mapping {
    raw: MmapRaw,
    charge: AddressSpaceCharge,
}

impl Mapping {
    /// Maps a file up to `end` at least; the file may end before. `None` when `budget` has no
    /// space, or the system refuses.
    pub(crate) fn new(file: &File, end: u64, budget: &Arc<AtomicU64>) -> Option<Self> {
        let bytes = end.checked_next_power_of_two()?.max(BYTES_MIN);
        let charge = AddressSpaceCharge::of(budget, bytes)?;
        let raw =
            MmapOptions::new().len(usize::try_from(bytes).ok()?).map_raw_read_only(file).ok()?;
        Some(Self { raw, charge })
    }

    /// The mapping itself.
    pub fn raw(&self) -> &MmapRaw {
        &self.raw
    }

    /// Length of the mapping; the file may be shorter.
    pub fn bytes(&self) -> u64 {
        self.charge.bytes
    }
}

/// Address space that is counted as used.
#[derive(Debug)]
struct AddressSpaceCharge {
    budget: Arc<AtomicU64>,
    bytes: u64,
}

impl AddressSpaceCharge {
    fn of(budget: &Arc<AtomicU64>, bytes: u64) -> Option<Self> {
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= MAPPED_BYTES_MAX);
        budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self { budget: Arc::clone(budget), bytes })
    }
}

impl Drop for AddressSpaceCharge {
    fn drop(&mut self) {
        let before = self.budget.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "3: a mapping is counted until it is removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_counted_as_long_as_it_lives_and_there_is_an_end() {
        let (file, budget) = (tempfile::tempfile().unwrap(), Arc::new(AtomicU64::new(0)));
        let small = Mapping::new(&file, 5, &budget).unwrap();
        let larger = Mapping::new(&file, BYTES_MIN + 1, &budget).unwrap();
        assert_eq!((small.bytes(), larger.bytes()), (BYTES_MIN, 2 * BYTES_MIN));
        assert_eq!(budget.load(Ordering::Relaxed), 3 * BYTES_MIN);
        assert!(Mapping::new(&file, MAPPED_BYTES_MAX, &budget).is_none(), "the others are counted");
        assert!(Mapping::new(&file, u64::MAX, &budget).is_none());
        drop((small, larger));
        assert_eq!(budget.load(Ordering::Relaxed), 0);
        assert_eq!(
            Mapping::new(&file, MAPPED_BYTES_MAX, &budget).unwrap().bytes(),
            MAPPED_BYTES_MAX
        );
    }
}
