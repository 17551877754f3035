//! Drivers for the native protocol: handshake, TLS, windows, connections.

mod driver;

pub use driver::{Answer, Driver, Endpoint, Exchange, NetError, TlsPolicy};
