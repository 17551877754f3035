//! Tests of the server over real sockets, with a file system in memory.

mod attributes;
mod callbacks;
mod client;
mod courtesy;
mod data;
mod exports;
mod filehandles;
mod hostile;
mod layouts;
mod locks;
mod mount;
mod names;
mod opens;
mod rpc;
mod sequence;
mod server;
mod sessions;
mod slow_share;
