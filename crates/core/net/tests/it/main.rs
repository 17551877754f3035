//! The integration tests of this crate, one module a subject, in one binary: each binary more is
//! compiled and linked by itself.

mod blocking;
mod exchange_property;
mod faults;
mod files;
mod frames;
mod handshake;
mod pipe;
mod places;
mod support;
mod tokio;
