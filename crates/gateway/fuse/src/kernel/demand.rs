//! How many workers are worth keeping: as many as were busy at once lately, and one that idles.
//!
//! The kernel wakes idle readers in turn: ten of them share the work of one, and each finds its caches
//! cold (measured, docs/adr/0010: 9.5 µs of CPU for an `fstat` with two workers, 13.5 with ten). Too few cost
//! more still: a thread made and ended for each request. So their number follows the load.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The peak of this window and of the one before counts: bursts that come every second keep their threads.
const WINDOW_MS: u64 = 1000;

/// The most workers that were away from the device at once: serving, or not yet back from the last request.
/// (Counting those that serve alone misses threads that wait for a processor: then one is made and ended
/// for each request, at 200 µs each.)
#[derive(Debug, Default)]
pub(super) struct Demand {
    peak: AtomicUsize,
    peak_before: AtomicUsize,
    window_began_ms: AtomicU64,
}

impl Demand {
    /// A request was taken, and now so many workers do not wait for one.
    pub(super) fn took(&self, away: usize) {
        self.peak.fetch_max(away, Ordering::Relaxed);
    }

    /// Workers to keep, at a time that counts from any begin, while so many are away.
    pub(super) fn workers(&self, now_ms: u64, away: usize) -> usize {
        let began = self.window_began_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(began) >= WINDOW_MS
            && self
                .window_began_ms
                .compare_exchange(began, now_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.peak_before.store(self.peak.swap(away, Ordering::Relaxed), Ordering::Relaxed);
        }
        self.peak.load(Ordering::Relaxed).max(self.peak_before.load(Ordering::Relaxed)) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_than_were_away_at_once_is_kept() {
        let demand = Demand::default();
        assert_eq!(demand.workers(0, 0), 1);
        demand.took(5);
        demand.took(2);
        assert_eq!(demand.workers(10, 1), 6);
    }

    #[test]
    fn a_burst_is_forgotten_after_two_windows() {
        let demand = Demand::default();
        demand.took(5);
        assert_eq!(demand.workers(WINDOW_MS, 1), 6);
        demand.took(1);
        assert_eq!(demand.workers(2 * WINDOW_MS - 1, 1), 6);
        assert_eq!(demand.workers(2 * WINDOW_MS, 1), 2);
    }

    #[test]
    fn those_that_still_wait_count_in_every_window() {
        let demand = Demand::default();
        demand.took(3);
        for window in 1..5 {
            assert_eq!(demand.workers(window * WINDOW_MS, 3), 4);
        }
    }
}
