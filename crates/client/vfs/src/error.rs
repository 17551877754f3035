//! Why an operation failed: what the cluster said, or what this layer found without asking it.

use std::fmt;

use braid_client::Status;

/// Why an operation failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The cluster refused, or was not reached.
    Cluster(braid_client::Error),
    /// No such handle, or it is not open for this (`EBADF`).
    BadHandle,
    /// There is no data, or no hole, at or after the offset (`ENXIO`).
    PastEnd,
    /// Names changed between the caller's look and its call: look again (`ESTALE`).
    LookAgain,
    /// The caller gave up waiting (`EINTR`).
    Interrupted,
}

/// The result of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// With a status that this layer found out by itself.
    pub(crate) fn of(status: Status) -> Self {
        Self::Cluster(braid_client::Error::new(status, status.text()))
    }

    /// What the cluster said.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Cluster(error) => Some(error.status()),
            _ => None,
        }
    }

    /// Which server failed or refused, as a person would name it.
    pub(crate) fn server(&self) -> Option<&str> {
        match self {
            Self::Cluster(error) => error.server(),
            _ => None,
        }
    }

    /// Whether a server was waited for in vain, for as long as a call may take.
    pub(crate) fn is_of_server_away(&self) -> bool {
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
            Self::PastEnd => f.write_str("nothing is there up to the end of the file"),
            Self::LookAgain => f.write_str("the name leads elsewhere meanwhile"),
            Self::Interrupted => f.write_str("the caller gave up waiting"),
        }
    }
}

impl std::error::Error for Error {}
