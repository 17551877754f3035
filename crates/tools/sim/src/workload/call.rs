//! Rules for every call: it ends in time, and an error makes sense.

use std::{fmt::Debug, future::Future, time::Duration};

use braid_client::{Error, Status};

use super::ClientWorkload;
use crate::node::TIMEOUT;

/// What a call may take beyond its timeout: waiting calls notice at the next tick of the client's
/// service thread.
const SLACK: Duration = Duration::from_millis(1500);

/// Errors after which the outcome is unknown.
pub(super) fn is_unknown(status: Status) -> bool {
    use Status as S;
    matches!(
        status,
        S::Unreachable
            | S::ConnectionLost
            | S::TryAgain
            | S::NotServing
            | S::NoSession
            | S::DiskError
            | S::NoSpace
            | S::Busy
            | S::StaleEpoch
            | S::Cancelled
            | S::AuthenticationFailed
            | S::UnsyncedDataLost
            | S::Fenced
            | S::NoIods
    )
}

impl ClientWorkload {
    /// Makes a call: traced, and checked for its time (I8).
    pub(super) async fn call<T: Debug>(
        &self,
        what: String,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let started = self.world.now();
        self.world.trace_event(format_args!("{} {what} ...", self.name));
        let outcome = call.await;
        let took = self.world.now() - started;
        match &outcome {
            Ok(value) => {
                self.world.trace_event(format_args!("{} {what}: {}", self.name, short(value)))
            }
            Err(error) => self.world.trace_event(format_args!("{} {what}: {error}", self.name)),
        }
        if took > TIMEOUT + SLACK {
            self.judge.add_violation("I8", format!("{} {what} took {took:?}", self.name));
        }
        if let Err(error) = &outcome {
            self.check_error(&what, error);
        }
        outcome
    }

    fn check_error(&self, what: &str, error: &Error) {
        let status = error.status();
        let nonsense =
            matches!(status, Status::Internal | Status::Malformed | Status::UnknownMessage);
        if nonsense {
            self.judge.add_violation("I10", format!("{} {what}: {error}", self.name));
        }
        if status == Status::ObjectLost {
            // Only what was flushed is recorded as existing, and the simulated disk keeps flushed
            // data.
            self.judge.add_violation("I11", format!("{} {what}: {error}", self.name));
        }
        if status == Status::Unreachable && error.server().is_none() {
            self.judge
                .add_violation("I8", format!("{} {what} names no server: {error}", self.name));
        }
        if self.calm && is_unknown(status) {
            self.judge.add_violation(
                "I8",
                format!("{} {what} failed without a fault: {error}", self.name),
            );
        }
    }
}

/// A short form of a value, for the trace.
fn short(value: &impl Debug) -> String {
    let mut text = format!("{value:?}");
    if text.len() > 100 {
        let end = (0..=100).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}
