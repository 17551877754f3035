//! The limit on the bytes that all peers together may have in flight to this host (incast control).
//!
//! A switch buffers little for each port. When many servers answer at the same time, the switch
//! drops what does not fit. An answer whose last segments are dropped arrives after a
//! retransmission time-out of 200 ms. TCP congestion control reacts too late, because each
//! connection knows only its own traffic. The receiver knows all of it. So it gives each connection
//! a share of one limit, as that connection's receive window.
//!
//! ```text
//!   permits               = limit / useful share: no more connections receive at the same time
//!                           (`receive_permits.rs`)
//!   share of a connection = limit / receiving connections (recent maximum), at least two segments
//!
//!   limit: 48 KiB at first: fits the port buffer of a small switch, and fills 1 Gbit/s
//!     doubled on trial   when the bytes in flight cover no more time than a round trip plus the
//!                        wake-up of a receiver, so that the limit may be what bounds the rate. The
//!                        trial is kept if the rate grows by a tenth, else the old limit returns.
//!     halved             after a loss. After a loss or a failed trial the next trial waits; the
//!                        wait doubles each time.
//! ```
//!
//! A receiver does not see losses. It sees segments that arrive before one that was sent earlier. A
//! few of these only took another path (several queues of one network interface, links of a bond).
//! Losses by a full queue are many reordered segments, or one that arrives after the sender's
//! time-out.
//!
//! A rate is measured over an interval, and counts the bytes of all calls. A call that was in
//! progress when a trial began ends within the trial; if only whole calls counted, overlapping
//! calls would count for nothing. An interval begins when the first call that ran entirely under
//! the present limit ends.
//!
//! While the limit bounds the rate, the rate is the same in every interval: one limit per round
//! trip. So a trial begins only after a few similar intervals, and must beat the best of all. A
//! rate that was higher before under the same limit is lower now because of other traffic (other
//! clients of a server, a disk), and a larger limit would only take bandwidth from it.
//!
//! Invariants:
//! 1. Connections on loopback have no limit.
//! 2. The limit is never below [`LIMIT_BYTES_MIN`].
//! 3. Without losses, a link whose rate the limit bounds is filled after a few trials, whatever its
//!    length.
//!
//! `set_limit` asserts 2. `incast` makes no limit for a loopback address (1). A simulated link in
//! the tests shows 3, which is about rates over time.

use std::time::Duration;

/// The first limit.
pub(super) const LIMIT_BYTES_INITIAL: u64 = 48 << 10;
/// Below this, delayed acknowledgements are more frequent than full queues.
const LIMIT_BYTES_MIN: u64 = 16 << 10;
/// Two segments. Below, every segment waits for an acknowledgement, which may wait for a second
/// segment.
const SHARE_BYTES_MIN: u64 = 2 * 1448;
/// A window that is worth a system call. It holds enough segments behind a lost one to reveal the
/// loss.
const SHARE_BYTES_USEFUL: u64 = 6 << 10;
/// Twice that window halves the work for each byte (docs/adr/0022).
const SHARE_BYTES_GOOD: u64 = 12 << 10;
/// With fewer permits, the link is idle while one peer is slow.
const CLIENT_PERMITS_MIN: usize = 4;
/// Clients write whenever they like. With fewer permits, one slow client would hold a large part of
/// the link.
const SERVER_PERMITS_MIN: usize = 8;
/// From this value on, the receiver sets no limit.
const LIMIT_BYTES_MAX: u64 = 64 << 20;
/// A rate is measured over at least this time and this many limits of bytes.
const INTERVAL_MIN: Duration = Duration::from_millis(20);
const INTERVAL_LIMITS_MIN: u64 = 16;
/// The time that a receiver may need to wake up, and the round trips that may be in flight.
const WAKEUP_LATENCY: Duration = Duration::from_micros(200);
const ROUND_TRIPS: u32 = 3;
/// The factor by which a trial must raise the rate.
const GAIN: f64 = 1.1;
/// Similar intervals before a trial, and the least share of the best rate that each must have had.
const STABLE_INTERVALS_MIN: u32 = 3;
const STABLE_RATIO: f64 = 0.9;
/// The best rate decays by this factor in each interval, so that a lucky one is forgotten.
const BEST_RATE_DECAY: f64 = 0.995;
/// Without losses, one segment in this many may arrive out of order in the long run, and
/// [`REORDERING_MAX`] in a burst.
const REORDERING_PERIOD_SEGMENTS: u64 = 256;
const REORDERING_MAX: u64 = 32;
const SEGMENT_BYTES: u64 = 1448;
/// A segment that only the sender's time-out brings is at least this late.
const RETRANSMISSION_TIMEOUT: Duration = Duration::from_millis(200);
/// The wait between trials.
const TRIAL_WAIT_MIN: Duration = Duration::from_secs(1);
const TRIAL_WAIT_MAX: Duration = Duration::from_secs(64);
/// The maximum number of receiving connections counts for this long.
const RECENT: Duration = Duration::from_secs(1);

