//! Why a run ended early.

use thiserror::Error;

/// The result of a step of a run.
pub type Result<T, E = BenchError> = std::result::Result<T, E>;

/// Why a run ended early. What it had made is removed all the same.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A call of the library failed.
    #[error("{0}")]
    Call(#[from] braid_client::Error),
    /// The user stopped it.
    #[error("stopped by a signal")]
    Interrupted,
    /// A quick run has no time for what comes next: what was measured up to there is reported.
    #[error("there is no time left in the run")]
    OutOfTime,
    /// What was read is not what was written.
    #[error("{file} has other bytes at offset {offset} than were written there")]
    WrongData {
        /// The file, in the file system.
        file: String,
        /// Where, bytes.
        offset: u64,
    },
    /// A daemon does not take part.
    #[error("I/O daemon {iod} ({address}) is down, and what lies on it would wait")]
    Down {
        /// Which.
        iod: u64,
        /// Where it was last heard.
        address: String,
    },
    /// There is no daemon at all.
    #[error("the cluster has no I/O daemon")]
    NoIods,
    /// Files of this size would take more of the free space than a run may.
    #[error(
        "files of {wanted} bytes, {files} at a time, are more than a tenth of the {free} bytes that are free"
    )]
    TooMuch {
        /// Bytes of each row's files.
        wanted: u64,
        /// How many such sets of files there are at a time.
        files: u64,
        /// Bytes free.
        free: u64,
    },
    /// An option that makes no sense.
    #[error("{0}")]
    Usage(String),
}
