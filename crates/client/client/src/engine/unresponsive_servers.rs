//! Servers that a program's call has just waited for without success. When the kernel repeats parts
//! of the same call, the client does not wait for the server again (I8): after a failed read-ahead,
//! the kernel reads each page by itself.
//!
//! ```text
//!   responsive ──a call used its whole deadline──> unresponsive for REMEMBERED, queries get PROBE
//!        ^                                                 │
//!        └──────────── time over, or a reply ──────────────┘
//! ```
//!
//! Invariants:
//! 1. Only a call that used its whole deadline makes a server unresponsive, so short attempts do
//!    not prolong the state.
//! 2. A reply ends the state.
//! 3. Calls that change something, and calls without a program's deadline, are never shortened.
//! 4. The state is one word for each server (I9).
//!
//! No assertion checks these. `note_unresponsive` is the only caller that sets the state, after it
//! compared the time (1); 2 and 3 are rules for callers; 4 is the type.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use braid_net::{CallTimeLimit, Driver};
use braid_types::Status;

use super::{Engine, backoff};
use crate::error::Error;

/// How long a server counts as unresponsive. The kernel repeats its requests within milliseconds,
/// and a server that is back should be used soon.
const UNRESPONSIVE_TIME: Duration = Duration::from_secs(3);
/// The time of a query to an unresponsive server: enough for a connection and a reply if it is
/// back.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// Whether one server is unresponsive.
#[derive(Debug, Default)]
pub(crate) struct ServerStatus {
    /// The end of the state, in milliseconds of the driver's time; 0: responsive.
    until_ms: AtomicU64,
}

impl ServerStatus {
    fn set_unresponsive(&self, now: Duration) {
        let until = now.saturating_add(UNRESPONSIVE_TIME).as_millis();
        self.until_ms.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The server has answered.
    pub(crate) fn set_responsive(&self) {
        if self.until_ms.load(Ordering::Relaxed) != 0 {
            self.until_ms.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the server is unresponsive. Reads the clock only if necessary.
    fn is_unresponsive_at(&self, now: impl FnOnce() -> Duration) -> bool {
        let until_ms = self.until_ms.load(Ordering::Relaxed);
        until_ms != 0 && now().as_millis() < u128::from(until_ms)
    }
}

impl<D: Driver> Engine<D> {
    /// The deadline of a query to these servers: earlier if one is unresponsive.
    pub(crate) fn shorten_deadline<'a>(
        &self,
        servers: impl IntoIterator<Item = &'a ServerStatus>,
        deadline: Duration,
    ) -> Duration {
        let mut servers = servers.into_iter();
        let is_unresponsive = servers.any(|server| server.is_unresponsive_at(|| self.driver.now()));
        if is_unresponsive
            && self.driver.call_deadline().is_some_and(|limit| self.is_full_length(limit))
        {
            deadline.min(self.driver.now().saturating_add(PROBE_TIMEOUT))
        } else {
            deadline
        }
    }

    /// A call gave up after it had waited for the server that the error names.
    pub(crate) fn note_unresponsive(&self, server: Option<&ServerStatus>, error: &Error) {
        let Some(limit) = self.driver.call_deadline() else { return };
        if let Some(name) = error.server() {
            self.driver.blame(name);
        }
        let now = self.driver.now();
        // A call gives up when no time is left for another wait between two attempts.
        if let Some(server) = server
            && self.is_full_length(limit)
            && now.saturating_add(backoff::LONGEST) >= limit.until
        {
            server.set_unresponsive(now);
        }
    }

    /// Whether this is the deadline of a program's call, and not a shorter one.
    fn is_full_length(&self, limit: CallTimeLimit) -> bool {
        limit.time >= self.config.timeout
    }

    /// Fails if no time is left for a call of `server`. Then nothing is sent: without time to
    /// receive the reply, the connection would be lost.
    pub(crate) fn check_time(
        &self,
        deadline: Duration,
        server: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        if self.driver.call_deadline().is_none() || self.driver.now() < deadline {
            return Ok(());
        }
        let error =
            Error::new(Status::Unreachable, "no time was left after an earlier wait for it");
        Err(error.at(self.driver.blamed().unwrap_or_else(server)).given_up(self.config.timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_away_for_a_moment_or_until_it_answers() {
        let (status, now) = (ServerStatus::default(), Duration::from_secs(100));
        assert!(!status.is_unresponsive_at(|| now));
        status.set_unresponsive(now);
        assert!(
            status.is_unresponsive_at(|| now)
                && !status.is_unresponsive_at(|| now + UNRESPONSIVE_TIME)
        );
        status.set_responsive();
        assert!(!status.is_unresponsive_at(|| now));
    }

    #[test]
    fn a_probe_ends_before_the_unresponsive_state_does() {
        const { assert!(PROBE_TIMEOUT.as_millis() * 2 < UNRESPONSIVE_TIME.as_millis()) };
    }
}
