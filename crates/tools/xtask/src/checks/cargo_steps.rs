//! The checks that cargo runs: format, clippy, rustdoc.

use crate::context::Context;
use anyhow::Result;

pub fn fmt(context: &Context) -> Result<()> {
    context.cargo(["fmt", "--all", "--check"]).run().map(drop)
}

pub fn clippy(context: &Context) -> Result<()> {
    let clippy = context.cargo(["clippy", "--quiet", "--locked", "--workspace", "--all-targets"]);
    clippy.args(["--", "-D", "warnings"]).run().map(drop)
}

pub fn rustdoc(context: &Context) -> Result<()> {
    let doc = context.cargo(["doc", "--quiet", "--locked", "--workspace", "--no-deps"]);
    doc.env("RUSTDOCFLAGS", "-D warnings").run().map(drop)
}
