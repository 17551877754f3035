//! The blocking face: the calling thread itself sends and receives.

mod block_on;
mod client;
mod file;
mod listing;
mod service;

pub(crate) use block_on::block_on;
pub use client::Client;
pub use file::File;
pub use listing::Listing;
