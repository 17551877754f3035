//! Whether the daemons take bytes more slowly than a copy in memory takes: then what is written is gathered in long stretches.
//!
//! ```text
//!   through ── SLOW in turn are slow ──> gathered ── PROBE_BYTES were sent ──> one goes through, timed: as it is
//!      ^────────────── one is not ──────────┴── a stretch is slower than `from` ──> through
//! ```
//!
//! A long stretch has no more than what the daemons took of late in [`STRETCH_TIME`].

use std::{sync::Mutex, time::Duration};

use super::stretch::STRETCH_BYTES;
use crate::files::lock;

/// So many writes in turn are slow before that is believed.
const SLOW: u32 = 4;
/// After so many bytes that were gathered a write goes through, to see whether it is slow still: 7 ms in a second, with four daemons
/// of 1 Gbit/s each.
const PROBE_BYTES: u64 = 512 << 20;

/// A stretch that is on its way and the one behind it are as long at the daemons as bytes may stay gathered
/// ([`GATHER_AGE`](super::gather::GATHER_AGE)).
const STRETCH_TIME: Duration = Duration::from_millis(500);

/// Between which rates of a write that goes straight through, in bytes a second, what is written is gathered in long stretches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowRates {
    /// Slower ones are not: the shortest stretch, and the one behind it, take longer than bytes may stay gathered. 0: whatever they take.
    pub from: u64,
    /// Nor are these, and faster ones: a copy costs more than it gains.
    pub below: u64,
}

impl Default for SlowRates {
    fn default() -> Self {
        Self { from: 2 * STRETCH_BYTES, below: 1_000_000_000 }
    }
}

impl SlowRates {
    /// Whatever a write takes, from the first one on.
    pub const ALL: Self = Self { from: 0, below: u64::MAX };
    /// Never, however long a write takes.
    pub const NONE: Self = Self { from: 0, below: 0 };

    fn contain(self, rate: u64) -> bool {
        (self.from..self.below).contains(&rate)
    }

    /// The most bytes of a long stretch, if the last went at this rate: so many land in time.
    fn stretch_bytes_max(self, rate: u64) -> u64 {
        let in_time = (u128::from(rate) * STRETCH_TIME.as_millis() / 1000) as u64;
        if self.from == 0 { u64::MAX } else { in_time }
    }
}

/// How fast the daemons of a mount are.
#[derive(Debug)]
pub(super) struct Pace {
    rates: SlowRates,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// So many writes in turn were slow.
    slow: u32,
    /// Sent in long stretches, since a write was timed.
    unseen: u64,
    /// Of the last write or stretch, in bytes a second.
    rate: u64,
}

impl Pace {
    pub(super) fn new(rates: SlowRates) -> Self {
        let slow = if rates == SlowRates::ALL { SLOW } else { 0 };
        Self { rates, state: Mutex::new(State { slow, ..State::default() }) }
    }

    /// The most bytes of a long stretch, if what is written now is gathered in such.
    pub(super) fn long_stretch(&self) -> Option<u64> {
        let state = lock(&self.state);
        let is_slow = state.slow >= SLOW && state.unseen < PROBE_BYTES;
        is_slow.then(|| self.rates.stretch_bytes_max(state.rate))
    }

    /// So many bytes went to the daemons as they do where these are fast.
    pub(super) fn went_through(&self, bytes: usize, took: Duration) {
        let (rate, mut state) = (rate(bytes, took), lock(&self.state));
        let slow = self.rates.contain(rate);
        state.rate = rate;
        state.slow = if slow { (state.slow + 1).min(SLOW) } else { 0 };
        state.unseen = 0;
    }

    /// So many went as a long stretch. The end of a file is shorter than any, and its rate is that of a round trip.
    pub(super) fn went_gathered(&self, bytes: usize, took: Duration) {
        if (bytes as u64) < STRETCH_BYTES {
            return;
        }
        let (rate, mut state) = (rate(bytes, took), lock(&self.state));
        state.rate = rate;
        state.unseen += bytes as u64;
        if rate < self.rates.from {
            state.slow = 0;
        }
    }
}

