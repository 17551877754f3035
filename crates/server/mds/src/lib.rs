//! The metadata server
#![forbid(unsafe_code)]

mod cluster;
mod fence;
pub mod placement;
mod session;
