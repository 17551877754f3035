//! A whole cluster with a seeded simulated network and failing disks, checked against a model.

use super::tool;
use crate::context::Context;
use crate::report::SuiteResult;
use anyhow::Result;
use std::time::Duration;

pub const ABOUT: &str = "whole cluster, simulated network and disks, one case a seed";
/// The binary; `--seeds N`.
pub const BINARY: &str = "braid-sim";

const SEEDS: &str = "300";
const SEEDS_FULL: &str = "20000";
const LIMIT: Duration = Duration::from_secs(15 * 60);
const LIMIT_FULL: Duration = Duration::from_secs(6 * 3600);

pub fn subject(context: &Context) -> Result<()> {
    tool::subject(context, BINARY)
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    let (count, limit) = if context.full { (SEEDS_FULL, LIMIT_FULL) } else { (SEEDS, LIMIT) };
    tool::run(context, BINARY, &["--seeds", count], limit)
}
