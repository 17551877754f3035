//! Checks licences, banned crates, duplicate versions and sources as `deny.toml` requires.
//!
//! Advisories are not checked: their database is a git repository, and CI reaches only the crate
//! registry.

use crate::context::Context;
use anyhow::Result;
use braid_testbed::programs;

/// A version that our pinned toolchain builds. A pinned check changes only when we change it.
const CARGO_DENY_VERSION: &str = "0.20.2";

pub fn check(context: &Context) -> Result<()> {
    if programs::find("cargo-deny").is_none() {
        println!("     installing cargo-deny {CARGO_DENY_VERSION}");
        // It runs for a second, but an optimized build takes minutes on each new machine.
        let install = ["install", "--quiet", "--locked", "--debug", "cargo-deny", "--version"];
        let install = context.cargo(install).args([CARGO_DENY_VERSION]);
        install.env("CARGO_PROFILE_DEV_DEBUG", "0").run()?;
    }
    let deny = context.cargo(["deny", "--workspace", "--all-features", "--log-level", "error"]);
    deny.args(["check", "licenses", "bans", "sources"]).run().map(drop)
}
