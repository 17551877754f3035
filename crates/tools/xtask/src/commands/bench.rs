//! `cargo xtask bench NAME`: the bench binary decides what its arguments mean.

use crate::context::Context;
use anyhow::{Result, bail};

pub fn run(args: &[String]) -> Result<bool> {
    if args.is_empty() {
        bail!("bench: which one? try: cargo xtask bench core");
    }
    let context = Context::new(false)?;
    context
        .cargo(["run", "--quiet", "--release", "--package", "braid-bench", "--"])
        .args(args)
        .interactive()
}
