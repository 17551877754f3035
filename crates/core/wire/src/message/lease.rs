//! Structures of the messages about leases (ADR 0009).

use braid_types::FileIndex;

use crate::codec::{wire_enum, wire_struct};

wire_struct! {
    /// A granted lease.
    #[derive(Hash)]
    pub struct LeaseGrant {
        /// What the lease allows; [`LeaseMode::None`] for no lease.
        mode: LeaseMode,
        /// `server epoch << 32 | counter`: grants and recalls of a server share one counter.
        number: u64,
        /// For a data lease: the file had setuid, or setgid with group execute, at a moment while
        /// the lease was held. While it is held, no other client sets these bits.
        set_ids: bool,
    }

    /// The server recalls a lease.
    #[derive(Hash)]
    pub struct Recall {
        /// Number of the recall. It applies to grants with lower numbers.
        number: u64,
        /// The kind of the lease.
        kind: LeaseKind,
        /// The directory or file.
        file: FileIndex,
        /// The mode that the client may keep.
        keep: LeaseMode,
    }

    /// The client returns a lease.
    #[derive(Hash)]
    pub struct ReturnedLease {
        /// The kind of the lease.
        kind: LeaseKind,
        /// The directory or file.
        file: FileIndex,
        /// Number of the recall, or of the grant when nothing was recalled. It does not apply to
        /// grants with higher numbers.
        number: u64,
        /// The mode that the client keeps.
        keep: LeaseMode,
    }
}

impl LeaseGrant {
    /// No lease.
    pub const NONE: Self = Self { mode: LeaseMode::None, number: 0, set_ids: false };
}

wire_enum! {
    /// What a lease covers.
    pub enum LeaseKind {
        /// A directory's entries, its attributes, and those of its children that are not
        /// directories.
        Names = 1,
        /// A file's bytes.
        Data = 2,
        /// The layout of a file.
        Layout = 3,
        /// A delegation of a file to a client of another protocol (ADR 0038).
        Delegation = 4,
    }

    /// What a lease allows.
    pub enum LeaseMode {
        /// Nothing.
        None = 0,
        /// To cache what was read. The only mode of names leases and layout leases.
        Read = 1,
        /// To buffer writes, and to answer for size and times, as the only client.
        Write = 2,
        /// To read and write at the daemons without caching; other clients do the same.
        Shared = 3,
    }
}
