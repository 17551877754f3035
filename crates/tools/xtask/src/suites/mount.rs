//! The POSIX mount as programs see it: a cluster of processes mounted twice, exercised, checked,
//! and killed.

use super::tool;
use crate::context::Context;
use crate::report::SuiteResult;
use crate::tools;
use anyhow::Result;
use std::time::Duration;

pub const ABOUT: &str =
    "a cluster mounted twice: fsx, histories, locks, real programs, pjdfstest, kills";
/// The binary; `suite [--full] [--pjdfstest FILE]`.
const BINARY: &str = "braid-mount-test";

/// A third-party conformance suite: a tool, never a dependency.
pub const PJDFSTEST: (&str, &str) = ("pjdfstest", "0.2.2");
/// Real programs and their Debian packages. A program that cannot be installed makes a skipped
/// case, with the reason.
const PROGRAMS: &[(&str, &str)] = &[
    ("git", "git"),
    ("sqlite3", "sqlite3"),
    ("cc", "gcc"),
    ("cmake", "cmake"),
    ("make", "make"),
    ("rsync", "rsync"),
    ("dbench", "dbench"),
];

/// Other suites run in parallel.
const LIMIT: Duration = Duration::from_secs(45 * 60);
const LIMIT_FULL: Duration = Duration::from_secs(24 * 3600);

pub fn subject(context: &Context) -> Result<()> {
    tool::subject(context, BINARY)
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    for (program, package) in PROGRAMS {
        if let Err(error) = tools::need(program, package) {
            println!("     {error:#}");
        }
    }
    let (name, version) = PJDFSTEST;
    let conformance = tools::need_crate(context, name, version);
    let mut args = vec!["suite".to_owned()];
    match &conformance {
        Ok(program) => args.extend(["--pjdfstest".to_owned(), program.display().to_string()]),
        Err(error) => println!("     {error:#}"),
    }
    args.extend(context.full.then(|| "--full".to_owned()));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    tool::run(context, BINARY, &args, if context.full { LIMIT_FULL } else { LIMIT })
}
