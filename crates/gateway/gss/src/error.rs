//! Failures of the library, with its own texts.

use braid_nfs_wire::rpc::gss::{GSS_S_FAILURE, GssFailure};
use thiserror::Error;

/// Why Kerberos cannot be used or refuses a peer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GssError {
    /// The library is not installed.
    #[error(
        "Kerberos is not available: {library} was not found; try: apt install \
         libgssapi-krb5-2 ({reason})"
    )]
    NoLibrary {
        /// The library's file name.
        library: String,
        /// The dynamic linker's message.
        reason: String,
    },
    /// The library lacks a function: it is not MIT Kerberos 1.11 or later.
    #[error("Kerberos is not available: {library} has no function {function}")]
    NoFunction {
        /// The library's file name.
        library: String,
        /// The missing function.
        function: &'static str,
    },
    /// A function of the library failed.
    #[error("{function}: {text}")]
    Failed {
        /// The function.
        function: &'static str,
        /// Its statuses.
        failure: GssFailure,
        /// The library's text for them.
        text: String,
    },
    /// A path or name contains a zero byte.
    #[error("a path or name contains a zero byte")]
    ZeroByte,
    /// The peer's name is not UTF-8.
    #[error("the peer's name is not UTF-8")]
    NameNotUtf8,
    /// The peer's message is authentic but not encrypted.
    #[error("message is not encrypted")]
    NotEncrypted,
    /// The mechanism cannot encrypt in this context.
    #[error("the context cannot encrypt")]
    CannotEncrypt,
}

impl GssError {
    /// The statuses for the peer.
    pub fn failure(&self) -> GssFailure {
        match self {
            Self::Failed { failure, .. } => *failure,
            _ => GssFailure { major: GSS_S_FAILURE, minor: 0 },
        }
    }
}
