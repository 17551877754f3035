//! The blocking API: the calling thread itself sends and receives.

mod block_on;
mod client;
mod collective;
mod file;
mod leases;
mod listing;
mod pending_operation;
mod service;
mod start;
mod workers;

pub(crate) use block_on::block_on;
pub use client::Client;
pub use collective::refuse_all;
pub use file::File;
pub use leases::Leases;
pub use listing::Listing;
pub use pending_operation::PendingOperation;
