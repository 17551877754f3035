//! Which connections may ask for large answers now, and the queue of calls that wait for permits.
//!
//! ```text
//!   a connection that has asked for a large answer, or receives one:
//!     asked less than FIRST_BYTE_TIMEOUT ago, or received
//!     something less than STALL_TIMEOUT ago:     uses a permit
//!     longer ago, and the link may be the cause: uses a permit
//!     asked less than STALL_TIMEOUT ago:         uses a permit while half of the permits receive,
//!                                                which then keep the link busy
//!     else the server is late, not the link:     uses no permit until it continues
//!
//!   a call requests permits for its connections: it gets those that are free, at least one, once
//!   all calls before it in the queue have theirs
//! ```
//!
//! The link may be the cause while it works and has brought other connections less than
//! [`PASSED_LIMITS_MAX`] limits of bytes since this connection last received. No more can be queued
//! before its answer, at the switch and at the server's network interface. So a slow link is not
//! taken for late servers, whose number would grow with every further connection that asks.
//!
//! Invariants:
//! 1. A waiting call holds nothing that other calls wait for here, and has not asked any server for
//!    what it waits to receive.
//! 2. Calls are served in the order of their requests. The first in the queue is woken when a
//!    connection is released, and polls at the time when the next connection may count as late. So
//!    no call waits longer than that for a server that does not answer.
//! 3. A dropped permit releases its connections. A dropped wait passes its position to the next
//!    call.
//!
//! `enter_queue` asserts the order in 2, and `release` asserts 3. What else a waiting call holds
//! cannot be seen here (1).

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
    time::Duration,
};

/// A first byte that takes longer waits for a disk or for the server. A full queue of
/// [`super::in_flight_limit::LIMIT_BYTES_INITIAL`] takes 0.4 ms at 1 Gbit/s.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_millis(1);
/// A server that pauses for longer within an answer has a problem, or its segments were lost.
const STALL_TIMEOUT: Duration = Duration::from_millis(20);
/// Limits of bytes that may arrive before an answer that is in flight: one at the switch port, one
/// at the server's network interface, which serves other clients too, and two for extents that
/// arrive out of turn.
const PASSED_LIMITS_MAX: u64 = 4;
/// A link on which nothing arrives for longer does not work, however slow it is.
const LINK_IDLE_MAX: Duration = Duration::from_millis(10);
/// Minimum interval between polls of a waiting call.
const RECHECK_INTERVAL_MIN: Duration = Duration::from_micros(100);

/// The permits in use and the queue; see the module.
#[derive(Debug, Default)]
pub(super) struct ReceivePermits {
    next: u64,
    next_ticket: u64,
    held: Vec<HeldPermit>,
    queue: VecDeque<(u64, Waker)>,
    link: LinkState,
}

/// What all connections have received, and what may be in flight.
#[derive(Clone, Copy, Debug)]
struct LinkState {
    received: u64,
    since: Duration,
    bound: u64,
    /// The link does not work if nothing arrives for this long.
    idle_after: Duration,
}

/// The permit of one call's connections.
#[derive(Debug)]
struct HeldPermit {
    id: u64,
    connections: usize,
    /// Incremented by the receiving code.
    received: Arc<AtomicU64>,
    /// The value of `received` last seen, when it last changed, and the link's total at that time.
    seen: u64,
    since: Duration,
    passed: u64,
}

/// The reply to a request for permits.
#[derive(Debug)]
pub(super) enum PermitReply {
    /// A permit for `connections` connections.
    Granted { id: u64, connections: usize, received: Arc<AtomicU64> },
    /// Not yet: wait for the waker, or poll again after this time, if one is given.
    NotYet(Option<Duration>),
}

impl Default for LinkState {
    fn default() -> Self {
        Self { received: 0, since: Duration::ZERO, bound: 0, idle_after: FIRST_BYTE_TIMEOUT }
    }
}

impl LinkState {
    /// Whether the link may be why a connection has received nothing since the link's total was
    /// `passed`.
    fn may_delay(&self, passed: u64, now: Duration) -> bool {
        let works = now.saturating_sub(self.since) < self.idle_after;
        works && self.received.saturating_sub(passed) < PASSED_LIMITS_MAX * self.bound
    }
}

