//! The store in memory: the same behaviour as the directory, for simulated clusters, with a loss of power on a seed.
//!
//! ```text
//!   live      what every caller sees                    survives restart()
//!   durable   what power cannot take                    survives crash()
//!   unsynced  the changes between the two, in order     crash() keeps some, tears some, swaps them
//! ```
//!
//! 1. `durable` with all of `unsynced` applied is `live`, until a flush fails: then the system has forgotten the
//!    changes, `live` shows them, and no later flush writes them. That is what Linux does, and why the verifier changes.
//! 2. Every way into `live` goes through the [`FaultPlan`](crate::FaultPlan), at the places where the directory store does.

mod content;
mod crash;
mod object;
mod store;

pub use store::MemStore;
