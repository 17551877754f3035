//! Crash images: unsynced writes dropped, torn and reordered, followed by recovery (I5 to I7).

use super::tool;
use crate::context::Context;
use crate::report::SuiteResult;
use anyhow::Result;
use std::time::Duration;

pub const ABOUT: &str = "crash images of IODs and metadata engine, one case an image";
/// The binary; `--images N`.
const BINARY: &str = "braid-powerloss";

const IMAGES: &str = "50";
const IMAGES_FULL: &str = "1000";
const LIMIT: Duration = Duration::from_secs(10 * 60);
const LIMIT_FULL: Duration = Duration::from_secs(6 * 3600);

pub fn subject(context: &Context) -> Result<()> {
    tool::subject(context, BINARY)
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    // strace records the disk operations of the daemons.
    braid_testbed::programs::need("strace", &["strace"])?;
    let (count, limit) = if context.full { (IMAGES_FULL, LIMIT_FULL) } else { (IMAGES, LIMIT) };
    tool::run(context, BINARY, &["--images", count], limit)
}
