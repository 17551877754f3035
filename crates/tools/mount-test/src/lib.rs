//! Tests of a POSIX mount: exercisers, checkers and real programs, on one mount or several of one
//! file system.
//!
//! ```text
//!   cli ──┬── fsx       random operations on one file, against an image
//!         ├── history   concurrent calls, against every order that coherence allows
//!         ├── locks, append, mapped, in_use, consistency   several processes on several mounts
//!         ├── programs, pjdfstest     third-party programs and tests
//!         ├── bounds    how long calls take while servers are gone
//!         └── suite ─┬─ stage   a cluster of processes, mounted twice, of which any may be killed
//!                    └─ space, power, crowd   own clusters: full disks, lost power, many names
//! ```
#![cfg(target_os = "linux")]

mod actor;
mod append;
mod bounds;
mod cases;
pub mod cli;
mod consistency;
mod fsx;
mod history;
mod huge_directory;
mod in_use;
mod locks;
mod mapped;
mod mapping;
mod pjdfstest;
mod power;
mod programs;
mod quota;
mod scratch_cluster;
mod space;
pub mod stage;
mod suite;
mod union;

// Tests of other clients than mounts check their histories and lock, too.
pub use history::linearizability;
pub use locks::calls as record_locks;