impl ReceivePermits {
    /// Records that `received` bytes have arrived in total, and that `bound` bytes may be in
    /// flight, which take `drains_in`.
    pub(super) fn update_link(
        &mut self,
        received: u64,
        (bound, drains_in): (u64, Duration),
        now: Duration,
    ) {
        let since = if received == self.link.received { self.link.since } else { now };
        self.link = LinkState {
            received,
            since,
            bound,
            idle_after: (drains_in / 2).clamp(FIRST_BYTE_TIMEOUT, LINK_IDLE_MAX),
        };
    }

    /// Requests permits for `wanted` connections when `connections_max` exist. `ticket` is the
    /// position in the queue; `None` at first.
    pub(super) fn request(
        &mut self,
        (wanted, connections_max): (usize, usize),
        ticket: &mut Option<u64>,
        waker: &Waker,
        now: Duration,
    ) -> PermitReply {
        let front = self.queue.front().map(|(waiting, _)| *waiting);
        if front.is_none() || front == *ticket {
            let (taken, next_look) = self.permits_in_use(connections_max, now);
            if taken < connections_max {
                self.leave_queue(ticket);
                return self.grant_now(wanted.min(connections_max - taken), now);
            }
            self.enter_queue(ticket, waker);
            return PermitReply::NotYet(Some(next_look.max(RECHECK_INTERVAL_MIN)));
        }
        self.enter_queue(ticket, waker);
        PermitReply::NotYet(None)
    }

