//! This client's reservation at one daemon: two sums that only rise within a term, and how much of
//! it is held.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use braid_types::{ByteCount, limits::RESERVATION_EXPIRES_MS};
use braid_wire::message::iod::{Reservation, ReservationAccount};

use crate::engine::semaphore::lock;

/// Space that a client requests beyond what it holds: sixty-four steps, enough for a burst of small
/// files.
const SPARE_BYTES: u64 = 4 << 20;
/// Spare space is returned after this time without use.
const IDLE: Duration = Duration::from_secs(5);
const EXPIRES: Duration = Duration::from_millis(RESERVATION_EXPIRES_MS);

/// The reservation part of a write message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReservationRequest {
    pub(crate) term: u64,
    pub(crate) released: u64,
    pub(crate) wanted: u64,
    pub(crate) uses: u64,
    /// The time of sending, for the reply.
    pub(crate) sent: Duration,
}

/// This client's reservation at one daemon.
#[derive(Debug, Default)]
pub(crate) struct DaemonReservation {
    /// Whether there is something to send. Read without the lock.
    has_message: AtomicBool,
    state: Mutex<ReservationState>,
}

#[derive(Debug, Default)]
struct ReservationState {
    term: u64,
    granted: u64,
    released: u64,
    /// The part of `released` that the daemon has confirmed.
    acknowledged: u64,
    held: u64,
    /// The largest amount that was missing since the last request.
    shortfall: u64,
    /// The time when the last answered request was sent, and how long its reply is valid from then.
    sent: Duration,
    holds: Duration,
    used: Duration,
}

impl ReservationState {
    fn spare(&self) -> u64 {
        (self.granted - self.released).saturating_sub(self.held)
    }

    fn is_good(&self, now: Duration) -> bool {
        now < self.sent.saturating_add(self.holds)
    }

    fn asks(&self) -> bool {
        self.shortfall > 0 || self.acknowledged < self.released
    }

    fn account(&self) -> ReservationAccount {
        debug_assert!(self.released <= self.granted, "1: no more is released than granted");
        ReservationAccount { term: self.term, released: ByteCount(self.released) }
    }
}

impl DaemonReservation {
    /// Takes spare space. `false` if there is too little; then the next write requests more.
    pub(super) fn take(&self, bytes: u64, now: Duration) -> bool {
        let mut state = lock(&self.state);
        let found = state.is_good(now) && bytes <= state.spare();
        if found {
            state.held += bytes;
            state.used = now;
        } else {
            state.shortfall = state.shortfall.max(bytes);
            self.has_message.store(true, Ordering::Release);
        }
        found
    }

    pub(super) fn put_back(&self, bytes: u64) {
        let mut state = lock(&self.state);
        state.held = state.held.saturating_sub(bytes);
    }

    pub(super) fn release(&self, bytes: u64) {
        let mut state = lock(&self.state);
        state.held = state.held.saturating_sub(bytes);
        state.released = state.released.saturating_add(bytes).min(state.granted);
        self.has_message.store(state.asks(), Ordering::Release);
    }

    /// Whether something must be sent to the daemon. Takes no lock, so that a client without
    /// reservations pays nothing.
    pub(crate) fn has_message(&self) -> bool {
        self.has_message.load(Ordering::Acquire)
    }

    /// The reservation part of a write that uses `uses` reserved bytes.
    pub(crate) fn request(&self, uses: u64, now: Duration) -> ReservationRequest {
        let state = lock(&self.state);
        let available = state.granted - state.released;
        let target = state.held.saturating_add(SPARE_BYTES.max(state.shortfall));
        let wanted =
            if state.shortfall > 0 || uses > 0 { target.saturating_sub(available) } else { 0 };
        // After a restart, the daemon may have granted less than is held. Then all writes share
        // what is there, until there is more.
        let uses = if state.held <= available { uses } else { 0 };
        ReservationRequest { term: state.term, released: state.released, wanted, uses, sent: now }
    }

    /// Applies a reply.
    pub(crate) fn apply_reply(&self, asked: &ReservationRequest, reservation: Option<Reservation>) {
        let mut state = lock(&self.state);
        match reservation {
            Some(reservation) if reservation.term == state.term => {
                state.granted = state.granted.max(reservation.granted.0);
                state.acknowledged = state.acknowledged.max(if asked.term == reservation.term {
                    asked.released
                } else {
                    0
                });
                state.sent = state.sent.max(asked.sent);
                state.holds = Duration::from_millis(u64::from(reservation.valid_ms));
            }
            // Terms rise as long as the daemon's host is up. When the host restarts, the old
            // reservation has expired meanwhile.
            Some(reservation) if reservation.term > state.term || !state.is_good(asked.sent) => {
                let holds = Duration::from_millis(u64::from(reservation.valid_ms));
                let (term, granted, held, used) =
                    (reservation.term, reservation.granted.0, state.held, state.used);
                *state = ReservationState {
                    term,
                    granted,
                    held,
                    used,
                    sent: asked.sent,
                    holds,
                    ..ReservationState::default()
                };
            }
            Some(_) => {}
            // The daemon has reserved nothing for us, whatever we knew.
            None if asked.sent >= state.sent => {
                (state.holds, state.acknowledged) = (Duration::ZERO, state.released)
            }
            None => {}
        }
        state.shortfall = 0;
        self.has_message.store(state.asks(), Ordering::Release);
    }

