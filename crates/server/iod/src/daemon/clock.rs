//! Monotonic time since the daemon's start, also across a suspend of the machine.

use std::time::Duration;

/// A clock; copies show the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Moment,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Moment::now() }
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// `CLOCK_BOOTTIME` and not `CLOCK_MONOTONIC` (`Instant`): a machine that slept received no
/// reply from the metadata server in that time. It must not serve clients that were fenced
/// meanwhile (I4).
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug)]
struct Moment(Duration);

#[cfg(target_os = "linux")]
impl Moment {
    fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}

#[cfg(not(target_os = "linux"))]
use std::time::Instant as Moment;
