//! Why a join cannot begin or go on. Each text names what to do.

use std::path::PathBuf;

use braid_union::PoolError;
use rustix::io::Errno;
use thiserror::Error;

/// See the texts.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the texts say it
pub enum JoinError {
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error("joining failed: {path} is no object directory: {why}")]
    NoObjects { path: PathBuf, why: String },
    #[error("joining failed: the I/O daemon of {path} has not registered; try: braid status")]
    NotRegistered { path: PathBuf },
    #[error(
        "joining failed: {path} is on another file system than its disk; try: an object \
         directory on the disk"
    )]
    OtherFileSystem { path: PathBuf },
    #[error(
        "joining failed: the disk {path} is read-only in the pool; try: braid union mode, or \
         braid union remove"
    )]
    ReadOnly { path: PathBuf },
    #[error(
        "joining failed: the pool in {meta} is joining another cluster, {cluster}; try: --config \
         of that cluster"
    )]
    OtherCluster { meta: PathBuf, cluster: String },
    #[error(
        "joining failed: the files of the pool in {meta} go to {to}, or what is there now is \
         another directory; try: --to {to}"
    )]
    OtherTarget { meta: PathBuf, to: String },
    #[error("{0}")]
    Cluster(String),
    #[error("{what} failed: {source}; try: the same command again")]
    Io { what: String, source: Errno },
    #[error("joining failed: it was stopped; try: the same command again")]
    Stopped,
}

impl JoinError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(Errno) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// The errno of an error of the standard library.
pub(crate) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
