//! What can go wrong, for the person at the terminal: what, why, and what to type.

use crate::kernel::connection::StartError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What to type where a directory cannot be mounted on.
fn instead(point: &Path, why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::NotFound => format!("mkdir -p {}", point.display()),
        _ => "another directory".into(),
    }
}

/// Why there is no mount.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// The kernel's part is missing.
    #[error("opening /dev/fuse failed: {0}; try: modprobe fuse")]
    NoDevice(#[source] io::Error),
    /// The mount point cannot be one.
    #[error("{} cannot be mounted on: {why}; try: {}", point.display(), instead(point, why))]
    Point {
        /// The directory.
        point: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// A mount whose process is gone.
    #[error("{0} is a mount whose process is gone; try: braid umount {0}", point.display())]
    Dead {
        /// The directory.
        point: PathBuf,
    },
    /// It is in use as one.
    #[error("{0} is mounted already, from {source_name} ({kind}); try: braid umount {0}", point.display())]
    Mounted {
        /// The directory.
        point: PathBuf,
        /// What the table of mounts says.
        source_name: String,
        /// The type of that file system.
        kind: String,
    },
    /// Only root may, and the helper for others is missing.
    #[error(
        "mounting needs root, or fusermount3, which is not installed; try: sudo braid mount, or apt-get install fuse3"
    )]
    NotAllowed,
    /// The helper refused.
    #[error("fusermount3 did not mount {}: {why}{hint}", point.display())]
    Helper {
        /// The directory.
        point: PathBuf,
        /// Its words.
        why: String,
        /// What to do, where that is known; with `; try: ` before it.
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
    /// It was mounted, and then the protocol did not begin.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Why a mount is still there.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnmountError {
    /// Nothing is mounted there.
    #[error("{} is not a mount point", point.display())]
    NotMounted {
        /// The directory.
        point: PathBuf,
    },
    /// It is something else's.
    #[error("{0} is a mount of {kind}, not of BraidFS; try: umount {0}", point.display())]
    NotOurs {
        /// The directory.
        point: PathBuf,
        /// The type of file system.
        kind: String,
    },
    /// Somebody uses it.
    #[error("{0} is in use{users}; try: braid umount --lazy {0}", point.display())]
    Busy {
        /// The directory.
        point: PathBuf,
        /// Who, as far as it can be seen: ` by git (1234), bash (567)`, or nothing.
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
    #[error("unmounting {} needs root or fusermount3: {why}; try: sudo braid umount {}", point.display(), point.display())]
    Helper {
        /// The directory.
        point: PathBuf,
        /// Why it did not work.
        why: String,
    },
}
