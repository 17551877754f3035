//! The processes of a simulated cluster: the real cores, with a simulated network and disks.

mod client;
mod iod;
mod iod_session;
mod mds;
mod mds_link;

use braid_types::{ClusterUuid, Timestamp};
use braid_wire::Secret;
use std::time::Duration;

pub use client::{ClientNode, TIMEOUT};
pub use iod::IodNode;
pub use mds::MdsNode;

/// The cluster UUID of every simulation.
pub const CLUSTER: ClusterUuid = ClusterUuid(*b"simulated braid!");
/// The address of the metadata server.
pub const MDS_ADDRESS: &str = "mds:7000";

/// The server key of every simulation.
pub fn server_key() -> Secret {
    Secret::from_bytes([0x5b; 32])
}

/// The wall clock of a simulated machine: the same on all machines, and it begins in 2026.
pub fn wall(now: Duration) -> Timestamp {
    Timestamp { seconds: 1_780_000_000 + now.as_secs() as i64, nanos: now.subsec_nanos() }
}
