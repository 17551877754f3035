//! Processes are killed under load. No acknowledged change may be lost, and no operation may happen
//! partially or twice.
//!
//! ```text
//!   round:  workers (threads) and a client (process) load the cluster, each in its own directory
//!           victims are killed and started again at moments from the seed; so is the client, once
//!           all stop; each tree is compared with its model; fsck finds nothing
//! ```
//!
//! 1. An acknowledged change is certain immediately: a kill loses nothing, synced or not (I6).
//! 2. A failed operation happened completely or not at all (I7); a failed write may have happened
//!    in part. A wrong answer to a possible operation is a failure: the operation ran twice. An
//!    example is "exists" for a create that was sent again.

mod client;
mod round;
mod worker;

pub use client::{ClientProcess, run_client};
pub use round::Rounds;
pub use worker::Worker;