    /// The message to a daemon whose reservation was not used for long, or always with `all`.
    /// Releases the spare space.
    pub(super) fn to_return(&self, now: Duration, all: bool) -> Option<ReservationAccount> {
        let mut state = lock(&self.state);
        let is_idle = state.held == 0 && now >= state.used.saturating_add(IDLE);
        if state.acknowledged == state.granted || !(is_idle || all) {
            return None;
        }
        if now >= state.sent.saturating_add(EXPIRES) {
            (state.released, state.acknowledged) = (state.granted, state.granted);
            return None;
        }
        state.released += state.spare();
        Some(state.account())
    }

    pub(super) fn returned(&self, account: &ReservationAccount) {
        let mut state = lock(&self.state);
        if state.term == account.term {
            state.acknowledged = state.acknowledged.max(account.released.0);
        }
        self.has_message.store(state.asks(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use braid_types::IodId;

    use braid_wire::message::iod;

    use super::{
        super::{Reservation, UsedReservation},
        *,
    };

    const NOW: Duration = Duration::from_secs(100);
    const HOLDS: Duration = Duration::from_secs(10);

    fn reply(term: u64, granted: u64) -> Option<iod::Reservation> {
        let granted = ByteCount(granted);
        Some(iod::Reservation { term, granted, valid_ms: HOLDS.as_millis() as u32 })
    }

    /// A reservation of 1000 bytes in term 1.
    fn granted() -> DaemonReservation {
        let pool = DaemonReservation::default();
        assert!(!pool.take(10, NOW));
        pool.apply_reply(&pool.request(0, NOW), reply(1, 1000));
        pool
    }

    #[test]
    fn space_is_requested_only_when_it_was_missing() {
        let pool = DaemonReservation::default();
        assert!(!pool.has_message());
        assert!(!pool.take(10, NOW));
        let asked = pool.request(0, NOW);
        assert_eq!((asked.term, asked.wanted, asked.uses), (0, SPARE_BYTES, 0));
        pool.apply_reply(&asked, reply(1, 1000));
        assert!(pool.take(1000, NOW) && !pool.take(1, NOW));
    }

    #[test]
    fn a_reservation_holds_from_when_its_request_was_sent() {
        let pool = granted();
        assert!(pool.take(1, NOW + HOLDS - Duration::from_millis(1)) && !pool.take(1, NOW + HOLDS));
        pool.apply_reply(&pool.request(0, NOW + HOLDS), reply(1, 1000));
        assert!(pool.take(1, NOW + HOLDS));
    }

    #[test]
    fn written_space_is_released_and_unwritten_space_is_spare_again() {
        let pool = Arc::new(granted());
        let mut held = Reservation::default();
        assert!(pool.take(300, NOW));
        held.add(IodId(1), &pool, 300);
        let spent = UsedReservation::of(&mut held);
        assert_eq!((spent.at(IodId(1)), spent.at(IodId(2))), (300, 0));
        assert_eq!(pool.request(300, NOW).uses, 300);
        drop(spent);
        drop(held);
        let sent = pool.request(0, NOW);
        assert!(
            pool.has_message() && (sent.released, sent.wanted) == (300, 0),
            "the daemon is notified of the release"
        );
        assert!(pool.take(700, NOW) && !pool.take(1, NOW));
        let mut held = Reservation::default();
        held.add(IodId(1), &pool, 700);
        drop(held);
        assert!(pool.take(700, NOW));
    }

    #[test]
    fn a_new_term_replaces_the_old_one_and_late_replies_are_ignored() {
        let pool = granted();
        assert!(pool.take(600, NOW));
        let (first, later) = (pool.request(600, NOW), pool.request(600, NOW + HOLDS / 2));
        pool.apply_reply(&first, reply(2, 500));
        assert_eq!(pool.request(600, NOW).uses, 0, "600 bytes are held, 500 are kept for them");
        pool.apply_reply(&later, reply(1, 5000));
        assert!(!pool.take(1, NOW));
        pool.apply_reply(&pool.request(600, NOW), reply(2, 700));
        assert_eq!(pool.request(600, NOW).uses, 600);
        assert!(pool.take(100, NOW) && !pool.take(1, NOW));
    }

    #[test]
    fn a_daemon_that_reports_no_reservation_is_trusted() {
        let pool = granted();
        pool.apply_reply(&pool.request(1, NOW), None);
        assert!(!pool.take(1, NOW));
        let again = pool.request(0, NOW);
        assert_eq!(again.term, 1, "the request names the term, since the daemon may still have it");
        pool.apply_reply(&again, reply(1, 1000));
        assert!(pool.take(1000, NOW));
    }

    #[test]
    fn idle_spare_space_is_returned_and_not_used_afterwards() {
        let pool = granted();
        assert!(pool.take(100, NOW));
        assert_eq!(pool.to_return(NOW + IDLE, false), None, "it is held");
        pool.put_back(100);
        assert_eq!(pool.to_return(NOW + IDLE - Duration::from_millis(1), false), None);
        let account = pool.to_return(NOW + IDLE, false).unwrap();
        assert_eq!((account.term, account.released.0), (1, 1000));
        assert!(!pool.take(1, NOW + IDLE));
        assert!(
            pool.to_return(NOW + IDLE, false).is_some(),
            "until the daemon has confirmed the return"
        );
        pool.returned(&account);
        assert_eq!(pool.to_return(NOW + IDLE, false), None);
        pool.apply_reply(&pool.request(0, NOW + IDLE), reply(2, 10));
        assert!(pool.take(10, NOW + IDLE));
    }
}
