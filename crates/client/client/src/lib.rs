//! The client library: plans jobs, talks to the metadata server and the I/O daemons.
#![forbid(unsafe_code)]

pub mod agent;
mod config;
pub mod engine;
mod error;
mod fork;
mod keyfile;
pub mod plan;

pub use braid_types::Status;
pub use config::{Config, Credential, Proof, Source, SourceBox};
pub use engine::OpenOptions;
pub use error::{Error, Result};
pub use fork::after_fork_in_child;
pub use keyfile::KeyFile;
