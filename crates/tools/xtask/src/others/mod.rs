//! Suites that others wrote, each run by one command on a mount of an embedded cluster.

mod cluster;
mod ltp;
mod reader;
mod stress;
mod xfstests;

use crate::context::Context;
use crate::report::SuiteResult;
use anyhow::Result;
use std::path::PathBuf;
use std::time::Duration;

/// One case is ended after this time and counted as failed, unless the caller says another.
const LIMIT_CASE: Duration = Duration::from_secs(300);

/// What the caller asked for.
pub struct Options {
    /// Where the suite was built or installed.
    pub checkout: PathBuf,
    /// Another directory to run in, such as one of ext4, to compare with.
    pub on: Option<PathBuf>,
    /// A second mount of the same cluster reads along.
    pub second_mount: bool,
    /// One case is ended after this time and counted as failed.
    pub limit: Duration,
    /// Cases or groups, as the suite names them; none: its usual list.
    pub cases: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        let (checkout, on, cases) = (PathBuf::new(), None, Vec::new());
        Self { checkout, on, second_mount: false, limit: LIMIT_CASE, cases }
    }
}

/// One suite.
pub struct Other {
    /// What is typed.
    pub name: &'static str,
    /// Whether the caller says where it is.
    pub wants_checkout: bool,
    /// Runs it.
    pub run: fn(&Context, &Options) -> Result<SuiteResult>,
}

const OTHERS: [Other; 3] = [
    Other { name: "xfstests", wants_checkout: true, run: xfstests::run },
    Other { name: "ltp", wants_checkout: true, run: ltp::run },
    Other { name: "stress-ng", wants_checkout: false, run: stress::run },
];

/// The suite of this name.
pub fn by_name(name: &str) -> Option<&'static Other> {
    OTHERS.iter().find(|other| other.name == name)
}
