//! The main use, from nothing: start a cluster, store a tree, read it back, byte for byte.

use crate::commands::COMMANDS;
use crate::context::Context;
use crate::report::SuiteResult;
use anyhow::{Result, ensure};
use std::time::Duration;

pub const ABOUT: &str = "`cargo xtask up --once --json`: a tree stored and read back byte for byte";

/// The large file, in MiB: many stripes of 1 MiB, and small enough for any disk.
const SIZE_MIB: &str = "512";
const LIMIT: Duration = Duration::from_secs(10 * 60);

pub fn subject(_: &Context) -> Result<()> {
    ensure!(COMMANDS.iter().any(|command| command.name == "up"), "no command `cargo xtask up`");
    Ok(())
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    let up = context.program("xtask")?.args(["up", "--once", "--json", "--size", SIZE_MIB]);
    let finished = up.limit(LIMIT).finish()?;
    if !finished.status.success() {
        return Ok(SuiteResult::fail("up", finished.output()));
    }
    match serde_json::from_str::<serde_json::Value>(&finished.stdout) {
        Ok(_) => Ok(SuiteResult { passed: 1, ..SuiteResult::default() }),
        Err(error) => Ok(SuiteResult::fail(
            "up",
            format!("--json printed what is not JSON: {error}\n{}", finished.stdout),
        )),
    }
}
