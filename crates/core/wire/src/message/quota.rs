//! Quota: whose, what is allowed, what is used.

use braid_types::{FileIndex, Timestamp};

use crate::codec::{wire_enum, wire_struct};

wire_enum! {
    /// Whom inodes are counted for.
    pub enum QuotaKind {
        /// A user.
        User = 1,
        /// A group.
        Group = 2,
        /// A directory and what lies below it.
        Directory = 3,
    }
}

wire_struct! {
    /// Whom a quota is for.
    pub struct QuotaOwner {
        /// What `id` names.
        kind: QuotaKind,
        /// A POSIX user or group id, or a directory's file index.
        id: u64,
    }

    /// The limits of one measure.
    pub struct QuotaBound {
        /// Never above.
        hard: Option<u64>,
        /// Above for the grace time only.
        soft: Option<u64>,
    }

    /// An owner's limits.
    pub struct QuotaLimits {
        /// Of bytes: the sizes of files, with their holes.
        bytes: QuotaBound,
        /// Of inodes.
        inodes: QuotaBound,
        /// How long usage may be above a soft limit.
        grace_seconds: u64,
    }

    /// What an owner has, and may have.
    pub struct QuotaReport {
        /// Whose.
        owner: QuotaOwner,
        /// A path to the directory, where it is one and a path is known.
        path: Vec<u8>,
        /// The limits; `None` when there are none.
        limits: Option<QuotaLimits>,
        /// Bytes on record.
        bytes: u64,
        /// Bytes that count besides: of files that are being written, or were a moment ago.
        bytes_in_flight: u64,
        /// Inodes.
        inodes: u64,
        /// Since when the bytes are above their soft limit.
        bytes_over_since: Option<Timestamp>,
        /// Since when the inodes are above theirs.
        inodes_over_since: Option<Timestamp>,
        /// Whether everything below a directory is counted by now.
        complete: bool,
    }

    /// What one step of a walk did.
    pub struct QuotaWalkReply {
        /// Go on behind this cookie; `None`: that was all.
        next: Option<u64>,
        /// Inodes that were counted elsewhere before.
        moved: u64,
        /// Directories that are to be walked too.
        directories: Vec<FileIndex>,
    }

    /// Usage on record that is not that of the inodes.
    pub struct QuotaDifference {
        /// Whose.
        owner: QuotaOwner,
        /// Bytes on record.
        bytes_recorded: u64,
        /// Bytes counted.
        bytes_counted: u64,
        /// Inodes on record.
        inodes_recorded: u64,
        /// Inodes counted.
        inodes_counted: u64,
        /// Whether it was mended.
        mended: bool,
    }
}
