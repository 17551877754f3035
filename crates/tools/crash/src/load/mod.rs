//! A load whose every acknowledged operation is remembered, and a judge of what is found afterwards.
//!
//! ```text
//!   Script   seed -> operations, each valid in the model's state ──┐
//!   Actor    does them with the client library                     ├─> Model: names, and for each file what its
//!   Found    what a client sees after the crash ──────── judge ────┘    bytes must be and what they may be
//! ```
//!
//! 1. A file's `base` is certain; each operation in `pending` is there wholly, in part (writes) or not at all.
//! 2. An operation of the namespace is there or not, never half (I7); after a loss of power the namespace is that
//!    after some number of operations, not before the last one that was forced (I6).
//! 3. A byte that cannot be read is a lost promise, unless everything about it was pending (I11).

mod actor;
mod contents;
mod found;
mod judge;
mod model;
mod script;

pub use actor::Actor;
pub use found::Found;
pub use judge::{judge_exact, judge_prefix};
pub use model::{Model, Operation};
pub use script::Script;
