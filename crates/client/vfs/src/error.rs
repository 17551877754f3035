//! Why an operation failed: an error of the cluster, or one that this crate found without asking
//! it.

use std::fmt;

use braid_client::Status;

/// Why an operation failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The cluster refused, or was not reached.
    Cluster(braid_client::Error),
    /// No such handle, or it is not open for this operation (`EBADF`).
    BadHandle,
    /// There is no data, or no hole, at or after the offset (`ENXIO`).
    PastEnd,
    /// Names changed between the caller's lookup and its call: it must look up again (`ESTALE`).
    NameChanged,
    /// The caller gave up waiting (`EINTR`).
    Interrupted,
}

/// The result of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with a status that this crate found by itself.
    pub(crate) fn of(status: Status) -> Self {
        Self::Cluster(braid_client::Error::new(status, status.text()))
    }

    /// The status of a cluster's error.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Cluster(error) => Some(error.status()),
            _ => None,
        }
    }

    /// The server that failed or refused, as shown to people.
    pub(crate) fn server(&self) -> Option<&str> {
        match self {
            Self::Cluster(error) => error.server(),
            _ => None,
        }
    }

    /// Whether a server did not answer for as long as a call may take.
    pub(crate) fn is_server_unresponsive(&self) -> bool {
        let Self::Cluster(error) = self else { return false };
        error.was_given_up()
            || matches!(error.status(), Status::Unreachable | Status::ConnectionLost)
    }
}

impl From<braid_client::Error> for Error {
    fn from(error: braid_client::Error) -> Self {
        Self::Cluster(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(error) => error.fmt(f),
            Self::BadHandle => f.write_str("the handle is not open for this"),
            Self::PastEnd => f.write_str("there is no data or hole at or after the offset"),
            Self::NameChanged => f.write_str("the name has changed meanwhile"),
            Self::Interrupted => f.write_str("the caller gave up waiting"),
        }
    }
}

impl std::error::Error for Error {}
