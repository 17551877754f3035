//! Tests of the server over real sockets, with a file system in memory.

mod callbacks;
mod client;
mod exports;
mod filehandles;
mod hostile;
mod kerberos;
mod leases;
mod mutations;
mod rpc;
mod sequence;
mod server;
mod sessions;
mod slow_share;
