//! Why a request is refused: as errno for the program, and in the log, with its name, when a server is to blame.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use braid_vfs::{Error, Status};
use rustix::io::Errno;

use super::Done;
use crate::kernel::{Header, Reply};

/// The same trouble is told once in this time: a server that is away fails every call.
const TOLD_AGAIN: Duration = Duration::from_secs(10);
/// Troubles that are remembered as told (I9).
const TOLD_MAX: usize = 256;

/// Why a request is refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// `vfs` says so.
    Failed(Error),
    /// The request itself is the reason.
    Plain(Errno),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Plain(errno)
    }
}

impl Refusal {
    /// What the program sees.
    pub(super) fn errno(&self) -> Errno {
        match self {
            Self::Plain(errno) => *errno,
            Self::Failed(Error::Cluster(error)) => of_status(error.status()),
            Self::Failed(Error::BadHandle) => Errno::BADF,
            Self::Failed(Error::PastEnd) => Errno::NXIO,
            Self::Failed(Error::LookAgain) => Errno::STALE,
            Self::Failed(Error::Interrupted) => Errno::INTR,
            Self::Failed(_) => Errno::IO,
        }
    }

    /// What a person must know: the cluster failed, not the program.
    fn trouble(&self) -> Option<&braid_vfs::ClusterError> {
        match self {
            Self::Failed(Error::Cluster(error)) if is_trouble(error.status()) => Some(error),
            _ => None,
        }
    }
}

/// What a program sees of a status. Where the protocol's own errno says something else to a program than it means (EAGAIN of
/// a regular file, a reset connection, a stale handle for a fenced client), it is an I/O error, and the log says which.
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

/// Whether the cluster is to blame.
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

/// Says each trouble once in a while.
#[derive(Default)]
pub(super) struct Report(Mutex<HashMap<Trouble, Instant>>);

/// What failed how, at which server.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Trouble {
    opcode: u32,
    status: Status,
    server: Option<String>,
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").finish_non_exhaustive()
    }
}

impl Report {
    /// Says why not, if so, to who still waits for the answer, and in the log.
    pub(super) fn refuse(&self, header: &Header, done: Done, reply: Option<Reply>) {
        let Err(refusal) = done else { return };
        self.tell(header, &refusal);
        if let Some(reply) = reply {
            reply.error(refusal.errno());
        }
    }

    fn tell(&self, header: &Header, refusal: &Refusal) {
        let Some(error) = refusal.trouble() else { return };
        let server = error.server().map(str::to_owned);
        let trouble = Trouble { opcode: header.opcode, status: error.status(), server };
        if self.is_new(trouble, Instant::now()) {
            tracing::error!(
                opcode = header.opcode,
                node = header.node,
                pid = header.pid,
                "{error}"
            );
        }
    }

    fn is_new(&self, trouble: Trouble, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD_MAX {
            told.retain(|_, since| now.saturating_duration_since(*since) < TOLD_AGAIN);
        }
        match told.get(&trouble) {
            Some(since) if now.saturating_duration_since(*since) < TOLD_AGAIN => false,
            _ if told.len() >= TOLD_MAX => false,
            _ => {
                told.insert(trouble, now);
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
        let told_apart = [
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
        for (status, errno) in told_apart {
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
    fn a_trouble_is_told_once_in_a_while() {
        let (report, start) = (Report::default(), Instant::now());
        let of = |opcode| Trouble {
            opcode,
            status: Status::Unreachable,
            server: Some("I/O daemon 3".to_owned()),
        };
        let trouble = || of(15);
        assert!(report.is_new(trouble(), start));
        assert!(!report.is_new(trouble(), start + TOLD_AGAIN / 2));
        assert!(report.is_new(of(16), start));
        assert!(report.is_new(trouble(), start + TOLD_AGAIN));
    }
}
