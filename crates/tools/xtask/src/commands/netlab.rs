//! `cargo xtask netlab`: hosts on one machine; the lab's binary parses the arguments.

use crate::context::Context;
use anyhow::Result;

pub fn run(args: &[String]) -> Result<bool> {
    let context = Context::new(false)?;
    let args = if args.is_empty() { &["--help".to_owned()] } else { args };
    context
        .cargo(["run", "--quiet", "--release", "--package", "braid-netlab", "--"])
        .args(args)
        .interactive()
}
