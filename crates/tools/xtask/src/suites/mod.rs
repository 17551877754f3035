//! The suites, one file each: `subject` checks whether there is something to test, `run` tests it.
//!
//! A suite without a test subject is left out of a whole run and listed as absent; requested by
//! name it fails. A suite that ran no case at all fails: it has lost its test subject.

mod bounds;
mod crash;
mod doc;
mod fuzz;
mod model;
mod mount;
mod mpi;
mod nfs;
mod nonroot;
mod powerloss;
mod python;
mod sim;
mod smoke;
mod tool;
mod unit;

use crate::context::Context;
use crate::progress;
use crate::report::{SuiteResult, Totals};
use anyhow::{Context as _, Result};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use mount::PJDFSTEST;
pub use sim::BINARY as SIM_BINARY;

/// One suite.
pub struct Suite {
    /// Its name for `--only`.
    pub name: &'static str,
    lane: TestLane,
    about: &'static str,
    subject: fn(&Context) -> Result<()>,
    run: fn(&Context) -> Result<SuiteResult>,
}

/// Suites of one lane run one after another, and lanes run in parallel: suites that wait for time
/// bounds and disks leave the processors to those that compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TestLane {
    /// The test binaries.
    Tests,
    /// What compiles or computes; the checks of `ci` run first here.
    Compute,
    /// Clusters of processes, mounts and third-party programs.
    Clusters,
}

const LANES: [TestLane; 3] = [TestLane::Tests, TestLane::Compute, TestLane::Clusters];

/// Every suite, in the order of a whole run.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "unit",
        lane: TestLane::Tests,
        about: unit::ABOUT,
        subject: unit::subject,
        run: unit::run,
    },
    Suite {
        name: "doc",
        lane: TestLane::Compute,
        about: doc::ABOUT,
        subject: doc::subject,
        run: doc::run,
    },
    Suite {
        name: "nonroot",
        lane: TestLane::Tests,
        about: nonroot::ABOUT,
        subject: nonroot::subject,
        run: nonroot::run,
    },
    Suite {
        name: "fuzz",
        lane: TestLane::Compute,
        about: fuzz::ABOUT,
        subject: fuzz::subject,
        run: fuzz::run,
    },
    Suite {
        name: "model",
        lane: TestLane::Compute,
        about: model::ABOUT,
        subject: model::subject,
        run: model::run,
    },
    Suite {
        name: "sim",
        lane: TestLane::Compute,
        about: sim::ABOUT,
        subject: sim::subject,
        run: sim::run,
    },
    Suite {
        name: "crash",
        lane: TestLane::Clusters,
        about: crash::ABOUT,
        subject: crash::subject,
        run: crash::run,
    },
    Suite {
        name: "powerloss",
        lane: TestLane::Clusters,
        about: powerloss::ABOUT,
        subject: powerloss::subject,
        run: powerloss::run,
    },
    Suite {
        name: "mount",
        lane: TestLane::Clusters,
        about: mount::ABOUT,
        subject: mount::subject,
        run: mount::run,
    },
    Suite {
        name: "bounds",
        lane: TestLane::Clusters,
        about: bounds::ABOUT,
        subject: bounds::subject,
        run: bounds::run,
    },
    Suite {
        name: "mpi",
        lane: TestLane::Clusters,
        about: mpi::ABOUT,
        subject: mpi::subject,
        run: mpi::run,
    },
    Suite {
        name: "pynfs",
        lane: TestLane::Clusters,
        about: nfs::ABOUT_PYNFS,
        subject: nfs::subject,
        run: nfs::run_pynfs,
    },
    Suite {
        name: "guest-nfs",
        lane: TestLane::Clusters,
        about: nfs::ABOUT_GUEST,
        subject: nfs::subject,
        run: nfs::run_guest,
    },
    Suite {
        name: "python",
        lane: TestLane::Clusters,
        about: python::ABOUT,
        subject: python::subject,
        run: python::run,
    },
    Suite {
        name: "smoke",
        lane: TestLane::Clusters,
        about: smoke::ABOUT,
        subject: smoke::subject,
        run: smoke::run,
    },
];

/// The suite of this name.
pub fn by_name(name: &str) -> Result<&'static Suite> {
    let names = || SUITES.iter().map(|suite| suite.name).collect::<Vec<_>>().join(", ");
    SUITES
        .iter()
        .find(|suite| suite.name == name)
        .with_context(|| format!("no suite `{name}`; there are: {}", names()))
}

impl Suite {
    /// Checks that there is something to test; the error names what is missing.
    pub fn check_available(&self, context: &Context) -> Result<()> {
        (self.subject)(context)
            .with_context(|| format!("suite `{}` has nothing to test", self.name))
    }
}

/// Runs these suites, and `before` ahead of those that compute. `by_name`: each suite was requested
/// by name, so an absent test subject is a failure.
pub fn run(
    context: &Context,
    suites: &[&Suite],
    by_name: bool,
    totals: Totals,
    before: impl FnOnce(&SharedTotals) + Send,
) -> Totals {
    let sink = Mutex::new(totals);
    // Once, before the lanes: a build failure fails every suite that needs the build, with the
    // reason.
    if let Err(error) = context.build() {
        println!("FAILED build: {error:#}");
    }
    let lane = |lane: TestLane| {
        suites
            .iter()
            .filter(|suite| suite.lane == lane)
            .for_each(|suite| ask(context, suite, by_name, &sink))
    };
    let (lane, shared) = (&lane, &sink);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            before(shared);
            lane(TestLane::Compute);
        });
        LANES
            .iter()
            .filter(|one| **one != TestLane::Compute)
            .for_each(|one| drop(scope.spawn(move || lane(*one))));
    });
    sink.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Where lanes put their results.
pub type SharedTotals = Mutex<Totals>;

fn ask(context: &Context, suite: &Suite, by_name: bool, sink: &SharedTotals) {
    let add = |took, result| {
        sink.lock().unwrap_or_else(PoisonError::into_inner).add(suite.name, took, result)
    };
    match suite.check_available(context) {
        Err(missing) if !by_name => println!("absent {:<14} {missing:#}", suite.name),
        Err(missing) => add(Duration::ZERO, SuiteResult::fail("subject", format!("{missing:#}"))),
        Ok(()) => {
            let started = Instant::now();
            let result = run_one(context, suite);
            add(started.elapsed(), result);
        }
    }
}

fn run_one(context: &Context, suite: &Suite) -> SuiteResult {
    let step = progress::step(suite.name);
    let result = match (suite.run)(context) {
        Ok(result) if result.is_empty() => SuiteResult::fail("subject", "no case ran"),
        Ok(result) => result,
        Err(error) => SuiteResult::fail("the suite itself", format!("{error:#}")),
    };
    let word = if result.failed.is_empty() { "ok" } else { "FAILED" };
    let counts = format!("{} passed, {} failed", result.passed, result.failed.len());
    println!("{word:<6} {:<14} {:>7.1} s  {counts}", suite.name, step.seconds());
    result
}

/// Prints each suite, and whether it has a test subject.
pub fn list(context: &Context) {
    for suite in SUITES {
        let state = suite.check_available(context).map_or_else(
            |missing| format!("absent: {}", missing.root_cause()),
            |()| "ready".into(),
        );
        println!("{:<10} {}  [{state}]", suite.name, suite.about);
    }
}
