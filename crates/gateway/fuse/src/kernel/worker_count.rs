//! How many workers to keep: as many as were busy at the same time lately, and one idle.
//!
//! The kernel wakes idle readers in turn. Ten of them share the work of one, and each finds its CPU
//! caches cold (measured, docs/adr/0010: 9.5 µs of CPU for an `fstat` with two workers, 13.5 with
//! ten). Too few workers cost more: a thread is started and ended for each request. So their number
//! follows the load.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The peak of this window and of the one before counts: bursts that come every second keep their
/// threads.
const WINDOW_MS: u64 = 1000;

/// The largest number of workers that were away from the device at the same time: serving, or not
/// yet back from the last request. (Counting only those that serve misses threads that wait for a
/// processor. Then a thread is started and ended for each request, at 200 µs each.)
#[derive(Debug, Default)]
pub(super) struct WorkerDemand {
    peak: AtomicUsize,
    peak_before: AtomicUsize,
    window_began_ms: AtomicU64,
}

impl WorkerDemand {
    /// A request was read. `busy`: the workers that do not wait for one now.
    pub(super) fn note_request(&self, busy: usize) {
        self.peak.fetch_max(busy, Ordering::Relaxed);
    }

    /// The number of workers to keep while `busy` are away. `now_ms`: from any fixed start.
    pub(super) fn workers(&self, now_ms: u64, busy: usize) -> usize {
        let began = self.window_began_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(began) >= WINDOW_MS
            && self
                .window_began_ms
                .compare_exchange(began, now_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.peak_before.store(self.peak.swap(busy, Ordering::Relaxed), Ordering::Relaxed);
        }
        self.peak.load(Ordering::Relaxed).max(self.peak_before.load(Ordering::Relaxed)) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_worker_than_were_away_is_kept() {
        let demand = WorkerDemand::default();
        assert_eq!(demand.workers(0, 0), 1);
        demand.note_request(5);
        demand.note_request(2);
        assert_eq!(demand.workers(10, 1), 6);
    }

    #[test]
    fn a_burst_is_forgotten_after_two_windows() {
        let demand = WorkerDemand::default();
        demand.note_request(5);
        assert_eq!(demand.workers(WINDOW_MS, 1), 6);
        demand.note_request(1);
        assert_eq!(demand.workers(2 * WINDOW_MS - 1, 1), 6);
        assert_eq!(demand.workers(2 * WINDOW_MS, 1), 2);
    }

    #[test]
    fn workers_that_still_wait_count_in_every_window() {
        let demand = WorkerDemand::default();
        demand.note_request(3);
        for window in 1..5 {
            assert_eq!(demand.workers(window * WINDOW_MS, 3), 4);
        }
    }
}
