//! Real processes killed with SIGKILL at random points under load (I6, I7), then fsck.

use super::tool;
use crate::context::Context;
use crate::report::SuiteResult;
use anyhow::Result;
use std::time::Duration;

pub const ABOUT: &str = "real processes killed with SIGKILL under load, one case a round";
/// The binary; `--rounds N`.
const BINARY: &str = "braid-crash";

const ROUNDS: &str = "10";
const ROUNDS_FULL: &str = "100";
const LIMIT: Duration = Duration::from_secs(10 * 60);
const LIMIT_FULL: Duration = Duration::from_secs(6 * 3600);

pub fn subject(context: &Context) -> Result<()> {
    tool::subject(context, BINARY)
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    let (count, limit) = if context.full { (ROUNDS_FULL, LIMIT_FULL) } else { (ROUNDS, LIMIT) };
    tool::run(context, BINARY, &["--rounds", count], limit)
}
