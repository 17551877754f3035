//! A whole cluster in one process, with a seeded simulated network and failing disks.
#![forbid(unsafe_code)]

pub mod checker;
pub mod cluster;
pub mod driver;
pub mod fault_schedule;
pub mod final_check;
pub mod model;
pub mod network;
pub mod node;
pub mod random;
pub mod run;
pub mod trace;
pub mod workload;
pub mod world;
