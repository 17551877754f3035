//! The server over TCP, with a client that is made of the codecs of `braid-smb-wire`: what a peer
//! may and may not do.

mod client;
mod compounds;
mod credits;
mod durable;
mod gateways;
mod hostile;
mod leases;
mod locks;
mod logon;
mod mistakes;
mod negotiation;
mod notify;
mod protection;
mod server;
