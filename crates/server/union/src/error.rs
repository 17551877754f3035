//! Errors. Calls of the file system fail with an errno; administration fails with a text.

use std::path::PathBuf;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The result of a call of the file system.
pub type Result<T> = std::result::Result<T, Errno>;

/// Why a pool cannot be created, opened or changed. Each text names what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the texts say it
pub enum PoolError {
    #[error("using {path} as a branch failed: it is no directory; try: mkdir {path}")]
    NotADirectory { path: PathBuf },
    #[error("using {path} as a branch failed: it is given twice; try: name each disk once")]
    Twice { path: PathBuf },
    #[error("using {inner} as a branch failed: it is inside {outer}; try: branches side by side")]
    Nested { inner: PathBuf, outer: PathBuf },
    #[error("using {path} as a branch failed: it is read-only; try: {path}=ro")]
    ReadOnly { path: PathBuf },
    #[error("using {path} as a branch failed: it belongs to the pool {pool}; try: another disk")]
    OtherPool { path: PathBuf, pool: String },
    #[error(
        "using {path} as a branch failed: its {} is damaged: {why}; try: restore it, or remove it \
         and add the branch again",
        crate::BRANCH_FILE
    )]
    Identity { path: PathBuf, why: String },
    #[error(
        "opening the branch {path} failed: it has no {}: its disk is probably not mounted; try: \
         mount the disk",
        crate::BRANCH_FILE
    )]
    Missing { path: PathBuf },
    #[error(
        "opening the branch {path} failed: another branch of the pool is there; try: mount the \
         right disk"
    )]
    WrongBranch { path: PathBuf },
    #[error("a union has at most {max} branches; try: fewer disks")]
    TooMany { max: usize },
    #[error("finding the branch {path} failed: the pool has none; try: braid union status {meta}")]
    NoBranch { path: PathBuf, meta: PathBuf },
    #[error(
        "removing the branch {path} failed: it has files or directories, {example} for example; \
         try: braid union drain {meta} {path}"
    )]
    HasFiles { path: PathBuf, meta: PathBuf, example: String },
    #[error(
        "using the branch {path} failed: its disk is missing or gives errors; try: mount the disk, \
         or: braid union remove {meta} {path} --with-files"
    )]
    DiskFailed { path: PathBuf, meta: PathBuf },
    #[error(
        "using the label {label} failed: no branch has it; try: braid union label {meta} DISK \
         {label}"
    )]
    NoLabel { label: String, meta: PathBuf },
    #[error(
        "taking the label {label} from its last branch failed: new files are placed by it; try: \
         braid union placement {meta} most-free"
    )]
    LabelInUse { label: String, meta: PathBuf },
    #[error("a union has at most {max} quotas; try: quotas of groups")]
    TooManyQuotas { max: usize },
    #[error("a branch has at most {max} labels; try: fewer labels")]
    TooManyLabels { max: usize },
    #[error("a union needs at least one branch; try: braid union create POOL --meta DIR DISK…")]
    None,
    #[error("reading {path} failed: {why}; try: restore it from a copy")]
    Config { path: PathBuf, why: String },
    #[error("creating a pool in {path} failed: there is one; try: braid union up {path}")]
    Exists { path: PathBuf },
    #[error("opening a pool in {path} failed: there is none; try: braid union create")]
    NoPool { path: PathBuf },
    #[error(
        "opening the pool in {path} failed: another process has it mounted; try: findmnt -t \
         fuse.braid"
    )]
    InUse { path: PathBuf },
    #[error(
        "using the pool in {meta} failed: it is joining the cluster {cluster}; try: braid union \
         join {meta}"
    )]
    Joining { meta: PathBuf, cluster: String },
    #[error(
        "using the pool in {meta} failed: its files have joined the cluster {cluster}, below {to}; \
         try: braid mount, or: braid ls {to}"
    )]
    Joined { meta: PathBuf, cluster: String, to: String },
    #[error("{text}")]
    Remote { exit: ErrorKind, text: String },
    #[error(
        "opening the pool failed: it has striped files, which only root can read; try: sudo braid \
         union up"
    )]
    StripedNeedRoot,
    #[error("{what} failed: {source}")]
    Io { what: String, source: Errno },
}

/// What kind of error a [`PoolError`] is, for exit codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// A pool, a branch or a file does not exist.
    NotFound,
    /// What was asked for is wrong.
    Usage,
    /// The system refused something.
    Failed,
}

impl PoolError {
    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoPool { .. } | Self::Missing { .. } | Self::NoBranch { .. } => {
                ErrorKind::NotFound
            }
            Self::Io { .. } | Self::Config { .. } | Self::DiskFailed { .. } => ErrorKind::Failed,
            Self::Remote { exit, .. } => *exit,
            _ => ErrorKind::Usage,
        }
    }
}

/// Adds what was done to an errno.
pub(crate) trait During<T> {
    fn during(self, what: impl FnOnce() -> String) -> std::result::Result<T, PoolError>;
}

impl<T> During<T> for Result<T> {
    fn during(self, what: impl FnOnce() -> String) -> std::result::Result<T, PoolError> {
        self.map_err(|source| PoolError::Io { what: what(), source })
    }
}

impl<T> During<T> for std::io::Result<T> {
    fn during(self, what: impl FnOnce() -> String) -> std::result::Result<T, PoolError> {
        self.map_err(|error| PoolError::Io {
            what: what(),
            source: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        })
    }
}
