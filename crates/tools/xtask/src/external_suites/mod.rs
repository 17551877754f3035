//! Third-party suites, each run by one command on a mount of an embedded cluster.

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

/// Time after which a case is ended and counted as failed, by default.
const LIMIT_CASE: Duration = Duration::from_secs(300);

/// The caller's options.
pub struct Options {
    /// The directory where the suite was built or installed.
    pub checkout: PathBuf,
    /// Another directory to run in, such as one of ext4, to compare with.
    pub on: Option<PathBuf>,
    /// Whether a second mount of the same cluster reads all files meanwhile.
    pub second_mount: bool,
    /// Time after which a case is ended and counted as failed.
    pub limit: Duration,
    /// Cases or groups, as the suite names them; empty: its default list.
    pub cases: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        let (checkout, on, cases) = (PathBuf::new(), None, Vec::new());
        Self { checkout, on, second_mount: false, limit: LIMIT_CASE, cases }
    }
}

/// A third-party suite.
pub struct ExternalSuite {
    /// Its name on the command line.
    pub name: &'static str,
    /// Whether the caller must name its directory.
    pub wants_checkout: bool,
    /// Runs it.
    pub run: fn(&Context, &Options) -> Result<SuiteResult>,
}

const EXTERNAL_SUITES: [ExternalSuite; 3] = [
    ExternalSuite { name: "xfstests", wants_checkout: true, run: xfstests::run },
    ExternalSuite { name: "ltp", wants_checkout: true, run: ltp::run },
    ExternalSuite { name: "stress-ng", wants_checkout: false, run: stress::run },
];

/// The suite of this name.
pub fn by_name(name: &str) -> Option<&'static ExternalSuite> {
    EXTERNAL_SUITES.iter().find(|other| other.name == name)
}
