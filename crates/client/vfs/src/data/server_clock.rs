//! The metadata server's clock, as a mount knows it. Buffered bytes get the time at which the
//! program wrote them, by the clock that gives all other times.
//!
//! The attributes of each new file have the server's time. The reply took some time to arrive, so
//! the server's clock is never behind the estimate from it. The fastest reply gives the best
//! estimate: the estimate follows faster replies immediately, and slower ones by [`DRIFT`], as fast
//! as clocks may drift apart. A server that changed its clock, or another server, is followed
//! immediately.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use braid_client::Timestamp;

use crate::mutex::lock;

const NANOS: i128 = 1_000_000_000;
/// How much slower the server's clock may run than this machine's, in parts of a million: more than
/// NTP ever corrects.
const DRIFT: i128 = 1_000;
/// A larger difference shows that the server's clock was changed.
const STEP: i128 = NANOS;
/// A reply that took longer does not count.
const SLOW: Duration = Duration::from_millis(500);
/// How long the estimate is used: clocks drift apart.
const KNOWN_FOR: Duration = Duration::from_secs(600);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<Option<Estimate>>);

#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// A lower bound of the server's time at `seen`, in nanoseconds since 1970.
    server: i128,
    seen: Instant,
}

impl Estimate {
    fn at(&self, now: Instant) -> i128 {
        self.server
            + i128::try_from(now.saturating_duration_since(self.seen).as_nanos())
                .unwrap_or(i128::MAX)
    }

    /// The lower bound now, if the server's clock runs slower than this machine's.
    fn at_least(&self, now: Instant) -> i128 {
        let since: Duration = now.saturating_duration_since(self.seen);
        self.at(now) - i128::try_from(since.as_nanos()).unwrap_or_default() * DRIFT / 1_000_000
    }
}

impl ServerClock {
    /// A reply has arrived with this time of the server. `asked`: when the call was sent.
    pub(crate) fn note_reply(&self, server: Timestamp, asked: Instant) {
        let now = Instant::now();
        self.note_reply_at(server, now, now.saturating_duration_since(asked));
    }

    fn note_reply_at(&self, server: Timestamp, now: Instant, took: Duration) {
        // It may be the replayed reply of a first attempt long ago.
        if took > SLOW {
            return;
        }
        let server = i128::from(server.seconds) * NANOS + i128::from(server.nanos);
        let mut current = lock(&self.0);
        let least = current
            .filter(|estimate| (estimate.at(now) - server).abs() < STEP)
            .map(|estimate| estimate.at_least(now));
        *current =
            Some(Estimate { server: least.map_or(server, |least| least.max(server)), seen: now });
    }

    /// The server's time now. `None`: no reply had it for [`KNOWN_FOR`].
    pub(crate) fn now(&self) -> Option<Timestamp> {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> Option<Timestamp> {
        let estimate = (*lock(&self.0))
            .filter(|estimate| now.saturating_duration_since(estimate.seen) < KNOWN_FOR)?;
        let server = estimate.at(now);
        let seconds = i64::try_from(server.div_euclid(NANOS)).ok()?;
        Some(Timestamp { seconds, nanos: u32::try_from(server.rem_euclid(NANOS)).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(1);

    fn time(seconds: i64, nanos: u32) -> Timestamp {
        Timestamp { seconds, nanos }
    }

    #[test]
    fn the_fastest_reply_gives_the_time() {
        let (clock, start) = (ServerClock::default(), Instant::now());
        assert_eq!(clock.at(start), None);
        clock.note_reply_at(time(100, 0), start, QUICK);
        // The second reply took 5 ms longer than the first.
        let later = start + Duration::from_millis(10);
        clock.note_reply_at(time(100, 5_000_000), later, QUICK);
        assert_eq!(
            clock.at(later),
            Some(time(100, 9_990_000)),
            "less what clocks may drift apart in 10 ms"
        );
        // The third was faster than both.
        clock.note_reply_at(time(100, 30_000_000), later + Duration::from_millis(10), QUICK);
        assert_eq!(clock.at(later + Duration::from_millis(10)), Some(time(100, 30_000_000)));
    }

    #[test]
    fn a_changed_clock_is_followed() {
        let (clock, start) = (ServerClock::default(), Instant::now());
        clock.note_reply_at(time(100, 0), start, QUICK);
        clock.note_reply_at(time(90, 0), start, QUICK);
        assert_eq!(clock.at(start + Duration::from_secs(1)), Some(time(91, 0)));
    }

    #[test]
    fn a_slow_reply_changes_nothing_and_an_old_estimate_expires() {
        let (clock, start) = (ServerClock::default(), Instant::now());
        clock.note_reply_at(time(100, 0), start, QUICK);
        // A replayed reply of five seconds ago.
        clock.note_reply_at(time(95, 0), start, Duration::from_secs(5));
        assert_eq!(clock.at(start), Some(time(100, 0)));
        assert_eq!(clock.at(start + KNOWN_FOR), None);
    }
}
