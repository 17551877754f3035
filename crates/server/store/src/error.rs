//! The errors of a store, with the path.

use braid_types::{Failure, ObjectId, SizeGeneration, Status};
use std::io;
use std::path::Path;

/// The outcome of a store's operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why an operation on the store failed. The store stays usable after each of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk is full.
    #[error("{path}: no space left on the disk; try: df {path}")]
    NoSpace {
        /// What was being written.
        path: String,
    },
    /// The disk is mounted read-only, or became so after an error.
    #[error("{path}: the disk is read-only; try: dmesg, then remount it writable")]
    ReadOnly {
        /// What was being written.
        path: String,
    },
    /// The operating system refuses access to the directory.
    #[error("{path}: permission denied; try: chown the directory to the user that runs the daemon")]
    PermissionDenied {
        /// What was being opened.
        path: String,
    },
    /// Too many open files in the process or the system.
    #[error("{path}: too many open files; try: ulimit -n")]
    TooManyOpen {
        /// What was being opened.
        path: String,
    },
    /// Any other failure of the disk.
    #[error("{path}: cannot {action}: {source}")]
    Disk {
        /// The action, as a verb.
        action: &'static str,
        /// The path.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The object is absent. If it is recorded as existing, it is lost (I11).
    #[error("object {object} is not in {path}; try: braid fsck")]
    NoObject {
        /// Which object.
        object: ObjectId,
        /// The store.
        path: String,
    },
    /// The object's file is shorter than its flushed length (I11).
    #[error(
        "object {object} in {path} ends at byte {found}, {flushed} bytes of it were flushed; \
         try: braid fsck"
    )]
    CutShort {
        /// Which object.
        object: ObjectId,
        /// The store.
        path: String,
        /// The end of its file.
        found: u64,
        /// The flushed length.
        flushed: u64,
    },
    /// A record or identity file that contradicts its checksum, name or format.
    #[error("{path}: corrupted: {why}; try: braid fsck")]
    Corrupted {
        /// Which file.
        path: String,
        /// The contradiction.
        why: &'static str,
    },
    /// The file was truncated or punched after the caller learned its size generation (I5).
    #[error("object {object}: size generation {asked} is older than {current}")]
    StaleGeneration {
        /// Which object.
        object: ObjectId,
        /// The caller's generation.
        asked: SizeGeneration,
        /// The record's generation.
        current: SizeGeneration,
    },
    /// A directory of the store, or the store's own directory, does not exist.
    #[error("{path}: directory missing: is the disk mounted?; try: mount | grep {path}")]
    DirectoryMissing {
        /// Which directory.
        path: String,
    },
    /// The directory has no identity file: an unmounted disk must not look like an empty one.
    #[error(
        "{path}: not an object directory of BraidFS (no identity file): is the disk mounted?; \
         try: mount it, or --init for a new, empty directory"
    )]
    NoIdentity {
        /// Which directory.
        path: String,
    },
    /// The directory belongs to another cluster.
    #[error(
        "{path}: belongs to cluster {found}, not to {wanted}; \
         try: give this daemon its own directory"
    )]
    ForeignCluster {
        /// Which directory.
        path: String,
        /// The cluster in its identity file.
        found: String,
        /// The cluster of the daemon.
        wanted: String,
    },
    /// The directory belongs to another I/O daemon.
    #[error(
        "{path}: belongs to I/O daemon {found}, not to {wanted}; \
         try: give this daemon its own directory"
    )]
    ForeignIod {
        /// Which directory.
        path: String,
        /// The daemon in its identity file.
        found: u32,
        /// The daemon that opens it.
        wanted: u32,
    },
    /// This version does not understand the format of the directory or record (I10).
    #[error(
        "{path}: format {found} is not understood (this version writes {wanted}); \
         try: a newer BraidFS"
    )]
    UnknownFormat {
        /// Which file.
        path: String,
        /// The format found.
        found: u32,
        /// The format of this version.
        wanted: u32,
    },
    /// `init` of a directory that is not empty.
    #[error("{path}: not empty; try: an empty directory")]
    NotEmpty {
        /// Which directory.
        path: String,
    },
    /// `init` of a directory that is an object directory already.
    #[error("{path}: is an object directory already; try: the same without --init")]
    AlreadyInitialised {
        /// Which directory.
        path: String,
    },
    /// Another process has the directory open.
    #[error("{path}: in use by another daemon; try: stop it first (fuser {path})")]
    Locked {
        /// Which directory.
        path: String,
    },
    /// The disk is being measured already.
    #[error("{path}: the disk is being measured already; try: again in some seconds")]
    Measuring {
        /// Which directory.
        path: String,
    },
    /// The file system cannot hold object records.
    #[error(
        "{path}: the file system has no user extended attributes; \
         try: ext4, xfs, btrfs, or mount -o user_xattr"
    )]
    NoXattrs {
        /// Which directory.
        path: String,
    },
    /// The platform or file system cannot do this.
    #[error("{path}: cannot {action}: not supported by this file system")]
    Unsupported {
        /// The action, as a verb.
        action: &'static str,
        /// The file.
        path: String,
    },
    /// No file of the disk's file system can have this length.
    #[error(
        "{path}: no file of this file system can be that long; \
         try: a smaller size, more daemons per file, or xfs"
    )]
    FileTooLong {
        /// Which file.
        path: String,
    },
    /// The disk's file system refuses the arguments of a call that it supports.
    #[error("{path}: cannot {action}: the file system takes this for invalid")]
    Refused {
        /// The action, as a verb.
        action: &'static str,
        /// The file.
        path: String,
    },
    /// An offset or length past the largest file, or past the largest file of the store's disk.
    #[error("object {object}: would reach past the largest file")]
    TooLarge {
        /// Which object.
        object: ObjectId,
    },
    /// The layout is too long for an object record.
    #[error("object {object}: a layout of {bytes} bytes does not fit an object record of {max}")]
    LayoutTooLong {
        /// Which object.
        object: ObjectId,
        /// Its layout's length.
        bytes: usize,
        /// The limit, [`crate::LAYOUT_BYTES_MAX`].
        max: usize,
    },
    /// An invalid call.
    #[error("object {object}: {why}")]
    Invalid {
        /// Which object.
        object: ObjectId,
        /// The reason.
        why: &'static str,
    },
}

