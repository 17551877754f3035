//! `braid bench`: measures the hardware limits of a cluster, then the file system, and shows each
//! result with its bottleneck (`docs/adr/0019-braid-bench.md`, `docs/bench.md`).
//!
//! ```text
//!   limits/   memory, network, disks, round trips  ──┐
//!   rows/     the loads of programs                ──┴─> bottleneck.rs ─> report/
//!   scratch.rs  the one directory that a run uses
//!   pace.rs     the time limit, between a run and the file system (subject.rs)
//! ```
#![deny(unsafe_code)]

mod bench;
mod bottleneck;
mod content;
mod error;
mod iods;
mod limits;
mod options;
mod pace;
mod preset;
pub mod report;
mod rows;
mod run;
mod sample;
mod scratch;
pub mod stats;
mod subject;

pub use error::{BenchError, Result};
pub use options::{OPTIONS_DEFAULT, Options};
pub use preset::{PRESETS, preset_names};
pub use rows::row_names;
pub use run::run;
