//! How long a server has moved nothing: what a bounded wait counts (I8). A large call over a slow network is not late as long as
//! its bytes move; a server that is gone moves none.

use std::time::{Duration, Instant};

use super::end_of;

/// The silence of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    since: Instant,
    max: Duration,
    /// It was broken after `since`.
    broken: bool,
}

impl Silence {
    /// One that begins now.
    pub(super) fn new(now: Instant, max: Duration) -> Self {
        Self { since: now, max, broken: false }
    }

    /// Bytes moved. The clock is read when somebody waits for the next ones: what this thread does meanwhile is no silence.
    pub(super) fn end(&mut self) {
        self.broken = true;
    }

    /// When it has lasted too long.
    pub(super) fn until(&mut self) -> Instant {
        if std::mem::take(&mut self.broken) {
            self.since = Instant::now();
        }
        end_of(self.since, self.max)
    }

    /// How long it has lasted.
    pub(super) fn time(&self) -> Duration {
        if self.broken { Duration::ZERO } else { self.since.elapsed() }
    }
}
