//! `cargo xtask bench NAME`: runs the bench binary, which parses the arguments.

use crate::context::Context;
use anyhow::{Result, bail};

pub fn run(args: &[String]) -> Result<bool> {
    if args.is_empty() {
        bail!("bench: no name was given; try: cargo xtask bench core");
    }
    let context = Context::new(false)?;
    context
        .cargo(["run", "--quiet", "--release", "--package", "braid-bench", "--"])
        .args(args)
        .interactive()
}
