//! `cargo xtask sim SEED`: the same cluster, faults and order of events as the run that failed.

use crate::context::Context;
use crate::suites::SIM_BINARY;
use anyhow::{Context as _, Result, bail};

pub fn run(args: &[String]) -> Result<bool> {
    let [seed] = args else { bail!("sim: one seed is needed; try: cargo xtask sim 42") };
    let seed: u64 =
        seed.parse().with_context(|| format!("sim: `{seed}` is not a seed (0 to 2^64 - 1)"))?;
    let context = Context::new(false)?;
    let package = context.package_of_binary(SIM_BINARY)?;
    context
        .cargo(["run", "--quiet", "--package", &package, "--bin", SIM_BINARY, "--"])
        .args(["--seed", &seed.to_string()])
        .interactive()
}
