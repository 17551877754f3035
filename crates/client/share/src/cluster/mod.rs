//! The traits over the async client: a gateway of a cluster.
//!
//! ```text
//!   ClusterShare ──> ClusterClient ──> Session: one client of the library, one session there
//!                                  ──> ClusterFile: one open
//! ```
//!
//! Invariants:
//! 1. Each protocol client has its own client of the library, and so its own session, connection
//!    and fence. Calls act as the user that the gateway names, with all groups.
//! 2. No lease is requested but delegations (ADR 0038). Opens, locks and changes are coherent with
//!    mounts, which return their leases before the metadata server answers (ADR 0009).
//! 3. When the metadata server has ended a session, the library would begin another one, without
//!    the opens and locks. A [`ClusterClient`] then fails all calls with `NoSession` instead, and
//!    ends the other session.

mod adoption;
mod attributes;
mod client;
mod delegations;
mod direct_access;
mod file;
mod locks;
mod loss;
mod names;
mod open;
mod session;
mod share;

pub use client::ClusterClient;
pub use file::ClusterFile;
pub use share::ClusterShare;
