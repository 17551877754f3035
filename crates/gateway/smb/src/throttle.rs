//! Slows down logons that fail, by address, so that passwords cannot be guessed quickly.
//!
//! A user is never locked out: that would let anybody keep a user from logging on. A logon that
//! succeeds forgets the failures of that user only: else an account of one's own would make guesses
//! of others' passwords free.
//!
//! Invariants:
//! 1. At most [`ADDRESSES_MAX`] addresses are kept; the oldest is forgotten for a new one.
//! 2. Where logons are delayed, those of an address are checked one after the other, so that many
//!    connections guess no faster than one. At most [`WAITING_MAX`] wait; others fail unchecked.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Failures of an address before its logons are delayed: people mistype.
pub const FREE_FAILURES: u32 = 3;
/// The delay after the first failure that is not free; it doubles with each further one.
pub const DELAY_MIN: Duration = Duration::from_millis(250);
/// The longest delay.
pub const DELAY_MAX: Duration = Duration::from_secs(16);
/// How long failures count.
pub const REMEMBERED: Duration = Duration::from_secs(600);
/// Most addresses that are kept.
pub const ADDRESSES_MAX: usize = 4096;

/// Most logons of an address that wait for their turn.
pub const WAITING_MAX: usize = 8;

/// Most users of an address whose failures can be forgotten.
const NAMES_MAX: usize = 16;
/// Longest name that is kept.
const NAME_BYTES_MAX: usize = 256;

/// Counts failures.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<HashMap<IpAddr, Failures>>);

#[derive(Debug)]
struct Failures {
    count: u32,
    /// How many of them named each of the first users, for at most [`NAMES_MAX`].
    by_name: Vec<(String, u32)>,
    last: Instant,
    /// Held by the logon whose turn it is.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The turn of a logon.
pub type Turn = Option<tokio::sync::OwnedMutexGuard<()>>;

impl Throttle {
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Failures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the answer to a logon from this address is delayed.
    pub fn delay(&self, address: IpAddr) -> Duration {
        let all = self.lock();
        let count = all.get(&source(address)).filter(|failures| failures.counts());
        let extra = count.map_or(0, |failures| failures.count).saturating_sub(FREE_FAILURES);
        match extra {
            0 => Duration::ZERO,
            _ => DELAY_MAX.min(DELAY_MIN * 2u32.saturating_pow(extra.min(16) - 1)),
        }
    }

    /// Waits for the turn of a logon from this address. `None` if too many wait.
    pub async fn turn(&self, address: IpAddr) -> Option<Turn> {
        if self.delay(address).is_zero() {
            return Some(None);
        }
        let turn = {
            let all = self.lock();
            let failures = all.get(&source(address));
            let Some(failures) = failures else { return Some(None) };
            Arc::clone(&failures.turn)
        };
        // One is the table's, and one is this one's.
        if Arc::strong_count(&turn) > WAITING_MAX + 2 {
            return None;
        }
        let turn = turn.lock_owned().await;
        // Those before it may have failed.
        tokio::time::sleep(self.delay(address)).await;
        Some(Some(turn))
    }

    /// Counts a failure of a user; returns how many the address has.
    pub fn failed(&self, address: IpAddr, user: &str) -> u32 {
        let address = source(address);
        let mut all = self.lock();
        if all.len() >= ADDRESSES_MAX && !all.contains_key(&address) {
            all.retain(|_, failures| failures.counts());
            let oldest = all.iter().min_by_key(|(_, failures)| failures.last);
            let oldest = oldest.map(|(address, _)| *address);
            if all.len() >= ADDRESSES_MAX
                && let Some(oldest) = oldest
            {
                all.remove(&oldest);
            }
        }
        let now = Instant::now();
        let failures = all.entry(address).or_insert_with(|| Failures {
            count: 0,
            by_name: Vec::new(),
            last: now,
            turn: Arc::default(),
        });
        if !failures.counts() {
            failures.count = 0;
            failures.by_name.clear();
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        let user = user.to_lowercase();
        if let Some((_, count)) = failures.by_name.iter_mut().find(|(name, _)| *name == user) {
            *count = count.saturating_add(1);
        } else if failures.by_name.len() < NAMES_MAX && user.len() <= NAME_BYTES_MAX {
            failures.by_name.push((user, 1));
        }
        failures.count
    }

    /// Forgets the failures of a user who has logged on.
    pub fn succeeded(&self, address: IpAddr, user: &str) {
        let mut all = self.lock();
        let Some(failures) = all.get_mut(&source(address)) else { return };
        let user = user.to_lowercase();
        if let Some(at) = failures.by_name.iter().position(|(name, _)| *name == user) {
            failures.count = failures.count.saturating_sub(failures.by_name.remove(at).1);
        }
        if failures.count == 0 {
            all.remove(&source(address));
        }
    }
}

/// What failures are counted for: an address; of IPv6 the network, since a host has 2⁶⁴ of them.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::from((u128::from(address) & (u128::from(u64::MAX) << 64)).to_be_bytes())
        }
        address => address,
    }
}

impl Failures {
    fn counts(&self) -> bool {
        self.last.elapsed() < REMEMBERED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_doubles_the_delay_until_ten_minutes_pass() {
        let throttle = Throttle::default();
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse::<IpAddr>().unwrap());
        let delays: Vec<_> = (0..12)
            .map(|_| {
                throttle.failed(one, "a");
                throttle.delay(one).as_millis()
            })
            .collect();
        assert_eq!(delays[..6], [0, 0, 0, 250, 500, 1000]);
        assert_eq!(delays[11], 16_000);
        assert_eq!(throttle.delay(other), Duration::ZERO);
        assert_eq!(throttle.delay("::ffff:10.0.0.1".parse().unwrap()), DELAY_MAX, "the same host");
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(throttle.delay(one), Duration::ZERO);
        assert_eq!(throttle.failed(one, "a"), 1);
        let [one, other] = ["fd00::1", "fd00::ffff:2"].map(|text| text.parse::<IpAddr>().unwrap());
        for _ in 0..12 {
            throttle.failed(one, "a");
        }
        assert_eq!(throttle.delay(other), DELAY_MAX, "the same network");
        assert_eq!(throttle.delay("fd00:0:0:1::1".parse().unwrap()), Duration::ZERO);
    }

    #[test]
    fn a_success_forgets_the_failures_of_its_user_only() {
        let throttle = Throttle::default();
        let address = "10.0.0.1".parse().unwrap();
        for user in ["bob", "Alice", "bob", "alice", "bob", "bob"] {
            throttle.failed(address, user);
        }
        assert_eq!(throttle.delay(address), DELAY_MIN * 4);
        throttle.succeeded(address, "ALICE");
        assert_eq!(throttle.delay(address), DELAY_MIN, "four of bob");
        throttle.succeeded(address, "alice");
        assert_eq!(throttle.delay(address), DELAY_MIN);
        throttle.succeeded(address, "bob");
        assert_eq!(throttle.failed(address, "bob"), 1);
    }

    #[test]
    fn a_million_addresses_take_no_more_memory_than_a_few_thousand() {
        let throttle = Throttle::default();
        for number in 0..20_000_u32 {
            throttle.failed(IpAddr::from(number.to_be_bytes()), "a");
        }
        assert_eq!(throttle.lock().len(), ADDRESSES_MAX);
    }
}
