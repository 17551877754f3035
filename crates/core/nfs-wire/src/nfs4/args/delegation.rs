//! Delegations, and the state that clients check or free.

use super::DelegationType;
use crate::nfs4::types::{ClientId, NfsTime, StateId};
use crate::nfs4::{Bitmap, ShareAccess};
use crate::xdr::{xdr_struct, xdr_union};

/// Maximum state ids of a TEST_STATEID: 256 KiB of them.
pub const STATE_IDS_MAX: usize = 16_384;

xdr_struct! {
    /// `DELEGPURGE4args`. RFC 8881 18.5.1.
    #[derive(Copy)]
    pub struct DelegPurgeArgs {
        /// The client.
        pub client_id: ClientId,
    }

    /// `DELEGRETURN4args`. RFC 8881 18.6.1.
    #[derive(Copy)]
    pub struct DelegReturnArgs {
        /// The delegation.
        pub state_id: StateId,
    }

    /// `GET_DIR_DELEGATION4args`. RFC 8881 18.39.1.
    #[derive(Copy)]
    pub struct GetDirDelegationArgs {
        /// Whether to signal when a delegation becomes available.
        pub signal_available: bool,
        /// Wanted notifications.
        pub notification_types: Bitmap,
        /// Maximum delay of notifications about entries.
        pub child_attributes_delay: NfsTime,
        /// Maximum delay of notifications about the directory.
        pub dir_attributes_delay: NfsTime,
        /// Attributes of entries.
        pub child_attributes: Bitmap,
        /// Attributes of the directory.
        pub dir_attributes: Bitmap,
    }

    /// `WANT_DELEGATION4args`. RFC 8881 18.49.1.
    #[derive(Copy)]
    pub struct WantDelegationArgs {
        /// Wanted delegation.
        pub want: ShareAccess,
        /// With what right.
        pub claim: DelegationClaim,
    }

    /// `FREE_STATEID4args`. RFC 8881 18.38.1.
    #[derive(Copy)]
    pub struct FreeStateIdArgs {
        /// The state.
        pub state_id: StateId,
    }

    /// `TEST_STATEID4args`. RFC 8881 18.48.1.
    pub struct TestStateIdArgs {
        /// States to check.
        pub state_ids: Vec<StateId> [STATE_IDS_MAX],
    }
}

xdr_union! {
    /// `deleg_claim4`.
    #[derive(Copy)]
    pub enum DelegationClaim {
        /// `CLAIM_PREVIOUS`: reclaims a delegation after a server restart.
        Previous(DelegationType) = 1,
        /// `CLAIM_FH`: the current file.
        Fh = 4,
        /// `CLAIM_DELEG_PREV_FH`: a delegation before a client restart.
        PreviousFh = 6,
    }
}
