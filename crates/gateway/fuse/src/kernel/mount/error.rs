//! Errors of mounting and unmounting, for the user: what failed, why, and which command to try.

use crate::kernel::connection::StartError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What to try where a directory cannot be mounted on.
fn instead(point: &Path, why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::NotFound => format!("mkdir -p {}", point.display()),
        _ => "another directory".into(),
    }
}

/// Why mounting failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// The kernel has no FUSE.
    #[error("opening /dev/fuse failed: {0}; try: modprobe fuse")]
    NoDevice(#[source] io::Error),
    /// The directory cannot be a mount point.
    #[error("{} cannot be mounted on: {why}; try: {}", point.display(), instead(point, why))]
    Point {
        /// The directory.
        point: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// It is a mount whose process is gone.
    #[error(
        "{0} is a mount whose process is gone; try: braid umount {0}",
        point.display()
    )]
    Dead {
        /// The directory.
        point: PathBuf,
    },
    /// Something is mounted there already.
    #[error(
        "{0} is mounted already, from {source_name} ({kind}); try: braid umount {0}",
        point.display()
    )]
    Mounted {
        /// The directory.
        point: PathBuf,
        /// Its source in the table of mounts.
        source_name: String,
        /// The type of that file system.
        kind: String,
    },
    /// Only root may mount, and the helper for other users is missing.
    #[error(
        "mounting needs root or fusermount3, which is not installed; \
         try: sudo braid mount, or apt-get install fuse3"
    )]
    NotAllowed,
    /// The helper refused.
    #[error("mounting on {} with fusermount3 failed: {why}{hint}", point.display())]
    Helper {
        /// The directory.
        point: PathBuf,
        /// Its message.
        why: String,
        /// What to try, if that is known; with `; try: ` before it.
        hint: &'static str,
    },
    /// mount(2) refused.
    #[error("mounting on {} failed: {why}", point.display())]
    Kernel {
        /// The directory.
        point: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// It was mounted, and serving it could not begin.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Why unmounting failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnmountError {
    /// Nothing is mounted there.
    #[error("{} is not a mount point", point.display())]
    NotMounted {
        /// The directory.
        point: PathBuf,
    },
    /// Another file system is mounted there.
    #[error("{0} is a mount of {kind}, not of BraidFS; try: umount {0}", point.display())]
    NotOurs {
        /// The directory.
        point: PathBuf,
        /// The type of file system.
        kind: String,
    },
    /// It is in use.
    #[error(
        "{0} is in use{users}; try: braid umount --lazy {0}",
        point.display()
    )]
    Busy {
        /// The directory.
        point: PathBuf,
        /// The processes that can be seen: ` by git (1234), bash (567)`, or nothing.
        users: String,
    },
    /// The system refused.
    #[error("unmounting {} failed: {why}", point.display())]
    Failed {
        /// The directory.
        point: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The helper is missing or refused.
    #[error(
        "unmounting {0} needs root or fusermount3: {why}; try: sudo braid umount {0}",
        point.display()
    )]
    Helper {
        /// The directory.
        point: PathBuf,
        /// Why it did not work.
        why: String,
    },
}
