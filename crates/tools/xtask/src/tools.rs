//! Programs of cargo that the suites need. A missing one is installed, and that is printed.

use crate::context::Context;
use anyhow::{Context as _, Result};
use braid_testbed::process::Process;
use std::path::PathBuf;

/// A program of this version from the crate registry, installed below `target` only.
pub fn need_crate(context: &Context, name: &str, version: &str) -> Result<PathBuf> {
    let root = context.root.join("target/tools").join(format!("{name}-{version}"));
    let program = root.join("bin").join(name);
    if !program.is_file() {
        println!("     installing {name} {version} from the registry");
        // Without optimization: compiling takes longer than running it.
        let install = ["install", "--quiet", "--locked", "--debug", name, "--version", version];
        context
            .cargo(install)
            .args(["--root".as_ref(), root.as_os_str()])
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_TARGET_DIR", context.root.join("target/tools/build"))
            .run()?;
    }
    program
        .is_file()
        .then_some(program)
        .with_context(|| format!("{name} {version} is missing after its installation"))
}

/// `cargo` of the nightly toolchain, or why there is none.
pub fn nightly_cargo() -> Result<Process, String> {
    let cargo = || {
        Process::new("rustup")
            .env_remove("CARGO")
            .env_remove("RUSTUP_TOOLCHAIN")
            .args(["run", "nightly", "cargo"])
    };
    match cargo().args(["--version"]).finish() {
        Ok(finished) if finished.status.success() => Ok(cargo()),
        _ => Err("no nightly toolchain; try: rustup toolchain install nightly".to_owned()),
    }
}
