//! `braid bench`: measures what a cluster stands on, then what the file system does on it, and sets each result beside the limit
//! that binds it (`docs/adr/0019-braid-bench.md`, `docs/bench.md`).
//!
//! ```text
//!   limits/   memory, network, disks, round trips  ──┐
//!   rows/     what programs do                     ──┴─> bound.rs ─> report/ (text, JSON, HTML, compare)
//!   scratch.rs  the one directory that all of it happens in
//!   pace.rs     the time that all of it may take, between a run and its subject.rs, the file system
//! ```
#![deny(unsafe_code)]

mod bench;
mod bound;
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
