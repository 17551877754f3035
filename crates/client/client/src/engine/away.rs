//! Servers that a program's call waited for in vain a moment ago: what the kernel asks again for the same call of a program does
//! not wait once more (I8). A read whose read-ahead fails is asked for again, page by page.
//!
//! ```text
//!   answered ──a bounded call had all its time──> away for REMEMBERED: questions get PROBE ──time over, an answer──> answered
//! ```
//!
//! Invariants: (1) only a call that had all the time of its bound says that a server is away, so that short attempts do not
//! prolong it; (2) an answer ends it; (3) what changes something, and a call outside of any bound, is never cut short; (4) it is
//! one word for each server (I9).

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use braid_net::{CallBound, Driver};
use braid_types::Status;

use super::{Engine, backoff};
use crate::error::Error;

/// How long it is remembered: the kernel asks again within milliseconds, and a server that comes back is to be used soon.
const REMEMBERED: Duration = Duration::from_secs(3);
/// What a question of such a server may take: enough for a connection and an answer, if it is back.
const PROBE: Duration = Duration::from_millis(500);

/// Whether one server is away, for all that is known.
#[derive(Debug, Default)]
pub(crate) struct Away {
    /// Until when it is remembered, in milliseconds of the driver's time; 0: it is not.
    until_ms: AtomicU64,
}

impl Away {
    fn begin(&self, now: Duration) {
        let until = now.saturating_add(REMEMBERED).as_millis();
        self.until_ms.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// It has answered.
    pub(crate) fn answered(&self) {
        if self.until_ms.load(Ordering::Relaxed) != 0 {
            self.until_ms.store(0, Ordering::Relaxed);
        }
    }

    /// Whether it is away; `now` is asked for where that is not plain.
    fn is_at(&self, now: impl FnOnce() -> Duration) -> bool {
        let until_ms = self.until_ms.load(Ordering::Relaxed);
        until_ms != 0 && now().as_millis() < u128::from(until_ms)
    }
}

impl<D: Driver> Engine<D> {
    /// The deadline of a question that these servers are asked.
    pub(crate) fn cut_short<'a>(
        &self,
        servers: impl IntoIterator<Item = &'a Away>,
        deadline: Duration,
    ) -> Duration {
        let mut servers = servers.into_iter();
        let is_away = servers.any(|server| server.is_at(|| self.driver.now()));
        if is_away && self.driver.bound().is_some_and(|bound| self.is_whole(bound)) {
            deadline.min(self.driver.now().saturating_add(PROBE))
        } else {
            deadline
        }
    }

    /// A call was given up after it had waited for the server of the error.
    pub(crate) fn waited_in_vain(&self, server: Option<&Away>, error: &Error) {
        let Some(bound) = self.driver.bound() else { return };
        if let Some(name) = error.server() {
            self.driver.blame(name);
        }
        let now = self.driver.now();
        // A call gives up when there is no time for another wait between two attempts.
        if let Some(server) = server
            && self.is_whole(bound)
            && now.saturating_add(backoff::LONGEST) >= bound.until
        {
            server.begin(now);
        }
    }

    /// Whether it is the time of a program's call, and not a shorter one.
    fn is_whole(&self, bound: CallBound) -> bool {
        bound.time >= self.config.timeout
    }

    /// Fails when there is no time left for a call of `server`: nothing is sent then, since a connection whose answer is
    /// not waited for would be lost.
    pub(crate) fn check_time(
        &self,
        deadline: Duration,
        server: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        if self.driver.bound().is_none() || self.driver.now() < deadline {
            return Ok(());
        }
        let error =
            Error::new(Status::Unreachable, "no time was left after it had been waited for");
        Err(error.at(self.driver.blamed().unwrap_or_else(server)).given_up(self.config.timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_away_for_a_moment_or_until_it_answers() {
        let (away, now) = (Away::default(), Duration::from_secs(100));
        assert!(!away.is_at(|| now));
        away.begin(now);
        assert!(away.is_at(|| now) && !away.is_at(|| now + REMEMBERED));
        away.answered();
        assert!(!away.is_at(|| now));
    }

    #[test]
    fn a_probe_is_over_before_what_is_remembered() {
        const { assert!(PROBE.as_millis() * 2 < REMEMBERED.as_millis()) };
    }
}