/// A moment, and the total of received bytes at that moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ReceiveMark {
    pub(super) at: Duration,
    pub(super) received: u64,
}

/// What one permit observed of the network path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PathSample {
    /// Segments that arrived out of order.
    pub(super) out_of_order: u32,
    /// Minimum RTT of the farthest server; zero where none is known.
    pub(super) round_trip: Duration,
}

/// The limit and the state of its adaptation; see the module.
#[derive(Debug)]
pub(super) struct InFlightLimit {
    limit: u64,
    /// When the limit last changed.
    changed_at: Duration,
    receiving: usize,
    /// The recent maximum of `receiving`, and when it was reached.
    receiving_peak: (usize, Duration),
    /// Busy time is accounted up to here.
    busy_since: Duration,
    interval: Option<MeasuringInterval>,
    /// The rate of the last interval; 0 until one has ended.
    rate: f64,
    /// The best rate under the present limit, and how many of the last intervals came near it.
    best: f64,
    stable_intervals: u32,
    trial: Option<LimitTrial>,
    /// [`REORDERING_PERIOD_SEGMENTS`] for each segment out of order, minus the segments received
    /// since.
    reordering: u64,
    /// The total of received bytes that the reordering count covers.
    reordering_counted_until: u64,
    /// No trial begins before this time, and the length of the next wait.
    next_trial_at: Duration,
    trial_wait: Duration,
}

#[derive(Clone, Copy, Debug)]
struct MeasuringInterval {
    /// The total of received bytes at its beginning.
    begun_at: u64,
    /// How long at least one connection was receiving.
    busy: Duration,
}

/// The state before a trial.
#[derive(Clone, Copy, Debug)]
struct LimitTrial {
    limit: u64,
    rate: f64,
}

impl Default for InFlightLimit {
    fn default() -> Self {
        Self {
            limit: LIMIT_BYTES_INITIAL,
            changed_at: Duration::ZERO,
            receiving: 0,
            receiving_peak: (1, Duration::ZERO),
            busy_since: Duration::ZERO,
            interval: None,
            rate: 0.0,
            best: 0.0,
            stable_intervals: 0,
            trial: None,
            reordering: 0,
            reordering_counted_until: 0,
            next_trial_at: Duration::ZERO,
            trial_wait: TRIAL_WAIT_MIN,
        }
    }
}

impl InFlightLimit {
    /// Permits of a client whose calls use up to `widest` connections: all of one call, if each
    /// gets a useful share; beyond that as many as get a good share.
    pub(super) fn client_permits(&self, widest: usize) -> usize {
        if self.limit >= LIMIT_BYTES_MAX {
            return usize::MAX;
        }
        let (useful, good) = (self.limit / SHARE_BYTES_USEFUL, self.limit / SHARE_BYTES_GOOD);
        widest.min(useful as usize).max(good as usize).max(CLIENT_PERMITS_MIN)
    }

    /// Permits of a server.
    pub(super) fn server_permits(&self) -> usize {
        let useful = (self.limit / SHARE_BYTES_USEFUL) as usize;
        if self.limit < LIMIT_BYTES_MAX { useful.max(SERVER_PERMITS_MIN) } else { usize::MAX }
    }

    /// The limit, and the time in which that many bytes arrived recently; zero while it is not
    /// known.
    pub(super) fn in_flight(&self) -> (u64, Duration) {
        let drains_in = if self.rate > 0.0 {
            Duration::from_secs_f64(self.limit as f64 / self.rate)
        } else {
            Duration::ZERO
        };
        (self.limit, drains_in)
    }

