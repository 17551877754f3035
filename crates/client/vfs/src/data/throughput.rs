//! Whether the daemons take bytes more slowly than a copy in memory: then large writes are
//! coalesced into long flush units.
//!
//! ```text
//!   direct ── SLOW_WRITES in a row are slow ──> buffered ── PROBE_BYTES sent ──> one direct write
//!      ^──────────── that one is not slow ──────────┴── a unit is slower than `from` ──> direct
//! ```
//!
//! A long flush unit has at most as many bytes as the daemons accepted in [`UNIT_TIME`] lately.

use std::{sync::Mutex, time::Duration};

use super::flush_unit::UNIT_BYTES;
use crate::mutex::lock;

/// How many slow writes in a row show that the daemons are slow.
const SLOW_WRITES: u32 = 4;
/// After this number of buffered bytes one write is sent directly, to measure the daemons again: 7
/// ms in a second, with four daemons of 1 Gbit/s each.
const PROBE_BYTES: u64 = 512 << 20;

/// A unit that is being sent and the one behind it together take as long as bytes may stay buffered
/// ([`BUFFER_AGE_MAX`](super::write_coalescing::BUFFER_AGE_MAX)).
const UNIT_TIME: Duration = Duration::from_millis(500);

/// The rates of direct writes, in bytes a second, at which large writes are buffered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowRates {
    /// Not at lower rates: the shortest flush unit and the one behind it would take longer than
    /// bytes may stay buffered. 0: however long they take.
    pub from: u64,
    /// Not at this rate and above: the copy costs more than it gains.
    pub below: u64,
}

impl Default for SlowRates {
    fn default() -> Self {
        Self { from: 2 * UNIT_BYTES, below: 1_000_000_000 }
    }
}

impl SlowRates {
    /// Always, from the first write on.
    pub const ALL: Self = Self { from: 0, below: u64::MAX };
    /// Never.
    pub const NONE: Self = Self { from: 0, below: 0 };

    fn contain(self, rate: u64) -> bool {
        (self.from..self.below).contains(&rate)
    }

    /// The largest long unit that is sent in time at this rate.
    fn unit_bytes_max(self, rate: u64) -> u64 {
        let in_time = (u128::from(rate) * UNIT_TIME.as_millis() / 1000) as u64;
        if self.from == 0 { u64::MAX } else { in_time }
    }
}

/// How fast the daemons of a mount take bytes.
#[derive(Debug)]
pub(super) struct ThroughputEstimate {
    rates: SlowRates,
    state: Mutex<RateState>,
}

#[derive(Debug, Default)]
struct RateState {
    /// Slow writes in a row.
    slow: u32,
    /// Bytes sent in long units since the last direct write.
    since_probe: u64,
    /// The rate of the last write or unit, in bytes a second.
    rate: u64,
}

impl ThroughputEstimate {
    pub(super) fn new(rates: SlowRates) -> Self {
        let slow = if rates == SlowRates::ALL { SLOW_WRITES } else { 0 };
        Self { rates, state: Mutex::new(RateState { slow, ..RateState::default() }) }
    }

    /// The largest long flush unit, if large writes are buffered now.
    pub(super) fn long_unit_max(&self) -> Option<u64> {
        let state = lock(&self.state);
        let is_slow = state.slow >= SLOW_WRITES && state.since_probe < PROBE_BYTES;
        is_slow.then(|| self.rates.unit_bytes_max(state.rate))
    }

    /// Bytes were sent directly, in this time.
    pub(super) fn sent_directly(&self, bytes: usize, took: Duration) {
        let (rate, mut state) = (rate(bytes, took), lock(&self.state));
        let slow = self.rates.contain(rate);
        state.rate = rate;
        state.slow = if slow { (state.slow + 1).min(SLOW_WRITES) } else { 0 };
        state.since_probe = 0;
    }

