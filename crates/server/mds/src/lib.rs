//! The metadata server: namespace, attributes, layouts, sessions, capabilities. It is never on the
//! data path (I1).
//!
//! [`MdsCore`] is the server without threads and sockets: the daemon and the simulation of the
//! whole cluster run the same code. `docs/adr/0004-metadata-server.md` describes the protocols
//! between the server, its clients and the I/O daemons, and what a crash at each point leaves.
#![forbid(unsafe_code)]

mod authorize;
mod call;
pub mod cluster;
mod connection;
mod convert;
mod core;
mod daemon;
mod deletion;
mod environment;
mod file_count;
mod iod_queries;
mod lease;
mod lock;
mod log_sync;
mod metrics;
mod objects;
mod ops;
mod path_ref;
mod periodic;
pub mod placement;
mod service;
pub mod session;
mod size;
mod start;
#[cfg(test)]
mod tests;

pub use connection::Connection;
pub use core::MdsCore;
pub use daemon::{Mds, MdsConfig, StartError};
pub use environment::{Clock, Environment, IodLink, LinkDone, Spawner};
pub use periodic::TICK_MS;
pub use start::CoreConfig;
