//! Why a run ended early.

use thiserror::Error;

/// The result of a step of a run.
pub type Result<T, E = BenchError> = std::result::Result<T, E>;

/// Why a run ended early. Its files are removed nevertheless.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A call of the library failed.
    #[error("{0}")]
    Call(#[from] braid_client::Error),
    /// The user stopped the run.
    #[error("stopped by a signal")]
    Interrupted,
    /// A quick run has no time for the next step: earlier results are reported.
    #[error("there is no time left in the run")]
    OutOfTime,
    /// The bytes read differ from those written.
    #[error("read {file}: the bytes at offset {offset} differ from those written")]
    WrongData {
        /// The file, in the file system.
        file: String,
        /// The offset in the file.
        offset: u64,
    },
    /// A daemon is down.
    #[error("measure: I/O daemon {iod} ({address}) is down, and calls to it would wait")]
    Down {
        /// Its id.
        iod: u64,
        /// Its last known address.
        address: String,
    },
    /// There is no daemon.
    #[error("the cluster has no I/O daemon")]
    NoIods,
    /// Files of this size would use more of the free space than a run may.
    #[error(
        "files of {wanted} bytes, {files} at a time, use more than a tenth of the {free} free bytes"
    )]
    TooMuch {
        /// Size of each row's files, in bytes.
        wanted: u64,
        /// Number of such sets of files at a time.
        files: u64,
        /// Free bytes.
        free: u64,
    },
    /// An invalid option.
    #[error("{0}")]
    Usage(String),
}
