//! The metadata server's clock as a mount knows it: bytes that are buffered get the time at which the program wrote them, by the clock
//! that gives all other times.
//!
//! Each new file's attributes have the server's time. The answer was some time under way, so that the server's clock is never behind
//! what is derived from one. The answer that was fastest says it best: the estimate follows faster answers immediately, slower ones
//! by [`DRIFT`], as fast as clocks may drift apart. A server that changed its clock, or another server, is followed immediately.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use braid_client::Timestamp;

use crate::files::lock;

const NANOS: i128 = 1_000_000_000;
/// How much slower the server's clock may run than this machine's, in parts of a million: more than any that NTP corrects.
const DRIFT: i128 = 1_000;
/// Further apart than that, the server's clock was changed.
const STEP: i128 = NANOS;
/// An answer that took longer says nothing of the server's clock.
const SLOW: Duration = Duration::from_millis(500);
/// How long the estimate is good for: clocks drift apart.
const KNOWN_FOR: Duration = Duration::from_secs(600);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<Option<Known>>);

#[derive(Clone, Copy, Debug)]
struct Known {
    /// The server's time at `seen`, at least, in nanoseconds since 1970.
    server: i128,
    seen: Instant,
}

impl Known {
    fn at(&self, now: Instant) -> i128 {
        self.server
            + i128::try_from(now.saturating_duration_since(self.seen).as_nanos())
                .unwrap_or(i128::MAX)
    }

    /// The least that it may be by now, if the server's clock runs slower than this machine's.
    fn at_least(&self, now: Instant) -> i128 {
        let since: Duration = now.saturating_duration_since(self.seen);
        self.at(now) - i128::try_from(since.as_nanos()).unwrap_or_default() * DRIFT / 1_000_000
    }
}

impl ServerClock {
    /// The answer to a call that was made at `asked`, and has just come, has this time of the server in it.
    pub(crate) fn heard(&self, server: Timestamp, asked: Instant) {
        let now = Instant::now();
        self.heard_at(server, now, now.saturating_duration_since(asked));
    }

    fn heard_at(&self, server: Timestamp, now: Instant, took: Duration) {
        // Perhaps the answer to a first attempt, long ago.
        if took > SLOW {
            return;
        }
        let server = i128::from(server.seconds) * NANOS + i128::from(server.nanos);
        let mut known = lock(&self.0);
        let kept = known
            .filter(|known| (known.at(now) - server).abs() < STEP)
            .map(|known| known.at_least(now));
        *known = Some(Known { server: kept.map_or(server, |kept| kept.max(server)), seen: now });
    }

    /// The server's time now; `None` where it was not heard for [`KNOWN_FOR`].
    pub(crate) fn now(&self) -> Option<Timestamp> {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> Option<Timestamp> {
        let known = (*lock(&self.0))
            .filter(|known| now.saturating_duration_since(known.seen) < KNOWN_FOR)?;
        let server = known.at(now);
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
    fn the_fastest_answer_says_what_the_time_is() {
        let (clock, start) = (ServerClock::default(), Instant::now());
        assert_eq!(clock.at(start), None);
        clock.heard_at(time(100, 0), start, QUICK);
        // The second answer was 5 ms longer under way than the first.
        let later = start + Duration::from_millis(10);
        clock.heard_at(time(100, 5_000_000), later, QUICK);
        assert_eq!(
            clock.at(later),
            Some(time(100, 9_990_000)),
            "less what clocks may drift apart in 10 ms"
        );
        // The third was faster than both.
        clock.heard_at(time(100, 30_000_000), later + Duration::from_millis(10), QUICK);
        assert_eq!(clock.at(later + Duration::from_millis(10)), Some(time(100, 30_000_000)));
    }

    #[test]
    fn a_clock_that_was_changed_is_followed() {
        let (clock, start) = (ServerClock::default(), Instant::now());
        clock.heard_at(time(100, 0), start, QUICK);
        clock.heard_at(time(90, 0), start, QUICK);
        assert_eq!(clock.at(start + Duration::from_secs(1)), Some(time(91, 0)));
    }

    #[test]
    fn an_answer_that_was_long_under_way_changes_nothing_and_old_knowledge_is_none() {
        let (clock, start) = (ServerClock::default(), Instant::now());
        clock.heard_at(time(100, 0), start, QUICK);
        // A replayed answer of five seconds ago.
        clock.heard_at(time(95, 0), start, Duration::from_secs(5));
        assert_eq!(clock.at(start), Some(time(100, 0)));
        assert_eq!(clock.at(start + KNOWN_FOR), None);
    }
}
