//! Copies that the server makes.

use super::failure;
use crate::nfs4::NfsStatus;
use crate::nfs4::args::{LOCATIONS_MAX, NetLocation};
use crate::nfs4::types::{NfsTime, StableHow, StateId, Verifier};
use crate::xdr::xdr_struct;

xdr_struct! {
    /// `write_response4`. RFC 7862 15.2.2; also the result of WRITE_SAME.
    #[derive(Copy)]
    pub struct WriteResponse {
        /// The copy, if it goes on after the result.
        pub callback_id: Option<StateId>,
        /// Bytes written.
        pub count: u64,
        /// What survives a crash of the server.
        pub committed: StableHow,
        /// As in WRITE.
        pub verifier: Verifier,
    }

    /// `copy_requirements4`. RFC 7862 15.2.2.
    #[derive(Copy, Default)]
    pub struct CopyRequirements {
        /// Whether bytes are copied in order.
        pub consecutive: bool,
        /// Whether the copy is complete when COPY returns.
        pub synchronous: bool,
    }

    /// `COPY4resok`. RFC 7862 15.2.2.
    #[derive(Copy)]
    pub struct CopyResult {
        /// What was copied.
        pub response: WriteResponse,
        /// How.
        pub requirements: CopyRequirements,
    }

    /// `COPY_NOTIFY4resok`. RFC 7862 15.3.2.
    pub struct CopyNotifyResult {
        /// For how long the state is valid.
        pub lease_time: NfsTime,
        /// The state that the other server uses.
        pub state_id: StateId,
        /// Addresses of the source.
        pub source_servers: Vec<NetLocation> [LOCATIONS_MAX],
    }

    /// `OFFLOAD_STATUS4resok`. RFC 7862 15.9.2.
    #[derive(Copy)]
    pub struct OffloadStatusResult {
        /// Bytes copied.
        pub count: u64,
        /// Status of the copy, if it has ended.
        pub complete: Option<NfsStatus>,
    }
}

failure! {
    /// Why a COPY failed.
    pub enum CopyFailure for CopyResult {
        /// The server could copy in this way only.
        Requirements(CopyRequirements) = OffloadNoReqs,
        otherwise = CopyRequirements::default(),
    }
}
