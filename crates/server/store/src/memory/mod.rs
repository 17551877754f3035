//! The store in memory for simulated clusters: it behaves as the directory, and loses power by a
//! seed.
//!
//! ```text
//!   live      what every caller sees                    survives restart()
//!   durable   what a loss of power cannot take          survives crash()
//!   unsynced  the changes between the two, in order     crash() keeps, tears and reorders some
//! ```
//!
//! Invariants:
//! 1. `durable` with all of `unsynced` applied is `live`, until a flush fails. Then the system has
//!    forgotten the changes: `live` shows them, and no later flush writes them. So does Linux, and
//!    therefore the verifier changes.
//! 2. Every change of `live` asks the [`FaultPlan`](crate::FaultPlan), at the same places as the
//!    directory store.
//!
//! No assertion checks these: after a failed flush the two images differ, and what the system has
//! forgotten is recorded nowhere (1). The tests run both stores through the same operations and
//! faults (2).

mod content;
mod crash;
mod object;
mod store;

pub use store::MemStore;
