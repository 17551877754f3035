//! The integration tests of this crate, one module per subject, in one binary, since each binary
//! costs a compilation and a link.

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
