//! Checks that `braid.h` is what cbindgen generates from the sources of the C library. `BLESS=1
//! cargo xtask ci header` generates it again.
//!
//! cbindgen runs as a program and is no dependency: its licence is MPL-2.0, and nothing of it is in
//! what we ship.

use crate::context::Context;
use crate::tools;
use anyhow::{Context as _, Result, ensure};
use braid_testbed::process::Process;

/// Another version formats the header differently.
const CBINDGEN_VERSION: &str = "0.29.2";

pub fn check(context: &Context) -> Result<()> {
    let cbindgen = tools::need_crate(context, "cbindgen", CBINDGEN_VERSION)?;
    let (krate, header) = (
        context.root.join("crates/bind/capi"),
        context.root.join("crates/bind/capi/include/braid.h"),
    );
    let program = cbindgen.to_str().context("find cbindgen: its path is not UTF-8")?;
    let made = Process::new(program)
        .dir(&krate)
        .args(["--quiet", "--config", "cbindgen.toml", "."])
        .run()?
        .stdout;
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(&header, made).with_context(|| header.display().to_string());
    }
    let there = std::fs::read_to_string(&header).with_context(|| header.display().to_string())?;
    ensure!(there == made, "{} is stale; try: BLESS=1 cargo xtask ci header", header.display());
    Ok(())
}
