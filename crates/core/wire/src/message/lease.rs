//! What the messages about leases carry. ADR 0009.

use braid_types::FileIndex;

use crate::codec::{wire_enum, wire_struct};

wire_struct! {
    /// A lease that was granted.
    #[derive(Hash)]
    pub struct LeaseGrant {
        /// What it allows; [`LeaseMode::None`] for no lease.
        mode: LeaseMode,
        /// `server epoch << 32 | counter`: grants and recalls of one server count on together.
        number: u64,
        /// Of a data lease: the file has setuid, or setgid and its group may execute, at a moment at which it was held. While it is
        /// held no other client gives the file either.
        set_ids: bool,
    }

    /// The server wants a lease back.
    #[derive(Hash)]
    pub struct Recall {
        /// Its number: grants with lower ones are meant.
        number: u64,
        /// What the lease is of.
        kind: LeaseKind,
        /// Of which directory or file.
        file: FileIndex,
        /// What may be kept.
        keep: LeaseMode,
    }

    /// The client gives a lease back.
    #[derive(Hash)]
    pub struct ReturnedLease {
        /// What the lease is of.
        kind: LeaseKind,
        /// Of which directory or file.
        file: FileIndex,
        /// The recall's number, or the grant's when nothing was recalled: grants with higher ones are not meant.
        number: u64,
        /// What is kept.
        keep: LeaseMode,
    }
}

impl LeaseGrant {
    /// No lease.
    pub const NONE: Self = Self { mode: LeaseMode::None, number: 0, set_ids: false };
}

wire_enum! {
    /// What a lease is of.
    pub enum LeaseKind {
        /// A directory's entries, its attributes, and those of its children that are not directories.
        Names = 1,
        /// A file's bytes.
        Data = 2,
        /// Where a file's bytes lie.
        Layout = 3,
    }

    /// What a lease allows.
    pub enum LeaseMode {
        /// Nothing.
        None = 0,
        /// To keep what was read. The only mode of names and of layouts.
        Read = 1,
        /// To be the only one: to gather writes, and to answer for size and times.
        Write = 2,
        /// To read and write at the daemons, and keep nothing: others do the same.
        Shared = 3,
    }
}
