//! Processes are killed under load: nothing that was acknowledged is lost, nothing is done by half or twice.
//!
//! ```text
//!   round:  workers (threads) and a client (process) load the cluster, each in a directory of its own
//!           victims are killed and started again at moments from the seed; so is the client, once
//!           all stop; each tree is held against its model; fsck finds nothing
//! ```
//!
//! 1. What an operation acknowledged is certain at once: a kill loses nothing, synced or not (I6).
//! 2. A failed operation happened wholly or not at all (I7), a failed write in any part. A wrong answer to an
//!    operation that was possible, such as "exists" to a create that was sent again, is a failure: it was done twice.

mod client;
mod round;
mod worker;

pub use client::{ClientProcess, run_client};
pub use round::Rounds;
pub use worker::Worker;