    /// Whether no permit is in use or waited for.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty() && self.queue.is_empty()
    }

    /// A permit for connections that must not wait.
    pub(super) fn grant_now(&mut self, connections: usize, now: Duration) -> PermitReply {
        let (id, received) = (self.next, Arc::new(AtomicU64::new(0)));
        self.next += 1;
        let passed = self.link.received;
        self.held.push(HeldPermit {
            id,
            connections,
            received: Arc::clone(&received),
            seen: 0,
            since: now,
            passed,
        });
        PermitReply::Granted { id, connections, received }
    }

    /// Adds up to `wanted` connections to a permit, if they are free and no call waits. Returns how
    /// many.
    pub(super) fn extend(
        &mut self,
        id: u64,
        (wanted, connections_max): (usize, usize),
        now: Duration,
    ) -> usize {
        if !self.queue.is_empty() {
            return 0;
        }
        let connections =
            wanted.min(connections_max.saturating_sub(self.permits_in_use(connections_max, now).0));
        if let Some(held) = self.held.iter_mut().find(|held| held.id == id) {
            held.connections += connections;
        }
        connections
    }

    /// Connections have stopped receiving.
    pub(super) fn release(&mut self, id: u64, connections: usize) {
        if let Some(at) = self.held.iter().position(|held| held.id == id) {
            debug_assert!(
                connections <= self.held[at].connections,
                "3: a connection is released once"
            );
            self.held[at].connections -= connections;
            if self.held[at].connections == 0 {
                self.held.swap_remove(at);
            }
        }
        self.wake_next();
    }

    /// The call with this ticket no longer waits.
    pub(super) fn leave_queue(&mut self, ticket: &mut Option<u64>) {
        let Some(ticket) = ticket.take() else { return };
        self.queue.retain(|(waiting, _)| *waiting != ticket);
        // The next call in the queue polls for itself from now on.
        self.wake_next();
    }

    fn enter_queue(&mut self, ticket: &mut Option<u64>, waker: &Waker) {
        if let Some((_, known)) =
            self.queue.iter_mut().find(|(waiting, _)| Some(*waiting) == *ticket)
        {
            known.clone_from(waker);
            return;
        }
        debug_assert!(
            self.queue.back().is_none_or(|(last, _)| *last < self.next_ticket),
            "2: calls wait in the order of their requests"
        );
        *ticket = Some(self.next_ticket);
        self.queue.push_back((self.next_ticket, waker.clone()));
        self.next_ticket += 1;
    }

    fn wake_next(&self) {
        if let Some((_, waker)) = self.queue.front() {
            waker.wake_by_ref();
        }
    }

    /// Permits in use, and the time until the next connection may count as late.
    fn permits_in_use(&mut self, connections_max: usize, now: Duration) -> (usize, Duration) {
        let (link, mut asked, mut late, mut receiving, mut next_look) =
            (self.link, 0, 0, 0, STALL_TIMEOUT);
        for held in &mut self.held {
            let received = held.received.load(Ordering::Relaxed);
            if received != held.seen {
                (held.seen, held.since, held.passed) = (received, now, link.received);
            }
            let nothing_for = now.saturating_sub(held.since);
            let (count, wait_time) = match held.seen {
                _ if link.may_delay(held.passed, now) => {
                    let wait_time = if held.seen == 0 { FIRST_BYTE_TIMEOUT } else { STALL_TIMEOUT };
                    let count = if held.seen == 0 { &mut asked } else { &mut receiving };
                    (count, wait_time.max(nothing_for + link.idle_after))
                }
                _ if nothing_for >= STALL_TIMEOUT => continue,
                0 if nothing_for < FIRST_BYTE_TIMEOUT => (&mut asked, FIRST_BYTE_TIMEOUT),
                0 => (&mut late, STALL_TIMEOUT),
                _ => (&mut receiving, STALL_TIMEOUT),
            };
            *count += held.connections;
            next_look = next_look.min(wait_time - nothing_for);
        }
        let late = if 2 * receiving >= connections_max { late } else { 0 };
        (asked + receiving + late, next_look)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::AtomicUsize,
        task::{Wake, Waker},
    };

    use super::*;

    const PLACES: usize = 4;

    /// Counts wake-ups.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// A granted permit: its id, its connections, and the counter of received bytes.
    fn granted(asked: PermitReply) -> (u64, usize, Arc<AtomicU64>) {
        match asked {
            PermitReply::Granted { id, connections, received } => (id, connections, received),
            PermitReply::NotYet(_) => panic!("has to wait"),
        }
    }

    fn ask(
        permits: &mut ReceivePermits,
        wanted: usize,
        ticket: &mut Option<u64>,
        now: Duration,
    ) -> PermitReply {
        permits.request((wanted, PLACES), ticket, Waker::noop(), now)
    }

    #[test]
    fn a_call_gets_the_free_permits_and_the_next_one_waits() {
        let mut permits = ReceivePermits::default();
        let (first, connections, _) = granted(ask(&mut permits, 3, &mut None, us(0)));
        assert_eq!(connections, 3);
        assert_eq!(granted(ask(&mut permits, 3, &mut None, us(0))).1, 1);
        let mut ticket = None;
        assert!(matches!(ask(&mut permits, 1, &mut ticket, us(1)), PermitReply::NotYet(Some(_))));
        permits.release(first, 2);
        assert_eq!(granted(ask(&mut permits, 8, &mut ticket, us(2))).1, 2);
        assert!(permits.queue.is_empty());
    }

    #[test]
    fn the_first_in_the_queue_is_woken_first_and_not_overtaken() {
        let mut permits = ReceivePermits::default();
        let (first, ..) = granted(ask(&mut permits, PLACES, &mut None, us(0)));
        let wakes: [Arc<Woken>; 3] = Default::default();
        let mut tickets = [None; 3];
        for (wake, ticket) in wakes.iter().zip(&mut tickets) {
            let waker = Waker::from(Arc::clone(wake));
            assert!(matches!(
                permits.request((1, PLACES), ticket, &waker, us(0)),
                PermitReply::NotYet(_)
            ));
        }
        permits.release(first, 1);
        let woken = || wakes.each_ref().map(|wake| wake.0.load(Ordering::Relaxed));
        assert_eq!(woken(), [1, 0, 0]);
        assert!(
            matches!(ask(&mut permits, 1, &mut None, us(1)), PermitReply::NotYet(None)),
            "a place is free, but not for it"
        );
        assert!(matches!(ask(&mut permits, 1, &mut tickets[1], us(1)), PermitReply::NotYet(None)));
        granted(ask(&mut permits, 1, &mut tickets[0], us(1)));
        assert_eq!(woken(), [1, 0, 0], "the replaced waker of the second one was woken");
        assert_eq!(permits.queue.front().map(|(waiting, _)| *waiting), tickets[1]);
    }

    #[test]
    fn a_call_that_waited_has_the_next_permit_number() {
        let mut permits = ReceivePermits::default();
        let (mut last, ..) = granted(ask(&mut permits, PLACES, &mut None, us(0)));
        for _ in 0..3 {
            let mut ticket = None;
            assert!(matches!(
                ask(&mut permits, PLACES, &mut ticket, us(0)),
                PermitReply::NotYet(_)
            ));
            permits.release(last, PLACES);
            let (next, ..) = granted(ask(&mut permits, PLACES, &mut ticket, us(0)));
            assert_eq!(
                next,
                last + 1,
                "calls that begin with every other server only leave the rest idle"
            );
            last = next;
        }
    }

    #[test]
    fn a_dropped_wait_passes_its_position_to_the_next_call() {
        let mut permits = ReceivePermits::default();
        let (first, ..) = granted(ask(&mut permits, PLACES, &mut None, us(0)));
        let (mut dropped, mut next, wake) = (None, None, Arc::new(Woken::default()));
        ask(&mut permits, 1, &mut dropped, us(0));
        permits.request((1, PLACES), &mut next, &Waker::from(Arc::clone(&wake)), us(0));
        permits.release(first, 1); // wakes the waiter that is about to be dropped
        permits.leave_queue(&mut dropped);
        assert_eq!(wake.0.load(Ordering::Relaxed), 1);
        granted(ask(&mut permits, 1, &mut next, us(1)));
    }

    #[test]
    fn a_server_that_does_not_answer_blocks_no_other_call() {
        let mut permits = ReceivePermits::default();
        let (_, _, received) = granted(ask(&mut permits, PLACES, &mut None, us(0)));
        let mut ticket = None;
        let PermitReply::NotYet(Some(look)) = ask(&mut permits, PLACES, &mut ticket, us(0)) else {
            panic!("the call is granted immediately")
        };
        assert_eq!(look, FIRST_BYTE_TIMEOUT);
        let (late, connections, _) = granted(ask(&mut permits, PLACES, &mut ticket, look));
        assert_eq!(connections, PLACES);
        permits.release(late, connections);
        // The late answer arrives: its permits count again until it stalls.
        received.store(1, Ordering::Relaxed);
        let now = look + us(10);
        let PermitReply::NotYet(Some(look)) = ask(&mut permits, 1, &mut ticket, now) else {
            panic!("the call is granted immediately")
        };
        assert_eq!(look, STALL_TIMEOUT);
        granted(ask(&mut permits, 1, &mut ticket, now + look));
    }

    #[test]
    fn a_late_answer_is_awaited_longer_while_half_of_the_permits_receive() {
        let mut permits = ReceivePermits::default();
        let (busy, _, received) = granted(ask(&mut permits, PLACES / 2, &mut None, us(0)));
        received.store(1, Ordering::Relaxed);
        granted(ask(&mut permits, PLACES / 2, &mut None, us(0)));
        let mut ticket = None;
        let PermitReply::NotYet(Some(look)) = ask(&mut permits, 1, &mut ticket, us(2000)) else {
            panic!("the call is granted immediately")
        };
        assert_eq!(look, STALL_TIMEOUT - us(2000));
        permits.release(busy, PLACES / 2);
        assert_eq!(granted(ask(&mut permits, PLACES, &mut ticket, us(2000))).1, PLACES);
    }

    #[test]
    fn a_slow_link_is_not_taken_for_late_servers() {
        // 100 Mbit/s: what may be in flight takes 4 ms, and six connections get their first bytes
        // one after another.
        const BOUND: u64 = 48 << 10;
        let (mut permits, mut ticket) = (ReceivePermits::default(), None);
        let see = |permits: &mut ReceivePermits, received, at| {
            permits.update_link(received, (BOUND, us(4000)), us(at))
        };
        see(&mut permits, 0, 0);
        let (_, _, first) = granted(ask(&mut permits, 1, &mut None, us(0)));
        granted(ask(&mut permits, PLACES - 1, &mut None, us(0)));
        let mut received = 0;
        for at in (500..15_000).step_by(500) {
            received += 6250;
            first.store(received, Ordering::Relaxed);
            see(&mut permits, received, at);
            assert!(
                matches!(ask(&mut permits, 1, &mut ticket, us(at)), PermitReply::NotYet(Some(_))),
                "at {at} us"
            );
        }
        // Others received four limits of bytes, and this connection nothing: the link is not the
        // cause.
        received += 4 * BOUND;
        first.store(received, Ordering::Relaxed);
        see(&mut permits, received, 15_000);
        assert_eq!(granted(ask(&mut permits, PLACES, &mut ticket, us(15_000))).1, PLACES - 1);
    }

    #[test]
    fn an_idle_link_is_not_the_cause_of_a_late_answer() {
        for (drains_in, idle_after) in
            [(us(400), FIRST_BYTE_TIMEOUT), (us(4000), us(2000)), (us(400_000), LINK_IDLE_MAX)]
        {
            let (mut permits, mut ticket) = (ReceivePermits::default(), None);
            permits.update_link(0, (48 << 10, drains_in), us(0));
            granted(ask(&mut permits, PLACES, &mut None, us(0)));
            permits.update_link(1000, (48 << 10, drains_in), us(10));
            let PermitReply::NotYet(Some(look)) = ask(&mut permits, 1, &mut ticket, us(10)) else {
                panic!("the call is granted immediately")
            };
            assert_eq!(look, idle_after);
            permits.update_link(1000, (48 << 10, drains_in), us(10) + look);
            granted(ask(&mut permits, 1, &mut ticket, us(10) + look));
        }
    }

    #[test]
    fn a_permit_is_extended_only_when_no_call_waits() {
        let mut permits = ReceivePermits::default();
        let (first, ..) = granted(ask(&mut permits, 1, &mut None, us(0)));
        assert_eq!(permits.extend(first, (2, PLACES), us(0)), 2);
        let (second, ..) = granted(ask(&mut permits, 1, &mut None, us(0)));
        let mut ticket = None;
        ask(&mut permits, 1, &mut ticket, us(0));
        permits.release(second, 1);
        assert_eq!(permits.extend(first, (1, PLACES), us(0)), 0);
        granted(ask(&mut permits, 1, &mut ticket, us(0)));
        permits.release(first, 3);
        assert_eq!(permits.permits_in_use(PLACES, us(0)).0, 1);
    }

    #[test]
    fn many_calls_all_get_permits_and_never_exceed_the_limit() {
        let mut permits = ReceivePermits::default();
        /// Connections that it still has to request, its ticket, and its permit.
        #[derive(Default, Debug)]
        struct Caller {
            left: usize,
            ticket: Option<u64>,
            granted_permit: Option<(u64, usize)>,
        }
        let mut calls: Vec<Caller> =
            (0..40).map(|n| Caller { left: 1 + n * 7 % 6, ..Caller::default() }).collect();
        let (mut now, mut rounds) = (us(0), 0);
        while calls.iter().any(|call| call.left > 0) {
            rounds += 1;
            assert!(rounds < 1000, "{calls:?}");
            now += us(10);
            for at in 0..calls.len() {
                let call = &mut calls[(at + rounds) % 40];
                if let Some((id, connections)) = call.granted_permit.take() {
                    permits.release(id, connections);
                    call.left -= connections;
                } else if call.left > 0
                    && let PermitReply::Granted { id, connections, .. } =
                        ask(&mut permits, call.left, &mut call.ticket, now)
                {
                    call.granted_permit = Some((id, connections));
                }
                assert!(permits.held.iter().map(|held| held.connections).sum::<usize>() <= PLACES);
            }
        }
        assert!(permits.held.is_empty() && permits.queue.is_empty());
    }
}