    /// Bytes were sent as a long unit, in this time. The end of a file is shorter than a unit, and
    /// its rate is that of a round trip: it does not count.
    pub(super) fn sent_as_unit(&self, bytes: usize, took: Duration) {
        if (bytes as u64) < UNIT_BYTES {
            return;
        }
        let (rate, mut state) = (rate(bytes, took), lock(&self.state));
        state.rate = rate;
        state.since_probe += bytes as u64;
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
    /// 1 MiB over 1 Gbit/s.
    const LINK: Duration = Duration::from_micros(8900);
    const COPY: Duration = Duration::from_micros(300);

    fn is_slow(throughput: &ThroughputEstimate) -> bool {
        throughput.long_unit_max().is_some()
    }

    fn slow() -> ThroughputEstimate {
        let throughput = ThroughputEstimate::new(SlowRates::default());
        (0..SLOW_WRITES).for_each(|_| throughput.sent_directly(MIB, LINK));
        assert!(is_slow(&throughput));
        throughput
    }

    #[test]
    fn several_slow_writes_in_a_row_count_and_one_fast_write_ends_it() {
        let throughput = ThroughputEstimate::new(SlowRates::default());
        for _ in 0..10 {
            (1..SLOW_WRITES).for_each(|_| throughput.sent_directly(MIB, LINK));
            assert!(!is_slow(&throughput));
            throughput.sent_directly(MIB, COPY);
        }
        let throughput = slow();
        throughput.sent_directly(MIB, COPY);
        assert!(!is_slow(&throughput));
    }

    #[test]
    fn fast_daemons_are_never_slow() {
        let throughput = ThroughputEstimate::new(SlowRates::default());
        (0..1000).for_each(|_| throughput.sent_directly(MIB, COPY));
        assert!(!is_slow(&throughput));
    }

    #[test]
    fn while_writes_are_buffered_one_is_sent_directly_now_and_then() {
        let throughput = slow();
        let mut sent = 0;
        while is_slow(&throughput) {
            throughput.sent_as_unit(4 * MIB, COPY);
            sent += 4 * MIB as u64;
        }
        assert_eq!(sent, PROBE_BYTES);
        throughput.sent_directly(MIB, LINK);
        assert!(is_slow(&throughput), "still slow");
    }

    #[test]
    fn nothing_is_buffered_where_units_would_take_longer_than_allowed() {
        let second = Duration::from_secs(1);
        let throughput = ThroughputEstimate::new(SlowRates::default());
        (0..SLOW_WRITES).for_each(|_| throughput.sent_directly(MIB - 1, second));
        assert!(!is_slow(&throughput));
        (0..SLOW_WRITES).for_each(|_| throughput.sent_directly(MIB, second));
        assert!(is_slow(&throughput));
        throughput.sent_as_unit(MIB - 1, second);
        assert!(!is_slow(&throughput));
    }

    #[test]
    fn a_unit_and_the_one_behind_it_are_sent_within_a_second() {
        let throughput = slow();
        for (took, most) in [(500, 4 << 20), (1000, 2 << 20), (2500, 838_860), (1, 2000 << 20)] {
            throughput.sent_as_unit(4 * MIB, Duration::from_millis(took));
            assert_eq!(throughput.long_unit_max(), Some(most), "{took} ms");
        }
        throughput.sent_as_unit(1000, LINK);
        assert_eq!(
            throughput.long_unit_max(),
            Some(2000 << 20),
            "the end of a file does not count"
        );
        let all = ThroughputEstimate::new(SlowRates::ALL);
        all.sent_as_unit(MIB, Duration::from_secs(100));
        assert_eq!(all.long_unit_max(), Some(u64::MAX), "however long they take");
    }

    #[test]
    fn all_and_none() {
        for (rates, expected) in [(SlowRates::ALL, true), (SlowRates::NONE, false)] {
            let throughput = ThroughputEstimate::new(rates);
            assert_eq!(is_slow(&throughput), expected);
            (0..SLOW_WRITES).for_each(|_| throughput.sent_directly(MIB, Duration::ZERO));
            assert_eq!(is_slow(&throughput), expected);
            (0..SLOW_WRITES).for_each(|_| throughput.sent_directly(1, Duration::from_secs(100)));
            assert_eq!(is_slow(&throughput), expected);
        }
    }
}
