//! How long a server has moved no byte, which is what a time-out counts (I8). A large call over a
//! slow network does not time out while its bytes move. A server that is gone moves none.

use std::time::{Duration, Instant};

use super::end_of;

/// The idle time of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleTime {
    since: Instant,
    max: Duration,
    /// Bytes moved after `since`.
    was_reset: bool,
}

impl IdleTime {
    /// Starts now.
    pub(super) fn new(now: Instant, max: Duration) -> Self {
        Self { since: now, max, was_reset: false }
    }

    /// Bytes moved. The clock is read only at the next wait, so that other work of this thread does
    /// not count as idle time.
    pub(super) fn reset(&mut self) {
        self.was_reset = true;
    }

    /// When the idle time will be too long.
    pub(super) fn deadline(&mut self) -> Instant {
        if std::mem::take(&mut self.was_reset) {
            self.since = Instant::now();
        }
        end_of(self.since, self.max)
    }

    /// The idle time so far.
    pub(super) fn elapsed(&self) -> Duration {
        if self.was_reset { Duration::ZERO } else { self.since.elapsed() }
    }
}
