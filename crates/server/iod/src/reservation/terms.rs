//! The reservation of each session: one term for each, with two sums that only rise.
//!
//! Invariants:
//! 1. No daemon of this boot uses the number of a term again, before or after this one.
//! 2. What a session released in another term does not count for this one.
//! 3. A term ends when its session returns the last of it, with its session, or [`TERM_LIFETIME`]
//!    after the last message about it, by this machine's clock alone.
//!
//! `add_grant` gives each term a higher number than the one before, and than the time (1), which no
//! assertion can compare with that of another process. `apply_release` compares the number (2);
//! `expire` gets the time from its caller (3).

use std::{collections::HashMap, time::Duration};

use braid_types::{
    ByteCount, SessionId,
    limits::{RESERVATION_SESSION_BYTES_MAX, RESERVATION_SESSIONS_MAX, RESERVATION_VALID_MS},
};
use braid_wire::message::iod::{Reservation, ReservationAccount};

use super::free_space::TERM_LIFETIME;

/// Minimum interval between searches for expired terms.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A session of one of the device's daemons.
pub(super) type Key = (u32, SessionId);

#[derive(Debug, Default)]
pub(super) struct ReservationTerms {
    terms: HashMap<Key, ReservationTerm>,
    newest: u64,
    expiry_checked: Duration,
}

#[derive(Debug)]
struct ReservationTerm {
    number: u64,
    granted: u64,
    released: u64,
    renewed: Duration,
}

impl ReservationTerm {
    fn reserved(&self) -> u64 {
        debug_assert!(self.released <= self.granted, "mod 2: a session releases only what it has");
        self.granted - self.released
    }
}

impl ReservationTerms {
    /// Applies what a session reports as released. Returns how much less is reserved.
    pub(super) fn apply_release(
        &mut self,
        key: Key,
        account: &ReservationAccount,
        now: Duration,
    ) -> u64 {
        let Some(term) = self.terms.get_mut(&key) else { return 0 };
        term.renewed = term.renewed.max(now);
        if account.term != term.number {
            return 0;
        }
        let released = account.released.0.clamp(term.released, term.granted);
        released - std::mem::replace(&mut term.released, released)
    }

    /// Whether a session has this much in the term that it names.
    pub(super) fn covers(&self, key: Key, term: u64, uses: u64) -> bool {
        self.terms.get(&key).is_some_and(|known| known.number == term && known.reserved() >= uses)
    }

    /// How much of `wanted` the limits allow a session.
    pub(super) fn allowed(&self, key: Key, wanted: u64) -> u64 {
        match self.terms.get(&key) {
            Some(term) => wanted.min(RESERVATION_SESSION_BYTES_MAX.saturating_sub(term.reserved())),
            None if self.terms.len() < RESERVATION_SESSIONS_MAX => {
                wanted.min(RESERVATION_SESSION_BYTES_MAX)
            }
            None => 0,
        }
    }

    /// Adds to a session's reservation. Returns what it has now.
    pub(super) fn add_grant(&mut self, key: Key, bytes: u64, now: Duration) -> Option<Reservation> {
        if bytes > 0 && !self.terms.contains_key(&key) {
            // The number is the term's first moment: another process of the daemon had other
            // moments.
            let began = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
            self.newest = began.max(self.newest.saturating_add(1));
            self.terms.insert(
                key,
                ReservationTerm { number: self.newest, granted: 0, released: 0, renewed: now },
            );
        }
        let term = self.terms.get_mut(&key)?;
        term.granted = term.granted.saturating_add(bytes);
        Some(Reservation {
            term: term.number,
            granted: ByteCount(term.granted),
            valid_ms: RESERVATION_VALID_MS,
        })
    }

    /// Ends a session's term. Returns how much less is reserved.
    pub(super) fn end(&mut self, key: Key) -> u64 {
        self.terms.remove(&key).map_or(0, |term| term.reserved())
    }

    /// Ends a session's empty term.
    pub(super) fn end_empty(&mut self, key: Key) {
        if self.terms.get(&key).is_some_and(|term| term.reserved() == 0) {
            self.terms.remove(&key);
        }
    }

    /// Ends all terms of one daemon. Returns how much less is reserved.
    pub(super) fn end_member(&mut self, member: u32) -> u64 {
        self.end_where(|key, _| key.0 == member)
    }

    /// Ends the terms of one daemon's sessions for which `over` holds. Returns how much less is
    /// reserved.
    pub(super) fn end_sessions(&mut self, member: u32, over: impl Fn(SessionId) -> bool) -> u64 {
        self.end_where(|key, _| key.0 == member && over(key.1))
    }

    /// Ends the expired terms. Returns how much less is reserved.
    pub(super) fn expire(&mut self, now: Duration) -> u64 {
        if now < self.expiry_checked.saturating_add(EXPIRY_CHECK_INTERVAL) {
            return 0;
        }
        self.expiry_checked = now;
        self.end_where(|_, term| now >= term.renewed.saturating_add(TERM_LIFETIME))
    }

    fn end_where(&mut self, ends: impl Fn(&Key, &ReservationTerm) -> bool) -> u64 {
        let mut less = 0;
        self.terms.retain(|key, term| {
            let ends = ends(key, term);
            less += if ends { term.reserved() } else { 0 };
            !ends
        });
        less
    }
}
