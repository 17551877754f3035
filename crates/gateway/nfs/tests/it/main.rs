//! Tests of the server over real sockets, with a file system in memory.

mod attributes;
mod callbacks;
mod client;
mod courtesy;
mod data;
mod delegations;
mod exports;
mod filehandles;
mod hostile;
mod kerberos;
mod layouts;
mod leases;
mod locks;
mod mount;
mod mutations;
mod names;
mod opens;
mod rpc;
mod sequence;
mod server;
mod sessions;
mod slow_share;
