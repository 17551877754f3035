//! The sequence window of a connection. MS-SMB2 3.3.1.1, 3.3.1.2, 3.3.5.2.3.
//!
//! Invariants:
//! 1. A message number is used once.
//! 2. A client has at most [`CREDITS_MAX`] numbers that it has not used, and at least one, except
//!    while a request that will grant one runs.
//! 3. The window is at most [`WINDOW_MAX`] numbers long: a client that leaves a number unused for
//!    good cannot make it grow.

use std::collections::VecDeque;

/// Most credits of a connection. Samba and Windows Server grant as many.
pub const CREDITS_MAX: u16 = 8192;
/// Most credits before a user has logged on.
pub const CREDITS_BEFORE_LOGON: u16 = 1;
/// Most numbers from the lowest unused one to the highest granted one.
pub const WINDOW_MAX: usize = 2 * CREDITS_MAX as usize;

/// The numbers that a client may use.
#[derive(Debug)]
pub struct Credits {
    /// The first number of the window.
    low: u64,
    /// Whether each number from `low` on was used. The first one was not, if there is one.
    used: VecDeque<bool>,
    /// How many of them were not.
    unused: usize,
}

impl Default for Credits {
    /// A new connection may send message 0. 3.3.5.1.
    fn default() -> Self {
        Self { low: 0, used: VecDeque::from([false]), unused: 1 }
    }
}

impl Credits {
    /// Uses `charge` numbers from `message_id` on. `false` if the client may not use one of them;
    /// the connection is then ended (3.3.5.2.3).
    #[must_use]
    pub fn take(&mut self, message_id: u64, charge: u16) -> bool {
        let count = usize::from(charge.max(1));
        let Some(first) = message_id.checked_sub(self.low) else { return false };
        let Ok(first) = usize::try_from(first) else { return false };
        let Some(end) = first.checked_add(count).filter(|end| *end <= self.used.len()) else {
            return false;
        };
        if self.used.range(first..end).any(|used| *used) {
            return false;
        }
        self.used.range_mut(first..end).for_each(|used| *used = true);
        self.unused -= count;
        while self.used.front() == Some(&true) {
            self.used.pop_front();
            self.low += 1;
        }
        true
    }

    /// Grants numbers for a response: what the request asked for, until the client has `most`, and
    /// at least what keeps it able to send. Returns how many.
    pub fn grant(&mut self, asked: u16, charge: u16, most: u16) -> u16 {
        let room = usize::from(most).saturating_sub(self.unused);
        let room = room.min(WINDOW_MAX.saturating_sub(self.used.len()));
        // A client gets what it has used for this request, so that it never runs dry.
        let wanted = usize::from(asked.max(charge).max(1));
        let granted = wanted.min(room);
        self.used.extend(std::iter::repeat_n(false, granted));
        self.unused += granted;
        granted as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_once_and_only_after_it_was_granted() {
        let mut credits = Credits::default();
        assert!(!credits.take(1, 1));
        assert!(credits.take(0, 1));
        assert!(!credits.take(0, 1), "twice");
        assert_eq!(credits.grant(4, 1, CREDITS_MAX), 4);
        assert!(credits.take(3, 1), "in any order");
        assert!(!credits.take(2, 2), "3 is used");
        assert!(credits.take(1, 2));
        assert!(credits.take(4, 1));
        assert!(!credits.take(u64::MAX, 1));
        assert!(!credits.take(u64::MAX, u16::MAX));
    }

    #[test]
    fn a_client_that_asks_for_all_gets_at_most_8192() {
        let mut credits = Credits::default();
        assert_eq!(credits.grant(u16::MAX, 1, CREDITS_MAX), CREDITS_MAX - 1);
        assert_eq!(credits.grant(100, 1, CREDITS_MAX), 0);
        assert!(credits.take(5, 3));
        assert_eq!(credits.grant(100, 3, CREDITS_MAX), 3);
    }

    #[test]
    fn a_client_over_the_most_gets_none_until_it_has_used_them() {
        let mut credits = Credits::default();
        assert!(credits.take(0, 1));
        assert_eq!(credits.grant(100, 1, CREDITS_BEFORE_LOGON), 1);
        assert!(credits.take(1, 1));
        assert_eq!(credits.grant(2, 1, CREDITS_MAX), 2);
        assert!(credits.take(2, 1));
        assert_eq!(credits.grant(100, 1, CREDITS_BEFORE_LOGON), 0);
        assert!(credits.take(3, 1));
        assert_eq!(credits.grant(100, 1, CREDITS_BEFORE_LOGON), 1);
    }

    #[test]
    fn a_number_that_is_never_used_bounds_the_window() {
        let mut credits = Credits::default();
        assert_eq!(credits.grant(10, 1, CREDITS_MAX), 10);
        let mut next = 1;
        let mut granted = 1;
        while granted > 0 {
            assert!(credits.take(next, 1));
            granted = credits.grant(1, 1, CREDITS_MAX);
            next += 1;
        }
        assert!(credits.used.len() <= WINDOW_MAX);
        // The number itself ends that.
        assert!(credits.take(0, 1) && credits.grant(1, 1, CREDITS_MAX) == 1);
    }
}
