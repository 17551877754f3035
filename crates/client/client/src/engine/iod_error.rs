//! What a failed exchange with an I/O daemon means for the call.
//!
//! | the daemon replies | the call |
//! |---|---|
//! | `UnknownHandle` | presents the capability again |
//! | `StaleGeneration`, `StaleEpoch`, `BadCapability` | requests a new capability, continues |
//! | `TryAgain`, `NotServing`; no connection | waits, continues, until its deadline (I8) |
//! | handshake: key refused, `NoSession` | reclaims the session, continues |
//! | `Fenced` | fails, and so does every later call of the file (I4) |
//! | anything else | fails |

use std::time::Duration;

use braid_types::{Failure, Status};

use crate::error::Error;

/// The action after a failure; the most severe last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RetryAction {
    Present,
    Wait(Error),
    Renew(Error),
    Reclaim(Error),
    Fail(Error),
}

impl RetryAction {
    /// For a daemon's refusal.
    pub(crate) fn of_refusal(server: &str, failure: Failure) -> Self {
        let status = failure.status;
        let error = Error::refused(server, failure);
        match status {
            Status::UnknownHandle => Self::Present,
            Status::StaleGeneration | Status::StaleEpoch | Status::BadCapability => {
                Self::Renew(error)
            }
            Status::TryAgain | Status::NotServing | Status::Cancelled => Self::Wait(error),
            Status::NoSession => Self::Reclaim(error),
            _ => Self::Fail(error),
        }
    }

    /// For a connection that could not be made.
    pub(crate) fn of_connect(error: Error) -> Self {
        match error.status() {
            Status::AuthenticationFailed | Status::NoSession | Status::StaleEpoch => {
                Self::Reclaim(error)
            }
            // A different daemon at an old address sends unexpected replies: the map is fetched,
            // and the call is retried.
            Status::Unreachable
            | Status::ConnectionLost
            | Status::TryAgain
            | Status::NotServing
            | Status::Malformed => Self::Wait(error),
            _ => Self::Fail(error),
        }
    }

    /// For a connection that broke.
    pub(crate) fn of_loss(error: Error) -> Self {
        if error.status() == Status::Malformed { Self::Fail(error) } else { Self::Wait(error) }
    }

    /// How long the server had been silent when the call gave up, and how long it was not asked
    /// before; zero for other failures.
    pub(crate) fn idle_times(&self) -> (Duration, Duration) {
        match self {
            Self::Present => (Duration::ZERO, Duration::ZERO),
            Self::Wait(error) | Self::Renew(error) | Self::Reclaim(error) | Self::Fail(error) => {
                (error.silent(), error.unasked())
            }
        }
    }

    /// The error, for a call that is not retried.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Present => {
                Error::new(Status::UnknownHandle, "the daemon has forgotten the capability")
            }
            Self::Wait(error) | Self::Renew(error) | Self::Reclaim(error) | Self::Fail(error) => {
                error
            }
        }
    }

    /// The more severe of two.
    pub(crate) fn more_severe(self, other: Option<Self>) -> Self {
        match other {
            Some(other) if other.severity() > self.severity() => other,
            _ => self,
        }
    }

    fn severity(&self) -> u8 {
        match self {
            Self::Present => 0,
            Self::Wait(_) => 1,
            Self::Renew(_) => 2,
            Self::Reclaim(_) => 3,
            Self::Fail(_) => 4,
        }
    }
}
