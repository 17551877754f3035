//! Time since the machine booted, including suspended time.

use std::time::Duration;

/// `CLOCK_BOOTTIME`, because `CLOCK_MONOTONIC` (`Instant`) stops while the machine is suspended. A
/// laptop that resumes must not use leases that the metadata server has granted to others
/// meanwhile.
#[cfg(target_os = "linux")]
pub(super) fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn since_boot() -> Duration {
    use std::{sync::OnceLock, time::Instant};
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::time::{ClockId, clock_gettime};

    use super::*;
    use crate::{Blocking, Driver};

    #[test]
    fn the_drivers_clock_counts_the_time_of_a_suspend() {
        let seconds = |clock| clock_gettime(clock).tv_sec as u64;
        let (before, now, after) =
            (seconds(ClockId::Boottime), since_boot(), seconds(ClockId::Boottime));
        assert!((before..=after).contains(&now.as_secs()));
        let driver = Blocking::new();
        let (began, at) = (since_boot(), driver.now());
        // The driver's time is that clock's minus a constant.
        assert!(driver.now() - at <= since_boot() - began);
        assert!(driver.start <= began);
    }
}
