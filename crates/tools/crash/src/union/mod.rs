//! Losses of power under a union: each branch is a disk of its own, and so is the metadata
//! directory. A recorded run is cut at any event, opened again and checked.
//!
//! ```text
//!   strace ── braid-union-powerloss --load ── script over one Union   marks: "begin 7", "done 7"
//!   Recording: History + operations + inodes
//!      │  cut at an event, a loss from a seed
//!   Image ── Union::open ── every name and file ── check
//! ```
//!
//! Intents name inodes. An image has other ones, so the load marks the inodes of each file, and the
//! image's intents get the numbers of the image.
//!
//! Not covered: names of one disk that survive out of order, which no journal of Linux leaves;
//! file numbers (`st_ino`) after a move; striped files; NFS handles.

mod image;
mod load;
mod model;
mod recording;

pub use image::{Image, Verdict};
pub use load::{Operation, load, operations};
pub use model::Model;
pub use recording::{CutPoint, Recording};

/// Branches of the recorded union.
const BRANCHES: u8 = 3;
/// The recorded directory, with a directory for each disk.
const POOL: &str = "pool";
const META: &str = "meta";

/// The directory of a branch.
fn disk(number: u8) -> String {
    format!("disk{number}")
}
