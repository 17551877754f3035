//! How many workers are worth keeping: as many as were busy at once lately, and one that idles.
//!
//! The kernel wakes idle readers in turn: ten of them share the work of one, and each finds its caches
//! cold (measured, docs/adr/0010: 9.5 µs of CPU for an `fstat` with two workers, 13.5 with ten). Too few cost
//! more still: a thread made and ended for each request. So their number follows the load.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The peak of this window and of the one before counts: bursts that come every second keep their threads.
const WINDOW_MS: u64 = 1000;

/// Counts workers that serve a request.
#[derive(Debug, Default)]
pub(super) struct Demand {
    busy: AtomicUsize,
    peak: AtomicUsize,
    peak_before: AtomicUsize,
    window_began_ms: AtomicU64,
}

impl Demand {
    /// A request was taken.
    pub(super) fn begin(&self) {
        let busy = self.busy.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak.fetch_max(busy, Ordering::Relaxed);
    }

    /// It was served.
    pub(super) fn end(&self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }

    /// Workers to keep, at a time that counts from any begin.
    pub(super) fn workers(&self, now_ms: u64) -> usize {
        let began = self.window_began_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(began) >= WINDOW_MS
            && self.window_began_ms.compare_exchange(began, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let peak = self.peak.swap(self.busy.load(Ordering::Relaxed), Ordering::Relaxed);
            self.peak_before.store(peak, Ordering::Relaxed);
        }
        self.peak.load(Ordering::Relaxed).max(self.peak_before.load(Ordering::Relaxed)) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(demand: &Demand, size: usize) {
        (0..size).for_each(|_| demand.begin());
        (0..size).for_each(|_| demand.end());
    }

    #[test]
    fn one_more_than_were_busy_at_once_is_kept() {
        let demand = Demand::default();
        assert_eq!(demand.workers(0), 1);
        burst(&demand, 5);
        burst(&demand, 2);
        assert_eq!(demand.workers(10), 6);
    }

    #[test]
    fn a_burst_is_forgotten_after_two_windows() {
        let demand = Demand::default();
        burst(&demand, 5);
        assert_eq!(demand.workers(WINDOW_MS), 6);
        burst(&demand, 1);
        assert_eq!(demand.workers(2 * WINDOW_MS - 1), 6);
        assert_eq!(demand.workers(2 * WINDOW_MS), 2);
    }

    #[test]
    fn those_that_still_wait_count_in_every_window() {
        let demand = Demand::default();
        (0..3).for_each(|_| demand.begin());
        for window in 1..5 {
            assert_eq!(demand.workers(window * WINDOW_MS), 4);
        }
    }
}
