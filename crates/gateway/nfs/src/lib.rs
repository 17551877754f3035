//! NFSv4.1 and NFSv4.2 server (RFC 8881, RFC 7862) over the traits of `braid-share`. Any number of
//! these gateways can serve one file system.
//!
//! ```text
//!   listener ─> connection ─> rpc ─> compound ─> dispatch ─> ops/* ──> Share
//!   TCP port    one task of   the    session,    one         state/*   metadata server,
//!               each one      user   slot, loop  operation             I/O daemons
//! ```
//!
//! Invariants:
//! 1. Every byte of the network is hostile: lengths, counts and state are checked before memory is
//!    taken, and no request causes a panic.
//! 2. The gateway caches no attributes, entries or data: what it answers, the share has answered
//!    for this request (invariant 2 of `braid-share`).
//! 3. A request acts as its caller, after the export's squash, and reaches only files of exports
//!    that its address and security flavour may use.
#![forbid(unsafe_code)]

mod acl;
mod attributes;
pub mod backchannel;
pub mod compound;
pub mod config;
pub mod connection;
mod dispatch;
pub mod export;
pub mod handle;
pub mod names;
pub mod ops;
mod recovery;
pub mod rpc;
pub mod server;
pub mod state;
mod status;
pub mod tls;

pub use config::NfsConfig;
pub use server::listener::Listener;
pub use server::{NfsServer, Protection, StartError};
