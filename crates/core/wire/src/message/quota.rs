//! Quotas: owners, limits, usage.

use braid_types::{FileIndex, Timestamp};

use crate::codec::{wire_enum, wire_struct};

wire_enum! {
    /// The kind of an owner.
    pub enum QuotaKind {
        /// A user.
        User = 1,
        /// A group.
        Group = 2,
        /// A directory and everything below it.
        Directory = 3,
    }
}

wire_struct! {
    /// The owner of a quota.
    pub struct QuotaOwner {
        /// What `id` names.
        kind: QuotaKind,
        /// A POSIX user or group id, or a directory's file index.
        id: u64,
    }

    /// The limits of one quantity.
    pub struct QuotaBound {
        /// Usage may never exceed it.
        hard: Option<u64>,
        /// Usage may exceed it for the grace time only.
        soft: Option<u64>,
    }

    /// An owner's limits.
    pub struct QuotaLimits {
        /// Limits on bytes: the sizes of files, including holes.
        bytes: QuotaBound,
        /// Limits on inodes.
        inodes: QuotaBound,
        /// How long usage may be above a soft limit.
        grace_seconds: u64,
    }

    /// Usage and limits of an owner.
    pub struct QuotaReport {
        /// The owner.
        owner: QuotaOwner,
        /// A path to the directory, if the owner is one and a path is known.
        path: Vec<u8>,
        /// The limits; `None` when there are none.
        limits: Option<QuotaLimits>,
        /// Recorded bytes.
        bytes: u64,
        /// Additional bytes of files that are being written, or were until recently.
        bytes_in_flight: u64,
        /// Inodes.
        inodes: u64,
        /// Since when the bytes exceed their soft limit.
        bytes_over_since: Option<Timestamp>,
        /// Since when the inodes exceed their soft limit.
        inodes_over_since: Option<Timestamp>,
        /// Whether everything below a directory has been counted.
        complete: bool,
    }

    /// The result of one step of a walk.
    pub struct QuotaWalkReply {
        /// Cookie to continue after; `None` at the end.
        next: Option<u64>,
        /// Inodes that were counted for another owner before.
        moved: u64,
        /// Directories that must be walked too.
        directories: Vec<FileIndex>,
    }

    /// Recorded usage that differs from the usage of the inodes.
    pub struct QuotaDifference {
        /// The owner.
        owner: QuotaOwner,
        /// Recorded bytes.
        bytes_recorded: u64,
        /// Counted bytes.
        bytes_counted: u64,
        /// Recorded inodes.
        inodes_recorded: u64,
        /// Counted inodes.
        inodes_counted: u64,
        /// Whether it was repaired.
        mended: bool,
    }
}
