//! A model of the leases of ADR 0009, explored: every interleaving of a small world, by breadth-first search over hashed
//! states.
//!
//! ```text
//!   server: braid_meta::lease::Table ── messages, in any order, late, lost, repeated ── two clients: braid_client's Holding
//!     one directory with one value, one file at one I/O daemon; clocks that tick at will; deaths; a restart
//! ```
//!
//! Table and holder are the code that runs in server and client. What lies around them is written here again, as small as
//! it can be: a call that waits, a cache, a daemon. What is checked in every state is in `check.rs`; each broken variant of
//! the protocol must be caught, or the model proves nothing.

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
