//! Integration tests: a union of directories, without a mount.
#![cfg(target_os = "linux")]

mod check;
mod costs;
mod direct;
mod direct_model;
mod direct_view;
mod directory_placement;
mod failed_disks;
mod harness;
mod model;
mod moves;
mod names;
mod pool;
mod quota;
mod renames;
mod striped;
mod striped_model;
mod unnamed;
