//! Real programs on the mount: their results must be as on a local disk. Each works in its own
//! directory through the first mount, and its results are read through the last one.

mod databases;
mod git;
mod trees;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use braid_testbed::{programs, shell::Shell};

use crate::cases::{Case, Outcome, TestDirs};

/// Maximum time of one script.
const LIMIT: Duration = Duration::from_secs(1200);
/// Run time of dbench in seconds.
const DBENCH_SECONDS: u32 = 10;
const DBENCH_SECONDS_FULL: u32 = 120;

pub const CASES: &[Case] = &[
    Case { name: "programs::git_makes_clones_and_packs_a_repository", run: git::run },
    Case {
        name: "programs::sqlite_with_a_rollback_journal_on_both_mounts",
        run: databases::rollback,
    },
    Case { name: "programs::sqlite_with_a_write_ahead_log", run: databases::ahead },
    Case { name: "programs::sqlite_killed_in_a_transaction", run: databases::killed },
    Case { name: "programs::a_c_project_is_configured_and_built", run: trees::built },
    Case { name: "programs::tar_there_and_back", run: trees::tar },
    Case { name: "programs::rsync_has_nothing_to_do_the_second_time", run: trees::rsync },
    Case { name: "programs::dbench", run: dbench },
];

/// The reason to skip a program that is not installed.
pub(crate) fn missing(program: &str, package: &str) -> Option<Outcome> {
    programs::find(program).is_none().then(|| {
        Outcome::Skipped(format!("`{program}` is missing; try: sudo apt-get install {package}"))
    })
}

/// A new directory through the first mount, and the same through the last.
fn workplace(ground: &TestDirs, name: &str) -> Result<(PathBuf, PathBuf)> {
    let (here, there) = (ground.first().join(name), ground.last().join(name));
    if here.exists() {
        std::fs::remove_dir_all(&here)?;
    }
    std::fs::create_dir(&here).with_context(|| format!("making {}", here.display()))?;
    Ok((here, there))
}

/// Runs a shell script in a directory; returns its output, also that of its standard error.
pub(crate) fn sh(dir: &Path, script: &str, arguments: &[&str]) -> Result<String> {
    Shell::new(LIMIT).at_home(dir).run(&format!("exec 2>&1\n{script}"), arguments)
}

fn dbench(ground: &TestDirs) -> Result<Outcome> {
    if let Some(skipped) = missing("dbench", "dbench") {
        return Ok(skipped);
    }
    let (here, _) = workplace(ground, "dbench")?;
    let seconds = ground.size(DBENCH_SECONDS, DBENCH_SECONDS_FULL).to_string();
    let said = sh(&here, "dbench -D . -t \"$1\" 4", &[&seconds])?;
    let rate = said
        .lines()
        .find(|line| line.starts_with("Throughput"))
        .context("dbench printed no throughput")?;
    Ok(Outcome::Passed(rate.to_owned()))
}