/// In bytes a second.
fn rate(bytes: usize, took: Duration) -> u64 {
    let rate = bytes as u128 * 1_000_000_000 / took.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    /// 1 Gbit/s.
    const LINE: Duration = Duration::from_micros(8900);
    const COPY: Duration = Duration::from_micros(300);

    fn is_slow(pace: &Pace) -> bool {
        pace.long_stretch().is_some()
    }

    fn slow() -> Pace {
        let pace = Pace::new(SlowRates::default());
        (0..SLOW).for_each(|_| pace.went_through(MIB, LINE));
        assert!(is_slow(&pace));
        pace
    }

    #[test]
    fn a_line_that_is_slow_several_times_in_turn_is_slow_and_one_fast_write_ends_it() {
        let pace = Pace::new(SlowRates::default());
        for _ in 0..10 {
            (1..SLOW).for_each(|_| pace.went_through(MIB, LINE));
            assert!(!is_slow(&pace));
            pace.went_through(MIB, COPY);
        }
        let pace = slow();
        pace.went_through(MIB, COPY);
        assert!(!is_slow(&pace));
    }

    #[test]
    fn fast_daemons_are_never_slow() {
        let pace = Pace::new(SlowRates::default());
        (0..1000).for_each(|_| pace.went_through(MIB, COPY));
        assert!(!is_slow(&pace));
    }

    #[test]
    fn what_is_gathered_says_nothing_of_a_fast_line_and_now_and_then_one_goes_through() {
        let pace = slow();
        let mut sent = 0;
        while is_slow(&pace) {
            pace.went_gathered(4 * MIB, COPY);
            sent += 4 * MIB as u64;
        }
        assert_eq!(sent, PROBE_BYTES);
        pace.went_through(MIB, LINE);
        assert!(is_slow(&pace), "it was, and is");
    }

    #[test]
    fn a_line_that_holds_bytes_for_longer_than_they_may_be_gathered_is_not_waited_for_so() {
        let second = Duration::from_secs(1);
        let pace = Pace::new(SlowRates::default());
        (0..SLOW).for_each(|_| pace.went_through(MIB - 1, second));
        assert!(!is_slow(&pace));
        (0..SLOW).for_each(|_| pace.went_through(MIB, second));
        assert!(is_slow(&pace));
        pace.went_gathered(MIB - 1, second);
        assert!(!is_slow(&pace));
    }

    #[test]
    fn a_stretch_and_the_one_behind_it_land_before_a_second_is_over() {
        let pace = slow();
        for (took, most) in [(500, 4 << 20), (1000, 2 << 20), (2500, 838_860), (1, 2000 << 20)] {
            pace.went_gathered(4 * MIB, Duration::from_millis(took));
            assert_eq!(pace.long_stretch(), Some(most), "{took} ms");
        }
        pace.went_gathered(1000, LINE);
        assert_eq!(pace.long_stretch(), Some(2000 << 20), "the end of a file says nothing");
        let all = Pace::new(SlowRates::ALL);
        all.went_gathered(MIB, Duration::from_secs(100));
        assert_eq!(all.long_stretch(), Some(u64::MAX), "it is not asked how long they take");
    }

    #[test]
    fn all_and_none() {
        for (rates, expected) in [(SlowRates::ALL, true), (SlowRates::NONE, false)] {
            let pace = Pace::new(rates);
            assert_eq!(is_slow(&pace), expected);
            (0..SLOW).for_each(|_| pace.went_through(MIB, Duration::ZERO));
            assert_eq!(is_slow(&pace), expected);
            (0..SLOW).for_each(|_| pace.went_through(1, Duration::from_secs(100)));
            assert_eq!(is_slow(&pace), expected);
        }
    }
}