impl StoreError {
    /// The error for a failed system call on `path`.
    pub fn from_io(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        let path = path.as_ref().display().to_string();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            io::ErrorKind::PermissionDenied => Self::PermissionDenied { path },
            io::ErrorKind::Unsupported => Self::Unsupported { action, path },
            io::ErrorKind::FileTooLarge => Self::FileTooLong { path },
            io::ErrorKind::InvalidInput => Self::Refused { action, path },
            _ if cfg!(unix) && matches!(source.raw_os_error(), Some(ENFILE | EMFILE)) => {
                Self::TooManyOpen { path }
            }
            _ => Self::Disk { action, path, source },
        }
    }

    /// The status on the wire.
    pub fn status(&self) -> Status {
        match self {
            Self::NoSpace { .. } => Status::NoSpace,
            Self::ReadOnly { .. } => Status::ReadOnly,
            Self::Disk { .. } | Self::PermissionDenied { .. } => Status::DiskError,
            Self::NoObject { .. } | Self::CutShort { .. } => Status::ObjectLost,
            Self::Corrupted { .. } => Status::Corrupted,
            Self::StaleGeneration { .. } => Status::StaleGeneration,
            Self::TooManyOpen { .. } => Status::TooManyOpen,
            Self::DirectoryMissing { .. }
            | Self::NoIdentity { .. }
            | Self::ForeignCluster { .. }
            | Self::ForeignIod { .. }
            | Self::UnknownFormat { .. }
            | Self::NoXattrs { .. } => Status::NotServing,
            Self::NotEmpty { .. } => Status::NotEmpty,
            Self::AlreadyInitialised { .. } => Status::Exists,
            Self::Locked { .. } | Self::Measuring { .. } => Status::Busy,
            Self::Unsupported { .. } => Status::Unsupported,
            Self::TooLarge { .. } | Self::FileTooLong { .. } => Status::TooLarge,
            Self::LayoutTooLong { .. } => Status::LimitExceeded,
            Self::Invalid { .. } | Self::Refused { .. } => Status::Invalid,
        }
    }

    /// Whether the file system refused the call and changed nothing. The disk works; the same call
    /// is refused again, for lack of space until there is some.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self.status(),
            Status::NoSpace | Status::TooLarge | Status::Invalid | Status::Unsupported
        )
    }

    /// Whether the object is just absent, for a caller who knows that it may be.
    pub fn is_no_object(&self) -> bool {
        matches!(self, Self::NoObject { .. })
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(error.status(), error.to_string())
    }
}