    /// `connections` more start to receive. Returns the window of each one; `None` without a limit.
    pub(super) fn start_receiving(&mut self, connections: usize, now: Duration) -> Option<u32> {
        self.account(now);
        self.receiving += connections;
        if self.receiving >= self.receiving_peak.0
            || now.saturating_sub(self.receiving_peak.1) > RECENT
        {
            self.receiving_peak = (self.receiving, now);
        }
        let share =
            (self.limit / self.receiving_peak.0.next_power_of_two() as u64).max(SHARE_BYTES_MIN);
        (self.limit < LIMIT_BYTES_MAX).then_some(share as u32)
    }

    /// `connections` stop receiving.
    pub(super) fn stop_receiving(&mut self, connections: usize, now: Duration) {
        self.account(now);
        self.receiving -= connections;
    }

    fn account(&mut self, now: Duration) {
        if let Some(epoch) = &mut self.interval
            && self.receiving > 0
        {
            epoch.busy += now.saturating_sub(self.busy_since);
        }
        self.busy_since = now;
    }

    /// A permit that lasted from `begun` to `ended` is finished. The totals of successive calls
    /// never decrease.
    pub(super) fn permit_finished(
        &mut self,
        begun: ReceiveMark,
        ended: ReceiveMark,
        path: PathSample,
    ) {
        let ReceiveMark { at: now, received: total } = ended;
        self.account(now);
        let segments = (total - self.reordering_counted_until) / SEGMENT_BYTES;
        self.reordering_counted_until += segments * SEGMENT_BYTES;
        if begun.at < self.changed_at {
            return; // it ran under another limit
        }
        let idle = self.link_idle_time(now.saturating_sub(begun.at), total - begun.received);
        self.count_reordering(path.out_of_order, idle, segments);
        if self.reordering >= REORDERING_MAX * REORDERING_PERIOD_SEGMENTS {
            self.set_limit((self.limit / 2).max(LIMIT_BYTES_MIN), now);
            self.delay_trials(now);
            return;
        }
        let MeasuringInterval { begun_at, busy } = *self
            .interval
            .get_or_insert(MeasuringInterval { begun_at: total, busy: Duration::ZERO });
        let bytes = total - begun_at;
        if busy >= INTERVAL_MIN && bytes >= INTERVAL_LIMITS_MIN * self.limit {
            self.interval = Some(MeasuringInterval { begun_at: total, busy: Duration::ZERO });
            self.evaluate(bytes as f64 / busy.as_secs_f64(), path.round_trip, now);
        }
    }

    /// The part of a permit's time that the link did not need for the received bytes, at the recent
    /// rate.
    fn link_idle_time(&self, permit_time: Duration, bytes: u64) -> Duration {
        let busy = if self.rate > 0.0 {
            Duration::from_secs_f64(bytes as f64 / self.rate)
        } else {
            Duration::ZERO
        };
        permit_time.saturating_sub(busy)
    }

    /// Counts segments out of order. `idle` is the link's idle time during the permit, `segments`
    /// what arrived since the last call.
    fn count_reordering(&mut self, out_of_order: u32, idle: Duration, segments: u64) {
        self.reordering = (self.reordering + u64::from(out_of_order) * REORDERING_PERIOD_SEGMENTS)
            .saturating_sub(segments);
        if out_of_order > 0 && idle >= RETRANSMISSION_TIMEOUT {
            // This may be a retransmission time-out. The longer the idle time, the weaker the
            // evidence.
            self.reordering += REORDERING_MAX * REORDERING_PERIOD_SEGMENTS
                / idle.div_duration_f64(RETRANSMISSION_TIMEOUT) as u64;
        }
    }

    /// At the end of an interval without losses.
    fn evaluate(&mut self, rate: f64, round_trip: Duration, now: Duration) {
        self.rate = rate;
        match self.trial.take() {
            Some(before) if rate < GAIN * before.rate => {
                self.set_limit(before.limit, now);
                self.best = before.rate;
                self.delay_trials(now);
                return;
            }
            Some(_) => self.trial_wait = TRIAL_WAIT_MIN,
            None => {}
        }
        let best = BEST_RATE_DECAY * self.best;
        self.best = rate.max(best);
        self.stable_intervals = match rate / best {
            part if part < STABLE_RATIO => 0,
            part if part <= 1.0 / STABLE_RATIO => self.stable_intervals + 1,
            _ => 1,
        };
        let on_the_way = Duration::from_secs_f64(self.limit as f64 / rate);
        let may_limit = self.stable_intervals >= STABLE_INTERVALS_MIN
            && on_the_way < WAKEUP_LATENCY.max(round_trip * ROUND_TRIPS);
        if now >= self.next_trial_at && may_limit && self.limit < LIMIT_BYTES_MAX {
            let before = LimitTrial { limit: self.limit, rate: self.best };
            self.set_limit(before.limit * 2, now);
            self.trial = Some(before);
        }
    }

