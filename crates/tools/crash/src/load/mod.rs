//! A load that remembers every acknowledged operation, and a check of what is found afterwards.
//!
//! ```text
//!   Script      seed -> operations, each valid in the model's state ──┐
//!   Actor       runs them with the client library                     ├─> Model: names, and the
//!   FoundTree   what a client sees after the crash ────── check ──────┘   bytes of each file
//! ```
//!
//! 1. A file's `base` is certain. Each operation in `pending` has happened completely, partially
//!    (writes only) or not at all.
//! 2. A namespace operation has happened or not, never partially (I7). After a loss of power the
//!    namespace is that after some number of operations, at least up to the last forced one (I6).
//! 3. A byte that cannot be read is a broken promise, unless everything about it was pending (I11).

mod actor;
mod check;
mod contents;
mod found_tree;
mod model;
mod script;

pub use actor::Actor;
pub use check::{check_exact, check_prefix};
pub use found_tree::FoundTree;
pub use model::{Model, Operation};
pub use script::Script;
