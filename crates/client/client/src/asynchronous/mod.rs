//! The async API: the same engine, over any driver whose futures wait without blocking.

mod client;
mod collective;
mod cursor;
mod delegations;
mod entry;
mod file;
mod leases;

pub use client::Client;
pub use cursor::Cursor;
pub use delegations::DelegationNotice;
pub use file::File;

pub use crate::engine::Listing;
