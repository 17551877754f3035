//! The power fails: a recorded run, cut anywhere, started again and looked at.
//!
//! ```text
//!   strace ── braid-powerloss --load ──┬── braid up CLUSTER      (child: daemons and metadata engine)
//!      │                               └── script, one client    marks: "begin 7", "done 7"
//!   Recording: History + operations
//!      │  cut at an event, a loss from a seed
//!   Image ── braid up ── a new client sees everything ── judge ── fsck, fsck --mend, fsck
//! ```

mod image;
mod load;
mod recording;

pub use image::{Image, Verdict};
pub use load::{load, operations};
pub use recording::{Place, Recording};

/// Everything of the load lies below this directory.
const BELOW: &str = "/w";
/// I/O daemons of the recorded cluster.
const IODS: u16 = 3;
/// What `braid up` prints when it serves.
const READY: &str = "BraidFS is up";
