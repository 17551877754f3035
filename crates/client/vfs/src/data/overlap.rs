//! Writes of programs and writes of pages to the same bytes at one time: a state machine without clock, lock and I/O.
//!
//! A program's `write` goes past the kernel's page cache. A page that the kernel read before that write was applied has
//! the old bytes, and a store through a mapping makes the whole page dirty, so the kernel writes the old bytes back too:
//!
//! ```text
//!   thread A   pwrite(0..8) ────────────── call begins ── applied ── pages dropped ── call ends
//!   thread B     page read ── store(2048)       |                       |
//!   kernel                                      |         write(0..4096): bytes 0..8 are stale
//! ```
//!
//! The kernel does not say which bytes of a page were stored into. It need not: every page that the kernel has of these
//! bytes when the call ends was read after the call was applied, because the call drops pages before it ends
//! ([`crate::promise::Keeper::drop_data`] writes dirty ones first).
//!
//! Invariants: (1) while a call is under way, a write of pages that begins leaves the call's bytes alone; (2) a call is applied
//! only after the writes of pages of its bytes that began before it; (3) a write of pages never waits for a call, which may itself
//! wait for it while it drops pages.

use std::ops::Range;

/// What is being written of one file.
#[derive(Debug, Default)]
pub(super) struct Overlap {
    calls: Vec<Write>,
    pages: Vec<Write>,
    /// Numbers are given in the order in which writes begin.
    next: u64,
}

#[derive(Clone, Debug)]
struct Write {
    number: u64,
    bytes: Range<u64>,
}

impl Write {
    fn overlaps(&self, other: &Self) -> bool {
        self.bytes.start < other.bytes.end && other.bytes.start < self.bytes.end
    }
}

impl Overlap {
    /// A program's call begins: it may be applied once [`Overlap::must_wait`] is false.
    pub(super) fn begin_call(&mut self, bytes: Range<u64>) -> u64 {
        let number = self.number();
        self.calls.push(Write { number, bytes });
        number
    }

    /// Whether pages of the call's bytes are still being written that may be older than it (2).
    pub(super) fn must_wait(&self, call: u64) -> bool {
        let Some(call) = self.calls.iter().find(|one| one.number == call) else { return false };
        self.pages.iter().any(|page| page.number < call.number && page.overlaps(call))
    }

    /// The call was applied, and what the kernel had of its bytes is dropped.
    pub(super) fn end_call(&mut self, call: u64) {
        self.calls.retain(|one| one.number != call);
    }

    /// A write of pages begins; the parts of it that are to be written (1).
    pub(super) fn begin_pages(&mut self, bytes: Range<u64>) -> (u64, Vec<Range<u64>>) {
        let number = self.number();
        let mut parts = vec![bytes.clone()];
        for call in &self.calls {
            parts = parts.into_iter().flat_map(|part| without(part, &call.bytes)).collect();
        }
        self.pages.push(Write { number, bytes });
        (number, parts)
    }

    /// They are written.
    pub(super) fn end_pages(&mut self, pages: u64) {
        self.pages.retain(|one| one.number != pages);
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// What is left of a range.
fn without(range: Range<u64>, taken: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let before = range.start..range.end.min(taken.start);
    let after = range.start.max(taken.end)..range.end;
    [before, after].into_iter().filter(|part| part.start < part.end)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
mod tests {
    use super::*;

    fn parts(overlap: &mut Overlap, bytes: Range<u64>) -> Vec<Range<u64>> {
        overlap.begin_pages(bytes).1
    }

    #[test]
    fn pages_are_written_whole_where_no_call_writes() {
        let mut overlap = Overlap::default();
        overlap.begin_call(8192..8200);
        assert_eq!(parts(&mut overlap, 0..4096), [0..4096]);
        assert_eq!(parts(&mut overlap, 8200..12_288), [8200..12_288], "it ends where they begin");
    }

    #[test]
    fn pages_leave_the_bytes_of_every_call_under_way_alone() {
        let mut overlap = Overlap::default();
        let first = overlap.begin_call(0..8);
        overlap.begin_call(100..200);
        overlap.begin_call(4000..5000);
        assert_eq!(parts(&mut overlap, 0..4096), [8..100, 200..4000]);
        assert_eq!(parts(&mut overlap, 4096..4500), [], "all of it is being written");
        overlap.end_call(first);
        assert_eq!(parts(&mut overlap, 0..4096), [0..100, 200..4000]);
    }

    #[test]
    fn a_call_waits_for_pages_of_its_bytes_that_began_before_it_only() {
        let mut overlap = Overlap::default();
        let (elsewhere, _) = overlap.begin_pages(4096..8192);
        let (before, _) = overlap.begin_pages(0..4096);
        let call = overlap.begin_call(0..8);
        let _ = overlap.begin_pages(0..4096);
        assert!(overlap.must_wait(call));
        overlap.end_pages(before);
        assert!(
            !overlap.must_wait(call),
            "{elsewhere} is of other bytes, and the last leaves the call's alone"
        );
    }

    #[test]
    fn an_empty_call_is_in_nobodys_way() {
        let mut overlap = Overlap::default();
        let call = overlap.begin_call(100..100);
        assert!(!overlap.must_wait(call));
        assert_eq!(
            parts(&mut overlap, 0..4096).iter().map(|part| part.end - part.start).sum::<u64>(),
            4096
        );
    }
}
