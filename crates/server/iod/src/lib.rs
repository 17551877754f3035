//! The I/O daemon: it serves one part of every file that is placed on it, as objects in a local
//! directory.
//!
//! ```text
//!   socket ── daemon (a thread per connection) ── requests ── ops, collective ── IodCore
//!   metadata server <── registration, heartbeats ── fences, lowest epoch, permission to serve ──┘
//! ```
//!
//! [`IodCore`] is synchronous and uses no socket, thread or clock, so that simulated clusters call
//! it directly. The daemon knows striping; it never sees file names or the views of users.
#![forbid(unsafe_code)]

mod callers;
mod collective;
mod connection;
mod counters;
mod daemon;
mod flush_all;
mod gate;
mod grant;
mod iod_core;
mod measurement_interval;
mod ops;
mod payload;
pub mod registration;
mod request_admission;
mod requests;
mod room;
mod sink;

pub use collective::{Given, Gone, JoinJob, Source, Step};
pub use connection::{CAPABILITY_MEMORY_BYTES_MAX, ConnectionState, Peer};
pub use counters::Counters;
pub use daemon::{Iod, IodConfig, StartError};
pub use gate::FENCED_RANGES_MAX;
pub use iod_core::IodCore;
pub use ops::{Progress, ReadJob, Work, WriteJob};
pub use payload::{Payload, Piece};
pub use requests::Begun;
pub use sink::{Answer, FrameSink, Gathered, SinkError};
