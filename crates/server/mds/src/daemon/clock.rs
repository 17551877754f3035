//! The clocks of the machine.

use std::time::{Duration, Instant};

use braid_types::Timestamp;

use crate::Clock;

#[derive(Debug)]
pub(super) struct SystemClock(Instant);

impl SystemClock {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::now()
    }
}
