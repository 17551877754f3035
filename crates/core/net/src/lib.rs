//! Drivers for the native protocol: handshake, TLS, windows, connections.
#![forbid(unsafe_code)]

mod blocking;
mod driver;
pub mod frames;
pub mod handshake;
mod random;
pub mod server;
mod transport;

pub use blocking::{Blocking, Connection, Shared, block_on};
pub use driver::{Answer, Driver, Endpoint, Exchange, NetError, TlsPolicy};
