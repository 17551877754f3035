//! A program's write and the kernel's write-back of the same bytes at the same time: a state
//! machine without clock, lock and I/O.
//!
//! A program's `write` bypasses the kernel's page cache. A page that the kernel read before that
//! write was applied has the old bytes. A store through a mapping makes the whole page dirty, so
//! the kernel writes the old bytes back, too:
//!
//! ```text
//!   thread A   pwrite(0..8) ────────────── call begins ── applied ── pages dropped ── call ends
//!   thread B     page read ── store(2048)       |                       |
//!   kernel                                      |         write(0..4096): bytes 0..8 are stale
//! ```
//!
//! The kernel does not say which bytes of a page a program has stored. It need not: the call drops
//! the pages before it ends ([`CacheInvalidator::drop_data`] writes dirty ones first). So every
//! page of these bytes that the kernel has when the call ends was read after the call was applied.
//!
//! Invariants:
//! 1. A write-back that begins while a call runs leaves out the call's bytes.
//! 2. A call is applied only after the write-backs of its bytes that began before it.
//! 3. A write-back never waits for a call, which may itself wait for it while it drops pages.
//!
//! `begin_pages` asserts 1 and waits for nothing (3). The caller waits while `must_wait` returns
//! true (2).
//!
//! [`CacheInvalidator::drop_data`]: crate::CacheInvalidator::drop_data

use std::ops::Range;

/// The writes of one file that run now.
#[derive(Debug, Default)]
pub(super) struct OverlappingWrites {
    /// Writes of programs.
    calls: Vec<Write>,
    /// Write-backs of pages.
    pages: Vec<Write>,
    /// The number of the last write that began.
    last: u64,
}

#[derive(Clone, Debug)]
struct Write {
    number: u64,
    bytes: Range<u64>,
}

impl Write {
    fn overlaps(&self, other: &Self) -> bool {
        self.has_some_of(&other.bytes)
    }

    fn has_some_of(&self, bytes: &Range<u64>) -> bool {
        self.bytes.start < bytes.end && bytes.start < self.bytes.end
    }
}

impl OverlappingWrites {
    /// A program's call begins. It may be applied once [`OverlappingWrites::must_wait`] is false.
    pub(super) fn begin_call(&mut self, bytes: Range<u64>) -> u64 {
        let number = self.number();
        self.calls.push(Write { number, bytes });
        number
    }

    /// Whether pages of the call's bytes are still being written that may be older than the call
    /// (2).
    pub(super) fn must_wait(&self, call: u64) -> bool {
        let Some(call) = self.calls.iter().find(|one| one.number == call) else { return false };
        self.pages.iter().any(|page| page.number < call.number && page.overlaps(call))
    }

    /// The call was applied, and the kernel has dropped its pages of these bytes.
    pub(super) fn end_call(&mut self, call: u64) {
        self.calls.retain(|one| one.number != call);
    }

    /// A write-back begins. Returns its number and the parts that it writes (1).
    pub(super) fn begin_pages(&mut self, bytes: Range<u64>) -> (u64, Vec<Range<u64>>) {
        let number = self.number();
        let mut parts = vec![bytes.clone()];
        for call in &self.calls {
            parts = parts.into_iter().flat_map(|part| without(part, &call.bytes)).collect();
        }
        self.pages.push(Write { number, bytes });
        debug_assert!(
            parts.iter().all(|part| self.calls.iter().all(|call| !call.has_some_of(part))),
            "I1: a write-back contains bytes of a running call"
        );
        (number, parts)
    }

    /// A write-back has ended.
    pub(super) fn end_pages(&mut self, pages: u64) {
        self.pages.retain(|one| one.number != pages);
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// What is left of a range without another one.
fn without(range: Range<u64>, taken: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let before = range.start..range.end.min(taken.start);
    let after = range.start.max(taken.end)..range.end;
    [before, after].into_iter().filter(|part| part.start < part.end)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of one range is intended")]
mod tests {
    use super::*;

    fn parts(overlap: &mut OverlappingWrites, bytes: Range<u64>) -> Vec<Range<u64>> {
        overlap.begin_pages(bytes).1
    }

    #[test]
    fn pages_are_written_whole_where_no_call_runs() {
        let mut overlap = OverlappingWrites::default();
        overlap.begin_call(8192..8200);
        assert_eq!(parts(&mut overlap, 0..4096), [0..4096]);
        assert_eq!(
            parts(&mut overlap, 8200..12_288),
            [8200..12_288],
            "the call ends where they begin"
        );
    }

    #[test]
    fn pages_leave_out_the_bytes_of_every_running_call() {
        let mut overlap = OverlappingWrites::default();
        let first = overlap.begin_call(0..8);
        overlap.begin_call(100..200);
        overlap.begin_call(4000..5000);
        assert_eq!(parts(&mut overlap, 0..4096), [8..100, 200..4000]);
        assert_eq!(parts(&mut overlap, 4096..4500), [], "all of it is being written");
        overlap.end_call(first);
        assert_eq!(parts(&mut overlap, 0..4096), [0..100, 200..4000]);
    }

    #[test]
    fn a_call_waits_only_for_pages_of_its_bytes_that_began_before_it() {
        let mut overlap = OverlappingWrites::default();
        let (elsewhere, _) = overlap.begin_pages(4096..8192);
        let (before, _) = overlap.begin_pages(0..4096);
        let call = overlap.begin_call(0..8);
        let _ = overlap.begin_pages(0..4096);
        assert!(overlap.must_wait(call));
        overlap.end_pages(before);
        assert!(
            !overlap.must_wait(call),
            "{elsewhere} has other bytes, and the last one leaves out the call's"
        );
    }

    #[test]
    fn an_empty_call_conflicts_with_nothing() {
        let mut overlap = OverlappingWrites::default();
        let call = overlap.begin_call(100..100);
        assert!(!overlap.must_wait(call));
        assert_eq!(
            parts(&mut overlap, 0..4096).iter().map(|part| part.end - part.start).sum::<u64>(),
            4096
        );
    }
}
