//! Tests of the server over real sockets, with a file system in memory; `calls`, `acl` and `v42`
//! with a cluster, too.

mod acl;
mod attributes;
mod callbacks;
mod calls;
mod cb_getattr;
mod client;
mod cluster;
mod courtesy;
mod data;
mod delegations;
mod exports;
mod filehandles;
mod hostile;
mod kerberos;
mod layout_recall;
mod layouts;
mod leases;
mod lock_waits;
mod locks;
mod mount;
mod mutations;
mod names;
mod opens;
mod owners;
mod restart;
mod rpc;
mod sequence;
mod server;
mod sessions;
mod slow_share;
mod tls;
mod v42;
