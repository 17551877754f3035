//! Retries of a metadata call: which failures are retried, for how long, and which error reports
//! the end.
//!
//! ```text
//!   refused otherwise, malformed reply                      fails
//!   TryAgain and similar; no connection, connection lost    waits (backoff.rs), next attempt
//!   the session ended                                       waits, next attempt
//!   the server waits for a daemon that is known down        fails immediately (down_daemons.rs)
//! ```
//!
//! Invariants:
//! 1. No wait ends after the call's deadline (I8). `Backoff` ensures it; it is not asserted here,
//!    since the clock may pass the deadline while the thread sleeps.
//! 2. Once an attempt may have been executed, `may_be_done` stays true: only `|=` changes it.

use std::{sync::Arc, time::Duration};

use braid_net::{Driver, NetError};
use braid_types::Status;

use super::{
    Engine,
    backoff::Backoff,
    mds_connection::{CallFailure, MdsConnection, is_transient},
};
use crate::error::{Error, Result};

/// The state that the attempts of one call share.
pub(super) struct CallRetry {
    backoff: Backoff,
    deadline: Duration,
    started: Duration,
    may_be_done: bool,
    /// The server's last refusal, if it named an I/O daemon that it waits for.
    blamed: Option<Error>,
    /// The refusal of the previous attempt, if it asked for another attempt.
    last_refusal: Option<Error>,
}

/// An attempt that failed.
pub(super) struct FailedAttempt {
    error: Error,
    kind: FailureKind,
    /// The server may have executed the call: it was sent, and no reply to it was understood.
    may_be_done: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FailureKind {
    /// The server does not know the session.
    SessionEnded,
    /// The server refused; it may have named an I/O daemon as the cause.
    Refused { names_daemon: bool },
    /// No reply came within the attempt's time.
    TimedOut,
    /// The connection failed, or the reply was malformed.
    Other,
}

impl FailedAttempt {
    pub(super) fn new(server: &str, failure: CallFailure) -> Self {
        let (kind, may_be_done) = match &failure {
            CallFailure::Refused(refusal) if refusal.status == Status::NoSession => {
                let error = Error::refused(server, Status::NoSession.into());
                return Self { error, kind: FailureKind::SessionEnded, may_be_done: false };
            }
            CallFailure::Refused(refusal) => {
                (FailureKind::Refused { names_daemon: refusal.blamed().is_some() }, false)
            }
            CallFailure::Net(NetError::TimedOut { .. }) => (FailureKind::TimedOut, true),
            CallFailure::Net(NetError::ConnectionLost { .. }) | CallFailure::Malformed(_) => {
                (FailureKind::Other, true)
            }
            CallFailure::Net(_) => (FailureKind::Other, false),
        };
        Self { error: failure.into_error(server), kind, may_be_done }
    }

    /// Whether the connection cannot be used for another attempt.
    pub(super) fn needs_new_connection(&self) -> bool {
        self.may_be_done
            || self.kind == FailureKind::SessionEnded
            || self.error.status() == Status::Unreachable
    }
}

impl CallRetry {
    pub(super) fn new<D: Driver>(engine: &Engine<D>, deadline: Duration) -> Self {
        Self {
            backoff: Backoff::new(deadline),
            deadline,
            started: engine.driver.now(),
            may_be_done: false,
            blamed: None,
            last_refusal: None,
        }
    }

    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Whether any attempt may have been executed.
    pub(super) fn may_be_done(&self) -> bool {
        self.may_be_done
    }

    /// An error of a later attempt that got no connection: it reports the time of the whole call.
    pub(super) fn with_total_time<D: Driver>(&self, engine: &Engine<D>, error: Error) -> Error {
        error.tried_for(self.time(engine))
    }

    /// Waits until the next attempt may begin.
    ///
    /// # Errors
    /// There is no next attempt: the failure is final, or no time is left.
    pub(super) async fn wait_after<D: Driver>(
        &mut self,
        engine: &Arc<Engine<D>>,
        link: &MdsConnection<D>,
        failed: FailedAttempt,
    ) -> Result<()> {
        let last_refusal = self.last_refusal.take();
        if failed.kind == FailureKind::SessionEnded {
            return match self.backoff.wait(&engine.driver).await {
                true => Ok(()),
                false => Err(failed.error),
            };
        }
        let is_transient = is_transient(failed.error.status());
        if let FailureKind::Refused { names_daemon } = failed.kind {
            self.last_refusal = is_transient.then(|| failed.error.clone());
            self.blamed = self.last_refusal.clone().filter(|_| names_daemon);
        }
        if !is_transient {
            return Err(failed.error);
        }
        if let Some(blamed) = &self.blamed
            && engine.is_known_down(link, blamed).await
        {
            return Err(blamed.clone().unreachable());
        }
        if !self.backoff.wait(&engine.driver).await {
            return Err(self.give_up(engine, failed, last_refusal));
        }
        self.may_be_done |= failed.may_be_done;
        Ok(())
    }

    /// The error of a call whose time is over; the server that caused it is remembered as
    /// unresponsive (ADR 0031).
    fn give_up<D: Driver>(
        &mut self,
        engine: &Engine<D>,
        failed: FailedAttempt,
        last_refusal: Option<Error>,
    ) -> Error {
        if let Some(blamed) = &self.blamed {
            engine.down_daemons.add(blamed);
        }
        // An attempt that the deadline ended early does not show which server is down. The refusal
        // before it does.
        let reason =
            self.blamed.take().or(last_refusal.filter(|_| failed.kind == FailureKind::TimedOut));
        let is_mds_silent = reason.is_none();
        let error = reason.map_or(failed.error, Error::unreachable).given_up(self.time(engine));
        engine.note_unresponsive(is_mds_silent.then_some(&engine.mds_status), &error);
        error
    }

    fn time<D: Driver>(&self, engine: &Engine<D>) -> Duration {
        engine.driver.now().saturating_sub(self.started)
    }
}
