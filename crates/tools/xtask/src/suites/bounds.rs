//! How long calls of programs on a mount take while a server is gone (I8): each ends within one
//! time bound.

use super::tool;
use crate::context::Context;
use crate::report::SuiteResult;
use anyhow::Result;
use std::time::Duration;

pub const ABOUT: &str =
    "calls on a mount while each kind of server is gone: all end within the time bound";
/// The binary; `bounds [--full]`: a bound of 5 s, or the default one.
const BINARY: &str = "braid-mount-test";

const LIMIT: Duration = Duration::from_secs(30 * 60);

pub fn subject(context: &Context) -> Result<()> {
    tool::subject(context, BINARY)
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    let mut args = vec!["bounds"];
    args.extend(context.full.then_some("--full"));
    tool::run(context, BINARY, &args, LIMIT)
}
