//! The behaviour of the traits, tested on both implementations: the file system in memory, and a
//! cluster in this process. What passes on both is what a gateway's tests may rely on.

mod adoption;
mod attributes;
mod data;
mod delegations;
mod gateways;
mod locks;
mod names;
mod opens;
mod permissions;
mod rename;
mod support;
