//! The error type of the library: what failed, why, at which server, and what to try.

use std::{fmt, io, time::Duration};

use braid_layout::LayoutError;
use braid_net::NetError;
use braid_types::{Failure, Status};
use braid_wire::WireError;

/// The failure of a call of the library. Prints as `what failed: why; try: command`.
///
/// ```
/// use braid_client::{Error, Status};
/// let error = Error::new(Status::NotFound, "no such file or directory").during("open", "/a");
/// assert_eq!(error.errno(), 2);
/// let shown = "open /a: no such file or directory; try: braid ls on the directory above it";
/// assert_eq!(error.to_string(), shown);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Parts>);

#[derive(Clone, PartialEq, Eq)]
struct Parts {
    status: Status,
    why: String,
    what: Option<&'static str>,
    subject: Option<String>,
    server: Option<String>,
    hint: Option<String>,
    /// According to this host, nobody listens at the address.
    absent: bool,
    /// How long the server had moved no byte.
    silent: Duration,
    /// How long it was not asked before that, while other servers were.
    unasked: Duration,
    tried: Option<Tried>,
}

/// A call that gave up.
#[derive(Clone, PartialEq, Eq)]
struct Tried {
    time: Duration,
    /// Why the last attempt failed.
    last: String,
}

/// The result of a call of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with a status and a reason.
    pub fn new(status: Status, why: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            status,
            why: why.into(),
            what: None,
            subject: None,
            server: None,
            hint: None,
            absent: false,
            silent: Duration::ZERO,
            unasked: Duration::ZERO,
            tried: None,
        }))
    }

    /// The stable number of the failure.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// The Linux errno that a POSIX caller sees.
    pub fn errno(&self) -> i32 {
        self.0.status.errno()
    }

    /// The name of the server that failed or refused, for people; `None` if no server is the cause.
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    /// Whether the call used up all its time, whatever the last attempt's failure. The same call
    /// again would wait as long.
    pub fn was_given_up(&self) -> bool {
        self.0.tried.is_some()
    }

    /// The file of the call.
    pub fn path(&self) -> Option<&str> {
        self.0.subject.as_deref()
    }

    /// The reason, without what failed and what to try.
    pub fn why(&self) -> &str {
        &self.0.why
    }

    /// The command or step to try next.
    pub fn hint(&self) -> &str {
        self.0.hint.as_deref().unwrap_or_else(|| hint(self.0.status))
    }

    /// Whether [`Error::hint`] is general advice for this status, because no code nearer to the
    /// cause supplied a hint. Then a front end with its own terms, such as command options, may use
    /// those instead.
    pub fn has_general_hint(&self) -> bool {
        self.0.hint.is_none() && !self.0.why.contains("; try: ")
    }

    /// Names the operation and the file, unless code nearer to the cause has named them.
    #[must_use]
    pub fn during(mut self, what: &'static str, subject: impl fmt::Display) -> Self {
        if self.0.what.is_none() {
            self.0.what = Some(what);
            self.0.subject = Some(subject.to_string());
        }
        self
    }

    /// Names the server, unless code nearer to the cause has named it.
    #[must_use]
    pub fn at(mut self, server: impl fmt::Display) -> Self {
        self.0.server.get_or_insert_with(|| server.to_string());
        self
    }

    /// Replaces the general advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The refusal by `server`. If it names another server as the cause, the error names that one.
    pub(crate) fn refused(server: impl fmt::Display, failure: Failure) -> Self {
        let error = Self::new(failure.status, failure.to_string());
        match failure.blamed() {
            Some(other) => error.at(other),
            None => error.at(server),
        }
    }

    /// Records whether this host knows that nobody listens at the address.
    pub(crate) fn absent(mut self, absent: bool) -> Self {
        self.0.absent = absent;
        self
    }

    pub(crate) fn is_absent(&self) -> bool {
        self.0.absent
    }

    pub(crate) fn silent(&self) -> Duration {
        self.0.silent
    }

    pub(crate) fn unasked(&self) -> Duration {
        self.0.unasked
    }

    /// The same error, for a server that the call gave up on.
    pub(crate) fn unreachable(mut self) -> Self {
        self.0.status = Status::Unreachable;
        self
    }

    /// The error of a call that gave up after this time, with the reason of the last attempt. It
    /// names the call, whichever step failed.
    pub(crate) fn given_up(mut self, time: Duration) -> Self {
        (self.0.what, self.0.subject) = (None, None);
        if self.status() == Status::ConnectionLost {
            self.0.status = Status::Unreachable;
        }
        let last = std::mem::take(&mut self.0.why);
        self.0.tried = Some(Tried { time, last });
        self.tried_for(time).at("the server")
    }

    /// For a call that gave up in a later step: the time of the whole call.
    pub(crate) fn tried_for(mut self, time: Duration) -> Self {
        if let Some(tried) = &mut self.0.tried {
            tried.time = tried.time.max(time);
            self.0.why = format!("gave up after {:.1} s: {}", tried.time.as_secs_f64(), tried.last);
        }
        self
    }

    pub(crate) fn malformed_reply(server: impl fmt::Display, error: WireError) -> Self {
        let error =
            NetError::PeerMisbehaved { server: server.to_string(), what: error.to_string() };
        Self::from(error)
    }
}

