//! Copies that the server makes.

use bytes::Bytes;

use crate::nfs4::types::{MESSAGE_LIMITED, NetAddress, StateId};
use crate::xdr::{xdr_struct, xdr_union};

/// Maximum locations of a server in COPY and COPY_NOTIFY.
pub const LOCATIONS_MAX: usize = 256;

xdr_struct! {
    /// `CLONE4args`. RFC 7862 15.13.1. The saved file handle is the source.
    #[derive(Copy)]
    pub struct CloneArgs {
        /// An open of the source.
        pub source_state_id: StateId,
        /// An open of the destination.
        pub destination_state_id: StateId,
        /// First byte in the source.
        pub source_offset: u64,
        /// First byte in the destination.
        pub destination_offset: u64,
        /// Number of bytes; 0 means to the end of the source.
        pub count: u64,
    }

    /// `COPY4args`. RFC 7862 15.2.1. The saved file handle is the source.
    pub struct CopyArgs {
        /// An open of the source.
        pub source_state_id: StateId,
        /// An open of the destination.
        pub destination_state_id: StateId,
        /// First byte in the source.
        pub source_offset: u64,
        /// First byte in the destination.
        pub destination_offset: u64,
        /// Number of bytes; 0 means to the end of the source.
        pub count: u64,
        /// Whether bytes must be copied in order.
        pub consecutive: bool,
        /// Whether the copy must be complete when COPY returns.
        pub synchronous: bool,
        /// Other server that has the source; none for a copy inside the server.
        pub source_servers: Vec<NetLocation> [LOCATIONS_MAX],
    }

    /// `COPY_NOTIFY4args`. RFC 7862 15.3.1.
    pub struct CopyNotifyArgs {
        /// An open of the source.
        pub source_state_id: StateId,
        /// Server that will read it.
        pub destination_server: NetLocation,
    }

    /// `OFFLOAD_CANCEL4args` and `OFFLOAD_STATUS4args`. RFC 7862 15.8.1 and 15.9.1.
    #[derive(Copy)]
    pub struct OffloadArgs {
        /// The copy.
        pub state_id: StateId,
    }
}

xdr_union! {
    /// `netloc4`. RFC 7863.
    pub enum NetLocation {
        /// A name.
        Name(Bytes [MESSAGE_LIMITED]) = 1,
        /// A URL.
        Url(Bytes [MESSAGE_LIMITED]) = 2,
        /// An address.
        Address(NetAddress) = 3,
    }
}
