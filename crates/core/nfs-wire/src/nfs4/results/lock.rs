//! Byte-range locks.

use super::{StateIdResult, failure};
use crate::nfs4::types::{ClientId, LockType, StateOwner};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// `LOCK4denied`: the conflicting lock. RFC 8881 18.10.2.
    pub struct LockDenied {
        /// First byte.
        pub offset: u64,
        /// Number of bytes.
        pub length: u64,
        /// Its type.
        pub lock_type: LockType,
        /// Its owner.
        pub owner: StateOwner,
    }
}

impl LockDenied {
    /// A conflict with an unknown lock of the whole file, where only the status is known.
    fn unknown() -> Self {
        Self {
            offset: 0,
            length: crate::nfs4::types::LENGTH_TO_END,
            lock_type: LockType::Write,
            owner: StateOwner { client_id: ClientId(0), owner: bytes::Bytes::new() },
        }
    }
}

failure! {
    /// Why a LOCK failed.
    pub enum LockFailure for StateIdResult {
        /// Another lock conflicts.
        Denied(LockDenied) = Denied,
        otherwise = LockDenied::unknown(),
    }
}

failure! {
    /// Why a LOCKT failed.
    pub enum LockTestFailure for () {
        /// Another lock conflicts.
        Denied(LockDenied) = Denied,
        otherwise = LockDenied::unknown(),
    }
}
