//! Every interleaving of small models of leases (ADR 0009), and broken protocols that must be
//! detected.

use super::tool;
use crate::context::Context;
use crate::report::SuiteResult;
use anyhow::Result;
use std::time::Duration;

pub const ABOUT: &str =
    "leases: every interleaving of small models, and broken protocols that must be detected";
const BINARY: &str = "braid-model";

/// States explored of one model at most; larger models are explored completely with `--full`.
const STATES: &str = "400000";
const STATES_FULL: &str = "20000000";
const LIMIT: Duration = Duration::from_secs(15 * 60);
const LIMIT_FULL: Duration = Duration::from_secs(6 * 3600);

pub fn subject(context: &Context) -> Result<()> {
    tool::subject(context, BINARY)
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    let (states, limit) = if context.full { (STATES_FULL, LIMIT_FULL) } else { (STATES, LIMIT) };
    tool::run(context, BINARY, &["--states", states], limit)
}