    fn set_limit(&mut self, limit: u64, now: Duration) {
        debug_assert!(limit >= LIMIT_BYTES_MIN, "invariant 2: the limit is below its minimum");
        (self.limit, self.changed_at, self.interval, self.trial, self.reordering) =
            (limit, now, None, None, 0);
        (self.best, self.stable_intervals) = (0.0, 0);
    }

    fn delay_trials(&mut self, now: Duration) {
        self.next_trial_at = now + self.trial_wait;
        self.trial_wait = (self.trial_wait * 2).min(TRIAL_WAIT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link, the queue before it, and its round trip while the queue is empty.
    struct Line {
        bytes_per_second: f64,
        queue: u64,
        round_trip: Duration,
        /// Segments out of order in a call whose queue overflows.
        losses_seen: u32,
        /// The same in a call whose queue does not overflow.
        disorder: u32,
    }

    impl Default for Line {
        fn default() -> Self {
            Self {
                bytes_per_second: 117e6,
                queue: 64 << 10,
                round_trip: us(100),
                losses_seen: 8,
                disorder: 0,
            }
        }
    }

    impl Line {
        /// Reads 4 MiB at a time for `seconds`. Returns bytes per second and the number of losses.
        fn read(
            &self,
            state: &mut InFlightLimit,
            (now, total): (&mut Duration, &mut u64),
            seconds: u64,
        ) -> (f64, u32) {
            let (start, before, mut losses) = (*now, *total, 0);
            let end = start + Duration::from_secs(seconds);
            while *now < end {
                let begun = ReceiveMark { at: *now, received: *total };
                let share =
                    u64::from(state.start_receiving(4, *now).unwrap_or(u32::MAX)).min(1 << 30);
                let window = 4 * share;
                let alone =
                    window as f64 / (self.round_trip + Duration::from_micros(20)).as_secs_f64();
                let rate = alone.min(self.bytes_per_second);
                let in_line = (self.bytes_per_second * self.round_trip.as_secs_f64()) as u64;
                let lost = window > self.queue + in_line;
                let (stall, out_of_order) =
                    if lost { (0.2, self.losses_seen) } else { (0.0, self.disorder) };
                *now += Duration::from_secs_f64((4 << 20) as f64 / rate + stall);
                *total += 4 << 20;
                losses += u32::from(lost);
                state.stop_receiving(4, *now);
                let ended = ReceiveMark { at: *now, received: *total };
                state.permit_finished(
                    begun,
                    ended,
                    PathSample { out_of_order, round_trip: self.round_trip },
                );
            }
            ((*total - before) as f64 / (*now - start).as_secs_f64(), losses)
        }
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// A call on four connections from `mark` on, which lasts `time`. Returns its end.
    fn call(
        state: &mut InFlightLimit,
        mark: ReceiveMark,
        (bytes, time): (u64, Duration),
        path: PathSample,
    ) -> ReceiveMark {
        state.start_receiving(4, mark.at);
        let ended = ReceiveMark { at: mark.at + time, received: mark.received + bytes };
        state.stop_receiving(4, ended.at);
        state.permit_finished(mark, ended, path);
        ended
    }

    #[test]
    fn permits_cover_the_widest_call_at_useful_shares_or_all_good_shares() {
        let connections = |limit: u64, widest| {
            InFlightLimit { limit, ..InFlightLimit::default() }.client_permits(widest)
        };
        assert_eq!(
            [1, 4, 6, 8, 16].map(|widest| connections(LIMIT_BYTES_INITIAL, widest)),
            [4, 4, 6, 8, 8]
        );
        assert_eq!(
            [1, 4, 6, 8, 16].map(|widest| connections(2 * LIMIT_BYTES_INITIAL, widest)),
            [8, 8, 8, 8, 16]
        );
        assert_eq!([1, 4, 6, 8, 16].map(|widest| connections(LIMIT_BYTES_MIN, widest)), [4; 5]);
        assert_eq!(connections(LIMIT_BYTES_MAX, 1), usize::MAX);
    }

    #[test]
    fn a_small_switch_loses_nothing_and_its_link_is_full() {
        let line = Line::default();
        let mut state = InFlightLimit::default();
        let (rate, losses) = line.read(&mut state, (&mut us(0), &mut 0), 15);
        assert_eq!(losses, 0);
        assert!(rate > 0.95 * 117e6, "{rate}");
        assert_eq!(state.limit, LIMIT_BYTES_INITIAL);
    }

    #[test]
    fn a_smaller_queue_is_found_and_seldom_tried_beyond() {
        let line = Line { queue: 24 << 10, ..Line::default() };
        let (mut state, mut now, mut total) = (InFlightLimit::default(), Duration::ZERO, 0);
        line.read(&mut state, (&mut now, &mut total), 3);
        let (rate, losses) = line.read(&mut state, (&mut now, &mut total), 10);
        assert!(state.limit <= LIMIT_BYTES_INITIAL / 2 && losses <= 3, "{} {losses}", state.limit);
        assert!(rate > 0.9 * 117e6, "{rate}");
    }

    #[test]
    fn one_segment_after_a_time_out_indicates_a_loss() {
        let line = Line { queue: 24 << 10, losses_seen: 1, ..Line::default() };
        let (mut state, mut now, mut total) = (InFlightLimit::default(), Duration::ZERO, 0);
        let (_, losses) = line.read(&mut state, (&mut now, &mut total), 3);
        assert!(state.limit <= LIMIT_BYTES_INITIAL / 2 && losses <= 3, "{} {losses}", state.limit);
    }

    #[test]
    fn a_few_reordered_segments_cost_nothing() {
        // A call has 2,900 segments.
        for (disorder, least) in
            [(8, LIMIT_BYTES_INITIAL), (11, LIMIT_BYTES_INITIAL), (40, LIMIT_BYTES_MIN)]
        {
            let line = Line { disorder, ..Line::default() };
            let mut state = InFlightLimit::default();
            line.read(&mut state, (&mut us(0), &mut 0), 60);
            assert_eq!(state.limit, least, "{disorder} out of their order in a call");
        }
    }

    #[test]
    fn long_large_calls_do_not_count_as_a_time_out() {
        // 64 MiB at 1 Gbit/s. A few of the 46,000 segments take another path.
        let (mut state, mut mark) = (InFlightLimit::default(), ReceiveMark::default());
        for _ in 1..100 {
            let path = PathSample { out_of_order: 20, round_trip: us(50) };
            mark = call(&mut state, mark, (64 << 20, Duration::from_millis(570)), path);
        }
        assert_eq!(state.limit, LIMIT_BYTES_INITIAL);
    }

    #[test]
    fn a_slow_link_does_not_count_as_a_time_out_but_a_pause_does() {
        // 512 KiB at 100 Mbit/s, mostly used by others; sometimes a segment takes another path.
        let (mut state, mut mark) = (InFlightLimit::default(), ReceiveMark::default());
        let took = |ms, out_of_order| {
            (
                (512 << 10, Duration::from_millis(ms)),
                PathSample { out_of_order, round_trip: us(50) },
            )
        };
        for at in 0..300 {
            let (what, path) = took(250 + at % 5 * 20, u32::from(at > 2 && at % 3 == 0));
            mark = call(&mut state, mark, what, path);
        }
        assert_eq!(state.limit, LIMIT_BYTES_INITIAL);
        let (what, path) = took(250 + 80 + 200, 1);
        call(&mut state, mark, what, path);
        assert_eq!(state.limit, LIMIT_BYTES_INITIAL / 2);
    }

    #[test]
    fn fast_and_long_links_are_filled() {
        let lines =
            [(12.5e9, 8 << 20, us(50)), (1.25e9, 1 << 20, us(200)), (117e6, 4 << 20, us(20_000))];
        for (bytes_per_second, queue, round_trip) in lines {
            let line = Line { bytes_per_second, queue, round_trip, ..Line::default() };
            let (mut state, mut now, mut total) = (InFlightLimit::default(), Duration::ZERO, 0);
            line.read(&mut state, (&mut now, &mut total), 20);
            let (rate, losses) = line.read(&mut state, (&mut now, &mut total), 3);
            assert_eq!(losses, 0, "{bytes_per_second}");
            assert!(
                rate > 0.9 * bytes_per_second,
                "{rate} of {bytes_per_second}, bound {}",
                state.limit
            );
        }
    }

    #[test]
    fn a_useless_trial_is_reverted_and_repeated_more_rarely() {
        // The client itself is the bottleneck: 300 MB/s, whatever is in flight.
        let (mut state, mut mark, mut trials) =
            (InFlightLimit::default(), ReceiveMark::default(), 0);
        while mark.at < Duration::from_secs(120) {
            let before = state.limit;
            let time = Duration::from_secs_f64(f64::from(4 << 20) / 300e6);
            mark = call(
                &mut state,
                mark,
                (4 << 20, time),
                PathSample { out_of_order: 0, round_trip: us(50) },
            );
            trials += u32::from(state.limit > before);
        }
        assert!((1..=8).contains(&trials), "{trials}");
        assert!(state.limit <= 2 * LIMIT_BYTES_INITIAL);
    }

    #[test]
    fn a_rate_lowered_by_other_traffic_does_not_raise_the_limit() {
        // 100 Mbit/s shared with others. No connection saw the link idle: a round trip of 5 ms.
        let (mut state, mut mark, mut trials) =
            (InFlightLimit::default(), ReceiveMark::default(), 0);
        let mut random = 1_u64;
        while mark.at < Duration::from_secs(120) {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // four calls of ten have the whole link
            let share = 0.4 + (random >> 40) as f64 / f64::from(1 << 24);
            let (before, time) = (
                state.limit,
                Duration::from_secs_f64(f64::from(1 << 20) / (11.8e6 * share.min(1.0))),
            );
            mark = call(
                &mut state,
                mark,
                (1 << 20, time),
                PathSample { out_of_order: 0, round_trip: us(5000) },
            );
            trials += u32::from(state.limit > before);
            assert!(state.limit <= 2 * LIMIT_BYTES_INITIAL, "at {:?}", mark.at);
        }
        assert!(state.limit == LIMIT_BYTES_INITIAL && trials <= 8, "{} {trials}", state.limit);
    }

    #[test]
    fn a_trial_counts_the_bytes_of_calls_that_began_before_it() {
        // Always sixteen calls of 1 MiB in progress, each on one connection, all equally fast; the
        // round trip is 150 us.
        const CALLS: u64 = 16;
        let (mut state, mut now, mut total) = (InFlightLimit::default(), Duration::ZERO, 0);
        let mut calls: Vec<(ReceiveMark, u64)> =
            (0..CALLS).map(|call| (ReceiveMark::default(), (call + 1) << 16)).collect();
        state.start_receiving(CALLS as usize, now);
        while now < Duration::from_secs(3) {
            let rate = (state.limit as f64 / us(150).as_secs_f64()).min(1.25e9);
            now += us(100);
            let came = (rate * us(100).as_secs_f64()) as u64 / CALLS;
            for (begun, left) in &mut calls {
                total += came;
                *left = left.saturating_sub(came);
                if *left == 0 {
                    state.stop_receiving(1, now);
                    let ended = ReceiveMark { at: now, received: total };
                    state.permit_finished(
                        *begun,
                        ended,
                        PathSample { out_of_order: 0, round_trip: us(50) },
                    );
                    state.start_receiving(1, now);
                    (*begun, *left) = (ended, 1 << 20);
                }
            }
        }
        assert!(state.limit as f64 / us(150).as_secs_f64() > 0.9 * 1.25e9, "{}", state.limit);
    }

    #[test]
    fn connections_share_the_limit_and_a_single_one_gets_all_of_it_again() {
        let mut state = InFlightLimit::default();
        assert_eq!(
            state.start_receiving(16, Duration::ZERO),
            Some((LIMIT_BYTES_INITIAL / 16) as u32)
        );
        assert_eq!(state.start_receiving(1, Duration::ZERO), Some(SHARE_BYTES_MIN as u32));
        state.stop_receiving(17, us(10));
        assert_eq!(
            state.start_receiving(1, us(20)),
            Some(SHARE_BYTES_MIN as u32),
            "the sixteen still count for a while"
        );
        state.stop_receiving(1, us(30));
        assert_eq!(
            state.start_receiving(1, Duration::from_secs(3)),
            Some(LIMIT_BYTES_INITIAL as u32)
        );
    }
}