/// The general advice for a status.
fn hint(status: Status) -> &'static str {
    match status {
        Status::Unreachable | Status::ConnectionLost | Status::NotServing => "braid status",
        Status::NotFound => "braid ls on the directory above it",
        Status::PermissionDenied | Status::NotPermitted => "braid stat to see its owner and mode",
        Status::AuthenticationFailed => "braid key list, or start braid agent on this host",
        Status::WrongRole => "an administrator's key",
        Status::NoSpace => "braid df",
        Status::QuotaExceeded => "braid quota get",
        Status::ObjectLost | Status::Corrupted => "braid fsck",
        Status::DiskError | Status::ReadOnly => "braid status, then the log of that daemon",
        Status::Fenced | Status::NoSession => "open the file again",
        Status::StaleHandle => "open the file again by its name",
        Status::UnsyncedDataLost => "write the file again from its source",
        Status::NoIods => "braid status; start an I/O daemon with braid iod",
        Status::TryAgain | Status::Busy => "the same again in a moment",
        Status::SharingViolation => "the same again when the other program has closed it",
        Status::NotEmpty => "removing what is in it first",
        Status::IsDirectory => "the path of a file in it",
        Status::NotDirectory => "braid stat on each part of the path",
        Status::NameTooLong => "names of at most 255 bytes, paths of at most 4096",
        Status::Invalid => "arguments within the limits of docs/defaults.md",
        Status::WouldLoop => "a destination that is not below it",
        Status::Exists => "another name, or removing it first",
        Status::UnknownMessage | Status::Malformed | Status::Unsupported => {
            "the same version of braid on both sides"
        }
        _ => "braid status",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &self.0;
        if let Some(what) = parts.what {
            write!(f, "{what} {}: ", parts.subject.as_deref().unwrap_or_default())?;
        }
        // A reason with its own advice needs no second one, and the advice comes last.
        let (why, hint) = parts.why.split_once("; try: ").unwrap_or((&parts.why, self.hint()));
        f.write_str(why)?;
        if let Some(server) = parts.server.as_deref().filter(|server| !why.contains(*server)) {
            write!(f, " ({server})")?;
        }
        write!(f, "; try: {hint}")
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.0.status)
    }
}

impl std::error::Error for Error {}

impl From<NetError> for Error {
    fn from(error: NetError) -> Self {
        let why = error.to_string();
        match error {
            NetError::Unreachable { server, .. } => Self::new(Status::Unreachable, why).at(server),
            NetError::TimedOut { server, waited, permit_wait: unasked } => {
                let mut error = Self::new(Status::Unreachable, why).at(server);
                (error.0.silent, error.0.unasked) = (waited, unasked);
                error
            }
            NetError::NotSent { .. } => {
                Self::new(Status::Unreachable, why).at("this host's network")
            }
            NetError::ConnectionLost { server, .. } => {
                Self::new(Status::ConnectionLost, why).at(server)
            }
            NetError::PeerMisbehaved { server, .. } => Self::new(Status::Malformed, why).at(server),
            NetError::Refused { server, failure } => Self::new(failure.status, why).at(server),
            _ => Self::new(Status::ConnectionLost, why),
        }
    }
}

impl From<LayoutError> for Error {
    fn from(error: LayoutError) -> Self {
        let status = match error {
            LayoutError::PastLargestFile { .. } | LayoutError::Overflow => Status::TooLarge,
            _ => Status::Invalid,
        };
        Self::new(status, error.to_string())
            .with_hint("a view and layout within the limits of docs/defaults.md")
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(io_kind(error.status()), error)
    }
}

