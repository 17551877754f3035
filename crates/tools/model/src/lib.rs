//! A model of the leases of ADR 0009, explored: every interleaving of a small world, by
//! breadth-first search over hashed states.
//!
//! ```text
//!   server: braid_meta's LeaseTable ── messages, in any order, delayed, lost, repeated ──┐
//!   one directory with one value, one file at one I/O daemon                             │
//!   clocks that tick at any time; deaths; a restart        two clients: braid_client's Holding
//! ```
//!
//! The lease table and the holder are the code that runs in the server and the client. Everything
//! around them is written here again, as small as possible: a call that waits, a cache, a daemon.
//! `check.rs` checks every state. Each broken variant of the protocol must be caught; otherwise the
//! model proves nothing.

// A guard that changes the world would hide that it does.
#![allow(clippy::collapsible_match)]

mod check;
mod client;
mod event;
mod explore;
pub mod pages;
mod scenario;
mod server;
mod world;

pub use explore::{Outcome, explore};
pub use scenario::{SCENARIOS, Scenario, Variant};
