//! XDR and the NFSv4.1/4.2 protocol, without I/O: it turns messages into values and back, and
//! depends on no other part of BraidFS.
//!
//! Invariants:
//!
//! 1. No bytes from the network cause a panic.
//! 2. A length or count from the network is compared with its limit and with the bytes that are
//!    left in the message before memory is taken.
//! 3. The data of READ and WRITE is not copied: decoded values are slices of the message, and an
//!    encoder returns long data as a segment of its own.
#![forbid(unsafe_code)]

pub mod nfs4;
pub mod rpc;
pub mod xdr;
