//! Drivers for the native protocol: handshake, TLS, windows, connections.
#![deny(unsafe_code)] // socket options in `tcp`, slices for `sendmsg` in `server::mapped_ranges`

mod asynchronous;
mod blocking;
mod driver;
pub mod frames;
pub mod handshake;
mod incast;
pub mod metrics_http;
mod pipe;
mod random;
#[cfg(test)]
mod relay_tests;
pub mod server;
mod tcp;
mod tls;
mod transport;

pub use asynchronous::{Tokio, TokioConnection, TokioSharedConnection};
pub use blocking::{
    Blocking, CallDeadline, CallDeadlineHandle, Connection, SharedConnection, block_on,
};
pub use driver::{Answer, CallTimeLimit, Driver, Endpoint, Exchange, NetError, TlsPolicy};
pub use pipe::Pipe;
pub use random::random_bytes;
