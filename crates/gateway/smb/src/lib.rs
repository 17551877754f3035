//! SMB 2.0.2 to 3.1.1 server over the traits of `braid-share`: Windows, macOS and Linux use a
//! cluster or a union through it (ADR 0052).
//!
//! ```text
//!   connection ─> request ─> dispatch ─> ops ─> client/share ─> metadata server, I/O daemons
//!        │           │
//!        │           └ session (protection, trees, opens)
//!        └ credits, negotiation, logons
//! ```
#![forbid(unsafe_code)]

mod attributes;
mod client;
pub mod config;
mod connection;
mod context;
mod dfs_path;
mod disconnect;
mod dispatch;
mod durable;
mod extended_attributes;
mod file_state;
mod gateways;
mod kept_times;
mod leases;
mod logon;
mod open;
mod ops;
mod path;
mod pending;
mod protection;
mod range_locks;
mod removal;
mod request;
mod security;
mod server;
mod session;
mod status;
mod streams;
mod throttle;
mod tree;
pub mod users;
mod walk;
mod watch;

pub use config::{ConfigError, Limits, ShareConfig, SmbConfig};
pub use server::listener::Listener;
pub use server::{SmbServer, StartError};
pub use users::{NoUser, User, Users};
