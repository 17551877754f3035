//! Delegations of directories, and checked states.

use crate::nfs4::types::{StateId, Verifier};
use crate::nfs4::{Bitmap, NfsStatus};
use crate::xdr::{xdr_struct, xdr_union};

xdr_struct! {
    /// `GET_DIR_DELEGATION4resok`. RFC 8881 18.39.2.
    #[derive(Copy)]
    pub struct DirDelegation {
        /// Verifier of the directory's cookies.
        pub verifier: Verifier,
        /// The delegation.
        pub state_id: StateId,
        /// Notifications that the server will send.
        pub notification: Bitmap,
        /// Attributes of entries.
        pub child_attributes: Bitmap,
        /// Attributes of the directory.
        pub dir_attributes: Bitmap,
    }

    /// `TEST_STATEID4resok`. RFC 8881 18.48.2.
    pub struct TestStateIdResult {
        /// A status for each state id, in their order.
        pub statuses: Vec<NfsStatus> [crate::nfs4::args::STATE_IDS_MAX],
    }
}

xdr_union! {
    /// `GET_DIR_DELEGATION4res_non_fatal`.
    #[derive(Copy)]
    pub enum GetDirDelegationResult {
        /// `GDD4_OK`.
        Granted(DirDelegation) = 0,
        /// `GDD4_UNAVAIL`; whether the server will signal later.
        Unavailable(bool) = 1,
    }
}
