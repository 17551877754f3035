//! OPEN, and the delegations that it grants.

use crate::nfs4::types::{ChangeInfo, StateId};
use crate::nfs4::{Ace, Bitmap, OpenResultFlags};
use crate::xdr::{xdr_struct, xdr_union};

xdr_struct! {
    /// `OPEN4resok`. RFC 8881 18.16.2.
    pub struct OpenResult {
        /// The open.
        pub state_id: StateId,
        /// Change of the directory.
        pub change: ChangeInfo,
        /// Properties of the open.
        pub flags: OpenResultFlags,
        /// Attributes that were set when the file was created.
        pub attributes_set: Bitmap,
        /// Delegation.
        pub delegation: OpenDelegation,
    }

    /// `open_read_delegation4`.
    pub struct ReadDelegation {
        /// The delegation.
        pub state_id: StateId,
        /// Whether it is already recalled.
        pub recall: bool,
        /// Principals that need no ACCESS.
        pub permissions: Ace,
    }

    /// `open_write_delegation4`.
    pub struct WriteDelegation {
        /// The delegation.
        pub state_id: StateId,
        /// Whether it is already recalled.
        pub recall: bool,
        /// How much the client may buffer.
        pub space_limit: SpaceLimit,
        /// Principals that need no ACCESS.
        pub permissions: Ace,
    }

    /// `nfs_modified_limit4`.
    #[derive(Copy)]
    pub struct BlockLimit {
        /// Number of blocks.
        pub blocks: u32,
        /// Bytes of a block.
        pub bytes_per_block: u32,
    }

    /// Result of an operation that returns only a state id: CLOSE, OPEN_DOWNGRADE, LOCK and LOCKU.
    #[derive(Copy)]
    pub struct StateIdResult {
        /// New version of the state.
        pub state_id: StateId,
    }
}

xdr_union! {
    /// `nfs_space_limit4`.
    #[derive(Copy)]
    pub enum SpaceLimit {
        /// Maximum size of the file in bytes.
        FileSize(u64) = 1,
        /// Maximum blocks.
        Blocks(BlockLimit) = 2,
    }

    /// `open_delegation4`.
    pub enum OpenDelegation {
        /// None.
        None = 0,
        /// For reads.
        Read(ReadDelegation) = 1,
        /// For writes.
        Write(WriteDelegation) = 2,
        /// None, with a reason.
        NoneExt(WhyNoDelegation) = 3,
    }

    /// `open_none_delegation4`.
    #[derive(Copy)]
    pub enum WhyNoDelegation {
        /// `WND4_NOT_WANTED`.
        NotWanted = 0,
        /// `WND4_CONTENTION`; whether the server will push the delegation later.
        Contention(bool) = 1,
        /// `WND4_RESOURCE`; whether the server will signal later.
        Resource(bool) = 2,
        /// `WND4_NOT_SUPP_FTYPE`.
        NotSuppFtype = 3,
        /// `WND4_WRITE_DELEG_NOT_SUPP_FTYPE`.
        WriteNotSuppFtype = 4,
        /// `WND4_NOT_SUPP_UPGRADE`.
        NotSuppUpgrade = 5,
        /// `WND4_NOT_SUPP_DOWNGRADE`.
        NotSuppDowngrade = 6,
        /// `WND4_CANCELLED`.
        Cancelled = 7,
        /// `WND4_IS_DIR`.
        IsDir = 8,
    }
}
