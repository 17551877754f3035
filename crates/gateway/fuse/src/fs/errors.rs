//! Why a request fails: an errno for the program and, when a server is at fault, a line in the log
//! with its name.

use std::{
    collections::HashMap,
    fmt,
    sync::Mutex,
    time::{Duration, Instant},
};

use braid_vfs::{Error, Status};
use rustix::io::Errno;

use super::Done;
use crate::kernel::{Header, Reply};

/// The same error is logged once in this time: with an unresponsive server every call fails.
const LOG_AGAIN: Duration = Duration::from_secs(10);
/// Errors that are remembered as logged (I9).
const LOGGED_MAX: usize = 256;

/// Why a request fails.
#[derive(Debug)]
pub(super) enum ErrnoReply {
    /// `vfs` failed.
    Failed(Error),
    /// The request itself is not valid.
    Errno(Errno),
}

impl From<Error> for ErrnoReply {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Errno> for ErrnoReply {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl ErrnoReply {
    /// What the program sees.
    pub(super) fn errno(&self) -> Errno {
        match self {
            Self::Errno(errno) => *errno,
            Self::Failed(Error::Cluster(error)) => of_status(error.status()),
            Self::Failed(Error::BadHandle) => Errno::BADF,
            Self::Failed(Error::PastEnd) => Errno::NXIO,
            Self::Failed(Error::NameChanged) => Errno::STALE,
            Self::Failed(Error::Interrupted) => Errno::INTR,
            Self::Failed(_) => Errno::IO,
        }
    }

    /// The error for the log: the cluster failed, not the program.
    fn trouble(&self) -> Option<&braid_vfs::ClusterError> {
        match self {
            Self::Failed(Error::Cluster(error)) if is_trouble(error.status()) => Some(error),
            _ => None,
        }
    }
}

/// The errno that a program sees. Where the protocol's own errno would mislead the program (EAGAIN
/// of a regular file, a reset connection, a stale handle for a fenced client), it is an I/O error,
/// and the log has the cause.
fn of_status(status: Status) -> Errno {
    match status {
        Status::TryAgain
        | Status::ConnectionLost
        | Status::UnknownHandle
        | Status::StaleGeneration
        | Status::StaleEpoch
        | Status::BadCapability
        | Status::Fenced
        | Status::NoSession
        | Status::UnknownMessage
        | Status::Malformed
        | Status::WrongRole
        | Status::Cancelled
        | Status::Ok => Errno::IO,
        Status::LimitExceeded => Errno::TOOBIG,
        Status::TooManyOpen => Errno::NFILE,
        status => Errno::from_raw_os_error(status.errno()),
    }
}

/// Whether the cluster is at fault.
fn is_trouble(status: Status) -> bool {
    of_status(status) == Errno::IO
        || matches!(
            status,
            Status::Unreachable
                | Status::NoSpace
                | Status::NoIods
                | Status::AuthenticationFailed
                | Status::UnsyncedDataLost
                | Status::StaleHandle
        )
}

/// Logs errors of servers, each once in a while.
#[derive(Default)]
pub(super) struct ErrorLog(Mutex<HashMap<ServerError, Instant>>);

/// An error of a server, as it is counted for the log.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ServerError {
    opcode: u32,
    status: Status,
    server: Option<String>,
}

impl fmt::Debug for ErrorLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").finish_non_exhaustive()
    }
}

impl ErrorLog {
    /// After a failure: replies with the errno, unless a reply was sent, and logs an error of a
    /// server.
    pub(super) fn refuse(&self, header: &Header, done: Done, reply: Option<Reply>) {
        let Err(refusal) = done else { return };
        self.log(header, &refusal);
        if let Some(reply) = reply {
            reply.error(refusal.errno());
        }
    }

    fn log(&self, header: &Header, refusal: &ErrnoReply) {
        let Some(error) = refusal.trouble() else { return };
        let server = error.server().map(str::to_owned);
        let trouble = ServerError { opcode: header.opcode, status: error.status(), server };
        if self.is_new(trouble, Instant::now()) {
            tracing::error!(
                opcode = header.opcode,
                node = header.node,
                pid = header.pid,
                "{error}"
            );
        }
    }

    fn is_new(&self, trouble: ServerError, now: Instant) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(braid_types::poisoned);
        if logged.len() >= LOGGED_MAX {
            logged.retain(|_, since| now.saturating_duration_since(*since) < LOG_AGAIN);
        }
        match logged.get(&trouble) {
            Some(since) if now.saturating_duration_since(*since) < LOG_AGAIN => false,
            _ if logged.len() >= LOGGED_MAX => false,
            _ => {
                logged.insert(trouble, now);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_an_errno_that_a_program_understands() {
        let distinct = [
            (Status::NotFound, Errno::NOENT),
            (Status::NotEmpty, Errno::NOTEMPTY),
            (Status::NoAttribute, Errno::NODATA),
            (Status::Unsupported, Errno::OPNOTSUPP),
            (Status::Unreachable, Errno::TIMEDOUT),
            (Status::NoSpace, Errno::NOSPC),
            (Status::QuotaExceeded, Errno::DQUOT),
            (Status::CrossDevice, Errno::XDEV),
            (Status::StaleHandle, Errno::STALE),
            (Status::TryAgain, Errno::IO),
            (Status::Fenced, Errno::IO),
            (Status::UnsyncedDataLost, Errno::IO),
        ];
        for (status, errno) in distinct {
            assert_eq!(of_status(status), errno, "{status:?}");
        }
        for status in Status::ALL {
            let errno = of_status(*status);
            assert!((1..134).contains(&errno.raw_os_error()), "{status:?}");
            let confusing = [Errno::AGAIN, Errno::CONNRESET, Errno::PROTO, Errno::CANCELED];
            assert!(!confusing.contains(&errno), "{status:?} is {errno}");
        }
    }

    #[test]
    fn an_error_of_a_server_is_logged_once_in_a_while() {
        let (report, start) = (ErrorLog::default(), Instant::now());
        let of = |opcode| ServerError {
            opcode,
            status: Status::Unreachable,
            server: Some("I/O daemon 3".to_owned()),
        };
        let trouble = || of(15);
        assert!(report.is_new(trouble(), start));
        assert!(!report.is_new(trouble(), start + LOG_AGAIN / 2));
        assert!(report.is_new(of(16), start));
        assert!(report.is_new(trouble(), start + LOG_AGAIN));
    }
}
