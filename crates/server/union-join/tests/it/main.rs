//! Joins of a union of directories to a cluster in memory.
#![cfg(target_os = "linux")]

mod harness;
mod joins;
mod kills;
mod mistakes;