fn io_kind(status: Status) -> io::ErrorKind {
    use io::ErrorKind as Kind;
    match status {
        Status::NotFound => Kind::NotFound,
        Status::Exists => Kind::AlreadyExists,
        Status::PermissionDenied | Status::NotPermitted | Status::AuthenticationFailed => {
            Kind::PermissionDenied
        }
        Status::NotDirectory => Kind::NotADirectory,
        Status::IsDirectory => Kind::IsADirectory,
        Status::NotEmpty => Kind::DirectoryNotEmpty,
        Status::Invalid => Kind::InvalidInput,
        Status::TooLarge => Kind::FileTooLarge,
        Status::NoSpace | Status::NoIods => Kind::StorageFull,
        Status::QuotaExceeded => Kind::QuotaExceeded,
        Status::ReadOnly => Kind::ReadOnlyFilesystem,
        Status::StaleHandle => Kind::StaleNetworkFileHandle,
        Status::Unsupported => Kind::Unsupported,
        Status::Unreachable => Kind::TimedOut,
        Status::ConnectionLost => Kind::ConnectionReset,
        Status::TryAgain => Kind::WouldBlock,
        Status::Busy | Status::SharingViolation => Kind::ResourceBusy,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_server_and_next_step() {
        let (server, waited) = ("I/O daemon 3 at h:1".to_owned(), Duration::from_secs(30));
        let net = NetError::TimedOut { server, waited, permit_wait: Duration::ZERO };
        let error = Error::from(net).during("read", "/a/b").during("open", "/other");
        assert_eq!(
            error.to_string(),
            "read /a/b: I/O daemon 3 at h:1 did not answer in 30.0 s; try: braid status"
        );
        assert_eq!((error.server(), error.path()), (Some("I/O daemon 3 at h:1"), Some("/a/b")));
        let refused =
            Error::refused("metadata server at h:2", Status::NotFound.into()).during("stat", "/x");
        assert_eq!(
            refused.to_string(),
            "stat /x: no such file or directory (metadata server at h:2); \
             try: braid ls on the directory above it"
        );
    }

    #[test]
    fn advice_of_the_library_names_no_option_of_a_command() {
        for status in Status::ALL {
            let error = Error::new(*status, "no");
            assert!(
                error.has_general_hint() && !error.hint().contains(" -"),
                "{status:?}: {}",
                error.hint()
            );
        }
        assert!(!Error::new(Status::Invalid, "no; try: less").has_general_hint());
        assert!(!Error::new(Status::Invalid, "no").with_hint("less").has_general_hint());
    }

    #[test]
    fn giving_up_in_a_late_step_reports_the_time_of_the_whole_call() {
        let late =
            Error::new(Status::ConnectionLost, "no route").at("h:1").given_up(Duration::ZERO);
        assert_eq!(late.why(), "gave up after 0.0 s: no route");
        let whole = late.tried_for(Duration::from_secs(8)).during("stat", "/x");
        assert_eq!(
            whole.to_string(),
            "stat /x: gave up after 8.0 s: no route (h:1); try: braid status"
        );
        assert_eq!(whole.status(), Status::Unreachable);
        let refused = Error::new(Status::NotFound, "no").tried_for(Duration::from_secs(8));
        assert_eq!(refused.why(), "no", "it was answered");
    }

    #[test]
    fn giving_up_is_reported_whatever_the_last_reply_was() {
        for status in
            [Status::NotServing, Status::TryAgain, Status::Cancelled, Status::ConnectionLost]
        {
            let refused = Error::refused("I/O daemon 3 at h:1", status.into());
            assert!(!refused.was_given_up());
            let given_up = refused.given_up(Duration::from_secs(30)).during("write", "/x");
            assert!(
                given_up.was_given_up()
                    && given_up.tried_for(Duration::from_secs(31)).was_given_up(),
                "{status:?}"
            );
        }
    }

    #[test]
    fn an_error_becomes_an_io_error_that_keeps_it() {
        let io = io::Error::from(Error::new(Status::NoSpace, "full"));
        assert_eq!(io.kind(), io::ErrorKind::StorageFull);
        let inner = io.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        assert_eq!(inner.map(Error::errno), Some(28));
    }
}
