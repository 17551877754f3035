//! Cases with names: each runs, and is counted as passed, failed or skipped.

use std::path::{Path, PathBuf};

use anyhow::Result;

/// The directories and options of cases.
#[derive(Clone, Debug)]
pub struct TestDirs {
    /// One directory of the file system, through one or more mounts.
    pub dirs: Vec<PathBuf>,
    /// Whether the long form runs.
    pub full: bool,
    /// The seed of random choices.
    pub seed: u64,
}

impl TestDirs {
    /// Through the first mount.
    pub fn first(&self) -> &Path {
        &self.dirs[0]
    }

    /// Through the last mount, which is a different one if there are several.
    pub fn last(&self) -> &Path {
        &self.dirs[self.dirs.len() - 1]
    }

    /// Through the mounts in turn.
    pub fn dir_of_turn(&self, at: usize) -> &Path {
        &self.dirs[at % self.dirs.len()]
    }

    /// `full`, or `short` in CI.
    pub fn size<T>(&self, short: T, full: T) -> T {
        if self.full { full } else { short }
    }
}

/// The result of a case that found no failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It passed; a few words about what was done.
    Passed(String),
    /// It could not run, and why.
    Skipped(String),
}

impl Outcome {
    /// Passed, with no further words.
    pub fn passed() -> Result<Self> {
        Ok(Self::Passed(String::new()))
    }
}

/// One case.
pub struct Case {
    /// Its name, also for `--only`.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(&TestDirs) -> Result<Outcome>,
}

/// The counts of a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    /// Prints one case and counts it.
    pub fn note(&mut self, name: &str, outcome: Result<Outcome>, took: std::time::Duration) {
        let seconds = took.as_secs_f64();
        match outcome {
            Ok(Outcome::Passed(words)) => {
                self.passed += 1;
                println!("ok {name} ({seconds:.1} s) {words}");
            }
            Ok(Outcome::Skipped(why)) => {
                self.skipped += 1;
                println!("skipped: {name}: {why}");
            }
            Err(error) => {
                self.failed += 1;
                println!("FAILED {name} ({seconds:.1} s): {error:#}");
            }
        }
    }

    /// The line that `cargo xtask test` parses.
    pub fn closing_line(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Runs the cases whose names contain one of `only`, or all.
pub fn run(cases: &[Case], only: &[String], ground: &TestDirs, counts: &mut Counts) {
    let wanted =
        |case: &&Case| only.is_empty() || only.iter().any(|part| case.name.contains(part.as_str()));
    for case in cases.iter().filter(wanted) {
        let started = std::time::Instant::now();
        let outcome = (case.run)(ground);
        counts.note(case.name, outcome, started.elapsed());
    }
}

/// Runs all cases as `group::NAME`.
pub fn run_as(group: &str, cases: &[Case], ground: &TestDirs, counts: &mut Counts) {
    for case in cases {
        let started = std::time::Instant::now();
        let outcome = (case.run)(ground);
        counts.note(&format!("{group}::{}", case.name), outcome, started.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn each_case_counts_once() {
        let cases = [
            Case { name: "a", run: |_| Outcome::passed() },
            Case { name: "b", run: |_| bail!("no") },
            Case { name: "c", run: |_| Ok(Outcome::Skipped("not here".to_owned())) },
        ];
        let ground = TestDirs { dirs: vec![".".into()], full: false, seed: 1 };
        let mut counts = Counts::default();
        run(&cases, &[], &ground, &mut counts);
        assert_eq!(counts.closing_line(), "1 passed, 1 failed, 1 skipped");
        run(&cases, &["a".to_owned()], &ground, &mut counts);
        assert_eq!(counts.passed, 2);
    }
}
