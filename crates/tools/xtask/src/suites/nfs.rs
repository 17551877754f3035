//! The NFS gateway, judged by third-party clients: `external_suites` runs them. Environment
//! variables name their checkouts, since no distribution has them as packages.

use crate::context::Context;
use crate::external_suites::{self, Options};
use crate::report::SuiteResult;
use crate::tools;
use anyhow::{Context as _, Result, ensure};
use std::fs;

pub const ABOUT_PYNFS: &str = "pynfs on an NFS gateway: single operations of NFSv4.1 and 4.2";
pub const ABOUT_GUEST: &str =
    "a Linux kernel's NFS client in a guest: Connectathon's suite, pjdfstest, fsx, pNFS";

const PACKAGE: &str = "braid-nfs";
/// Names a built checkout of pynfs.
const PYNFS: &str = "BRAID_PYNFS";
/// Names a built checkout of Connectathon's suite.
const CTHON: &str = "BRAID_CTHON04";

pub fn subject(context: &Context) -> Result<()> {
    let mut packages = context.metadata.members();
    ensure!(packages.any(|package| package.name == PACKAGE), "no crate `{PACKAGE}`");
    Ok(())
}

pub fn run_pynfs(context: &Context) -> Result<SuiteResult> {
    run(context, "pynfs", PYNFS)
}

pub fn run_guest(context: &Context) -> Result<SuiteResult> {
    match (context.full, tools::is_root()) {
        (false, _) => Ok(SuiteResult::skip("all", "it runs with --full: an emulated processor")),
        (true, false) => Ok(SuiteResult::skip("all", "a network namespace needs root")),
        (true, true) => run(context, "guest-nfs", CTHON),
    }
}

fn run(context: &Context, name: &str, variable: &str) -> Result<SuiteResult> {
    if !cfg!(target_os = "linux") {
        return Ok(SuiteResult::skip("all", "the suite is for Linux"));
    }
    let Some(checkout) = std::env::var_os(variable) else {
        let hint = format!("no checkout is named; try: {variable}=DIR, a built checkout");
        return Ok(SuiteResult::skip("all", hint));
    };
    let checkout = fs::canonicalize(&checkout)
        .with_context(|| format!("{variable}={}", checkout.display()))?;
    let suite = external_suites::by_name(name).with_context(|| format!("no suite `{name}`"))?;
    (suite.run)(context, &Options { checkout, ..Options::default() })
}
