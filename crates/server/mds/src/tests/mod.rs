//! The server over a store in memory, I/O daemons in memory and a clock that stands still until a
//! test moves it.

mod adoption;
mod calls;
mod change;
mod claims;
mod cleanup_retry;
mod data_server;
mod delegations;
mod entry;
mod fsck;
mod grace;
mod import;
mod iods;
mod leases;
mod locks;
mod modes;
mod quota;
mod reach;
mod reclaim;
mod reclaim_many;
mod removal;
mod replay;
mod revocation;
mod sessions;
mod sizes;
mod sockets;
mod sole_writer;
mod truncate;
mod unnamed;
mod world;
