//! The metadata server: namespace, attributes, layouts, sessions, capabilities; never on the data path (I1).
//!
//! [`MdsCore`] is the server without threads or sockets: the daemon and the simulation of the whole
//! cluster run the same. `docs/adr/0004-metadata-server.md` has the protocols between it, its clients and the
//! I/O daemons, with what a crash at each point leaves.
#![forbid(unsafe_code)]

mod authorize;
mod call;
mod census;
pub mod cluster;
mod collect;
mod connection;
mod convert;
mod core;
mod daemon;
mod deletion;
mod environment;
mod fan_out;
mod force;
mod gate;
mod heard;
mod intents;
mod lease;
mod lock;
mod looks;
mod metrics;
mod objects;
mod ops;
mod place;
pub mod placement;
mod reclaim;
mod service;
pub mod session;
mod size;
mod start;
#[cfg(test)]
mod tests;
mod tick;
mod told;

pub use connection::Connection;
pub use core::MdsCore;
pub use daemon::{Mds, MdsConfig, StartError};
pub use environment::{Clock, Environment, IodLink, LinkDone, Spawner};
pub use start::CoreConfig;
pub use tick::TICK_MS;
