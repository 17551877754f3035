//! The I/O daemon: it serves one part of every file that is placed on it, as objects in a local
//! directory.
//!
//! ```text
//!   socket ── daemon (a thread per connection) ── requests ─────── ops, collective ─────── IodCore
//!   metadata server <── registration, heartbeats ── fences, lowest epoch, permission to serve ──┘
//! ```
//!
//! [`IodCore`] is synchronous and uses no socket, thread or clock, so that simulated clusters call
//! it directly. The daemon knows striping; it never sees file names or the views of users.
#![forbid(unsafe_code)]

mod collective;
mod connection;
mod connections;
mod counters;
mod daemon;
mod deleted_objects;
mod flush_all;
mod frame_sink;
pub mod fuzzing;
mod iod_core;
mod measurement_interval;
mod nfs;
mod ops;
mod payload;
pub mod registration;
mod request_admission;
mod requests;
mod reservation;
mod slice_admission;
mod verified_capability;

pub use collective::{ConnectionLost, JoinJob, JoinStep, MemorySource, PayloadSource};
pub use connection::{CAPABILITY_MEMORY_BYTES_MAX, ConnectionState, Peer};
pub use counters::Counters;
pub use daemon::{Iod, IodConfig, StartError};
pub use frame_sink::{Answer, FrameSink, MemorySink, SinkError};
pub use iod_core::IodCore;
pub use nfs::CONNECTIONS_PER_ADDRESS_MAX as NFS_CONNECTIONS_PER_ADDRESS_MAX;
pub use ops::{
    BlockingWork, DataServerFile, DataServerRead, DataServerWrite, ReadJob, ReadProgress, WriteJob,
};
pub use payload::{Payload, Piece};
pub use requests::StartedRequest;
pub use slice_admission::FENCED_RANGES_MAX;
