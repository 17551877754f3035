//! The attributes that an operation of a compound was just given, for the operations after it.
//!
//! Linux sends PUTFH LOOKUP GETFH GETATTR, and OPEN GETFH ACCESS GETATTR. GETATTR and ACCESS ask
//! for what LOOKUP and OPEN have received. A compound is not atomic (RFC 8881 16.2), so attributes
//! that were obtained while it runs are as valid as those that another call would return. They must
//! show what the compound itself has done.
//!
//! Invariants:
//! 1. Attributes are kept only across operations that change nothing and do not wait: every other
//!    operation forgets them before it begins ([`keeps_attributes`]).
//! 2. They are those that the metadata server returned after all changes by earlier operations of
//!    the compound.

use std::sync::{Mutex, PoisonError};

use braid_nfs_wire::nfs4::OpNumber;
use braid_share::{Attributes, FileIndex};

/// Attributes of one file, the last that were received.
#[derive(Debug, Default)]
pub struct KnownAttributes(Mutex<Option<Attributes>>);

impl KnownAttributes {
    /// Replaces what is known.
    pub fn set(&self, attributes: Attributes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(attributes);
    }

    /// Invariant 1.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The attributes of a file, if they are known.
    pub fn of(&self, file: FileIndex) -> Option<Attributes> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|known| known.file == file).cloned()
    }
}

/// Whether attributes from before an operation are still right after it.
pub fn keeps_attributes(op: OpNumber) -> bool {
    matches!(
        op,
        OpNumber::PutFh
            | OpNumber::GetFh
            | OpNumber::SaveFh
            | OpNumber::RestoreFh
            | OpNumber::GetAttr
            | OpNumber::Access
            | OpNumber::Verify
            | OpNumber::NVerify
            | OpNumber::Lookup
    )
}
