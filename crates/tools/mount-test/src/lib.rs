//! Tests of a POSIX mount: exercisers, checkers and real programs, on one mount or on several of one file system.
//!
//! ```text
//!   cli ──┬── fsx       random operations on one file, against an image
//!         ├── history   concurrent calls, against every order that coherence allows
//!         ├── locks, append, mapped, consistency   several processes on several mounts
//!         ├── programs, pjdfstest     those of others
//!         └── suite ── stage   a cluster of processes, mounted twice, of which any may be killed
//! ```
#![cfg(target_os = "linux")]

mod actor;
mod append;
mod cases;
pub mod cli;
mod consistency;
mod fsx;
mod history;
mod known;
mod locks;
mod mapped;
mod mapping;
mod pjdfstest;
mod programs;
pub mod stage;
mod suite;
