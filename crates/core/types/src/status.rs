//! The outcome of a request: a stable number on the wire, separate from Rust's errors.

use std::fmt;

macro_rules! statuses {
    ($( $(#[$doc:meta])* $name:ident = $code:literal, $errno:literal, $text:literal; )*) => {
        /// The outcome of a request. The numbers are part of the wire format and never change
        /// meaning.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum Status { $( $(#[$doc])* $name = $code, )* }

        impl Status {
            /// Every status, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The status with this number; `None` for an unknown number (I10).
            pub fn from_code(code: u16) -> Option<Self> {
                match code { $( $code => Some(Self::$name), )* _ => None }
            }

            /// The Linux errno that a POSIX caller sees; 0 for [`Status::Ok`].
            pub fn errno(self) -> i32 {
                match self { $( Self::$name => $errno, )* }
            }

            /// A short description.
            pub fn text(self) -> &'static str {
                match self { $( Self::$name => $text, )* }
            }
        }
    };
}

statuses! {
    /// Done.
    Ok = 0, 0, "done";
    /// The file or directory does not exist.
    NotFound = 1, 2, "no such file or directory";
    /// The name exists already.
    Exists = 2, 17, "already exists";
    /// The session's identity may not do this.
    PermissionDenied = 3, 13, "permission denied";
    /// Only the owner or root may do this.
    NotPermitted = 4, 1, "operation not permitted";
    /// A path component is not a directory.
    NotDirectory = 5, 20, "not a directory";
    /// A directory where a file is wanted.
    IsDirectory = 6, 21, "is a directory";
    /// The directory still has entries.
    NotEmpty = 7, 39, "directory not empty";
    /// An invalid value.
    Invalid = 8, 22, "invalid argument";
    /// A name of more than 255 bytes, or a path of more than 4096.
    NameTooLong = 9, 36, "name too long";
    /// Too many symbolic links in the path.
    TooManyLinks = 10, 40, "too many symbolic links";
    /// Too many hard links.
    LinkLimit = 11, 31, "too many hard links";
    /// An offset or length past the largest file.
    TooLarge = 12, 27, "file too large";
    /// The disk of an I/O daemon or of the metadata server is full.
    NoSpace = 13, 28, "no space left on device";
    /// A quota is exhausted.
    QuotaExceeded = 14, 122, "quota exceeded";
    /// The disk is mounted read-only.
    ReadOnly = 15, 30, "read-only file system";
    /// The disk failed.
    DiskError = 16, 5, "input/output error";
    /// An object that is recorded as existing is missing (I11).
    ObjectLost = 17, 5, "an object of the file is missing";
    /// A checksum or a record contradicts the data.
    Corrupted = 18, 5, "stored data is corrupted";
    /// No such extended attribute.
    NoAttribute = 19, 61, "no such attribute";
    /// The buffer is too small for the value.
    Range = 20, 34, "result too large";
    /// Renaming a directory into itself, or another loop.
    WouldLoop = 21, 22, "a directory cannot be moved into itself";
    /// Something else is using it.
    Busy = 22, 16, "busy";
    /// The file of a handle no longer exists.
    StaleHandle = 23, 116, "stale file handle";
    /// The server knows the message but does not support the request.
    Unsupported = 24, 95, "not supported";
    /// The message type or version is unknown (I10).
    UnknownMessage = 25, 71, "message not understood";
    /// The message violates the protocol.
    Malformed = 26, 71, "malformed message";
    /// A length is over its limit (I9).
    LimitExceeded = 27, 90, "over a limit of the protocol";
    /// The metadata server did not sign this capability for this use (I4).
    BadCapability = 28, 1, "capability refused";
    /// The capability handle is unknown on this connection; present the capability again.
    UnknownHandle = 29, 116, "capability handle not known";
    /// The capability's size generation is old; get a new capability (I5).
    StaleGeneration = 30, 116, "the file was truncated meanwhile";
    /// The cluster map or the metadata server's epoch in the request is old.
    StaleEpoch = 31, 116, "old epoch";
    /// The session was fenced.
    Fenced = 32, 116, "this client was fenced";
    /// The session is unknown (the metadata server restarted, or the session ended); start a new
    /// one.
    NoSession = 33, 116, "session not known";
    /// The server is starting, in its grace period, or waits for another server; try again.
    TryAgain = 34, 11, "not yet; try again";
    /// The daemon stopped serving because it lost the metadata server (I4).
    NotServing = 35, 5, "the daemon does not serve now";
    /// No I/O daemon is available for a new file.
    NoIods = 36, 28, "no I/O daemon is up";
    /// The key or ticket of the handshake was refused.
    AuthenticationFailed = 37, 13, "key refused";
    /// The role of the connection may not send this message.
    WrongRole = 38, 1, "not for this role";
    /// A bug of the server, reported instead of a crash.
    Internal = 39, 5, "internal error of the server";
    /// The request was cancelled by its sender.
    Cancelled = 40, 125, "cancelled";
    /// The server was not reached in time. Never sent on the wire: the client generates it.
    Unreachable = 41, 110, "server not reached in time";
    /// The connection ended before the answer. Never sent on the wire: the client generates it.
    ConnectionLost = 42, 104, "connection lost";
    /// Acknowledged but unflushed data was lost: the daemon restarted (I6).
    UnsyncedDataLost = 43, 5, "unflushed writes were lost when the daemon restarted";
    /// Rename across file systems.
    CrossDevice = 44, 18, "not on the same file system";
    /// The file is no longer being executed or cannot be written while it is.
    TextBusy = 45, 26, "text file busy";
    /// Too many open files or sessions for the server.
    TooManyOpen = 46, 24, "too many open files";
    /// No such device or address: opening a special file through the library.
    NoDevice = 47, 6, "no such device or address";
    /// The table of locks is full.
    NoLocks = 48, 37, "no locks available";
    /// Waiting for the lock would be a deadlock: its owner waits for the caller.
    Deadlock = 49, 35, "the wait would be a deadlock";
    /// The caller interrupted the wait. Never sent on the wire: the client generates it.
    Interrupted = 50, 4, "interrupted";
    /// Another open of the file denies the requested access, or has the access to be denied. EBUSY,
    /// as Linux reports a sharing violation of SMB (`ERRbadshare`, fs/smb/client/netmisc.c). EACCES
    /// would make users check the file mode.
    SharingViolation = 51, 16, "another open of the file excludes it";
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A status other than [`Status::Ok`], with the server's explanation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The stable number.
    pub status: Status,
    /// What failed, for people: the object, disk or path. May be empty.
    pub detail: String,
}

impl Failure {
    /// A failure with its detail.
    pub fn new(status: Status, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// A failure caused by a server other than the one that answers. `server` is its name in
    /// errors, without ": "; it begins the detail (docs/format.md, "Frames").
    pub fn blaming(status: Status, server: &str, why: impl fmt::Display) -> Self {
        Self { status, detail: format!("{server}: {why}") }
    }

    /// The server at fault, if it is an I/O daemon other than the server that answered.
    pub fn blamed(&self) -> Option<&str> {
        let (server, _) = self.detail.split_once(": ")?;
        server.starts_with("I/O daemon ").then_some(server)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self { status, detail: String::new() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detail.is_empty() {
            self.status.fmt(f)
        } else {
            write!(f, "{}: {}", self.status, self.detail)
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_survive_the_wire() {
        for (i, status) in Status::ALL.iter().enumerate() {
            assert_eq!(
                *status as usize, i,
                "{status:?}: numbers are handed out in order and never reused"
            );
            assert_eq!(Status::from_code(*status as u16), Some(*status));
            assert_eq!(status.errno() == 0, *status == Status::Ok);
        }
        assert_eq!(Status::from_code(Status::ALL.len() as u16), None);
    }

    #[test]
    fn a_failure_names_the_daemon_that_it_blames_and_no_other() {
        let blaming =
            Failure::blaming(Status::TryAgain, "I/O daemon 3 at [::1]:7001", "it is down: for 6 s");
        assert_eq!(blaming.blamed(), Some("I/O daemon 3 at [::1]:7001"));
        assert_eq!(
            blaming.to_string(),
            "not yet; try again: I/O daemon 3 at [::1]:7001: it is down: for 6 s"
        );
        assert_eq!(
            Failure::new(Status::NotFound, "I/O daemon 9").blamed(),
            None,
            "the caller named the daemon"
        );
        assert_eq!(Failure::new(Status::TryAgain, "client 3: it is given up soon").blamed(), None);
        assert_eq!(Failure::from(Status::TryAgain).blamed(), None);
    }
}
