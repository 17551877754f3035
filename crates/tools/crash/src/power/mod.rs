//! Losses of power: a recorded run is cut at any event, started again and checked.
//!
//! ```text
//!   strace ── braid-powerloss --load ──┬── braid up CLUSTER     child: daemons, metadata engine
//!      │                               └── script, one client   marks: "begin 7", "done 7"
//!   Recording: History + operations
//!      │  cut at an event, a loss from a seed
//!   Image ── braid up ── a new client sees everything ── check ── fsck, fsck --mend, fsck
//! ```

mod image;
mod load;
mod recording;

pub use image::{Image, Verdict};
pub use load::{load, operations};
pub use recording::{CutPoint, Recording};

/// The whole load lies below this directory.
const BELOW: &str = "/w";
/// I/O daemons of the recorded cluster.
const IODS: u16 = 3;
/// `braid up` prints this when it serves.
const READY: &str = "BraidFS is up";
