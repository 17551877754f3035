//! Byte-range locks.

use crate::nfs4::types::{LockType, StateId, StateOwner};
use crate::xdr::{xdr_struct, xdr_union};

xdr_struct! {
    /// `LOCK4args`. RFC 8881 18.10.1.
    pub struct LockArgs {
        /// Type of the lock.
        pub lock_type: LockType,
        /// Whether a lock of before a server restart is reclaimed.
        pub reclaim: bool,
        /// First byte.
        pub offset: u64,
        /// Number of bytes, or [`LENGTH_TO_END`](crate::nfs4::LENGTH_TO_END).
        pub length: u64,
        /// Owner of the lock.
        pub locker: Locker,
    }

    /// `open_to_lock_owner4`: the first lock of an owner.
    pub struct NewLocker {
        /// Ignored in NFSv4.1.
        pub open_seqid: u32,
        /// The open.
        pub open_state_id: StateId,
        /// Ignored in NFSv4.1.
        pub lock_seqid: u32,
        /// The owner.
        pub owner: StateOwner,
    }

    /// `exist_lock_owner4`: a further lock of an owner.
    #[derive(Copy)]
    pub struct ExistingLocker {
        /// The owner's locks.
        pub state_id: StateId,
        /// Ignored in NFSv4.1.
        pub lock_seqid: u32,
    }

    /// `LOCKT4args`. RFC 8881 18.11.1.
    pub struct LockTestArgs {
        /// Type of the lock.
        pub lock_type: LockType,
        /// First byte.
        pub offset: u64,
        /// Number of bytes.
        pub length: u64,
        /// Owner whose locks do not conflict.
        pub owner: StateOwner,
    }

    /// `LOCKU4args`. RFC 8881 18.12.1.
    #[derive(Copy)]
    pub struct LockUnlockArgs {
        /// Any type.
        pub lock_type: LockType,
        /// Ignored in NFSv4.1.
        pub seqid: u32,
        /// The owner's locks.
        pub state_id: StateId,
        /// First byte.
        pub offset: u64,
        /// Number of bytes.
        pub length: u64,
    }
}

xdr_union! {
    /// `locker4`.
    pub enum Locker {
        /// The owner has locks in this file.
        Existing(ExistingLocker) = 0,
        /// The owner has no lock in this file.
        New(NewLocker) = 1,
    }
}
