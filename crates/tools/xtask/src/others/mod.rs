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

/// What the caller asked for.
#[derive(Default)]
pub struct Options {
    /// Where the suite was built or installed.
    pub checkout: PathBuf,
    /// Another directory to run in, such as one of ext4, to compare with.
    pub on: Option<PathBuf>,
    /// A second mount of the same cluster reads along.
    pub second_mount: bool,
    /// Cases or groups, as the suite names them; none: its usual list.
    pub cases: Vec<String>,
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
