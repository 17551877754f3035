//! A whole cluster in one process, with a seeded simulated network and failing disks.
#![forbid(unsafe_code)]

pub mod audit;
pub mod chaos;
pub mod cluster;
pub mod driver;
pub mod judge;
pub mod model;
pub mod network;
pub mod node;
pub mod random;
pub mod run;
pub mod trace;
pub mod workload;
pub mod world;
