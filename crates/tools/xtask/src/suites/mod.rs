//! The suites, one file each: `subject` says whether there is something to test, `run` tests it.
//!
//! A suite whose subject does not exist is left out of a whole run and listed as absent; asked for
//! by name it fails. As soon as the subject is there the suite runs, with no line to change here.
//! A suite that ran no case at all fails: it has lost its subject.

mod bounds;
mod crash;
mod doc;
mod fuzz;
mod model;
mod mount;
mod mpi;
mod nonroot;
mod powerloss;
mod python;
mod sim;
mod smoke;
mod tool;
mod unit;

use crate::context::Context;
use crate::report::{SuiteResult, Totals};
use anyhow::{Context as _, Result};
use std::time::Instant;

pub use sim::BINARY as SIM_BINARY;

/// One suite.
pub struct Suite {
    /// What `--only` takes.
    pub name: &'static str,
    about: &'static str,
    subject: fn(&Context) -> Result<()>,
    run: fn(&Context) -> Result<SuiteResult>,
}

/// Every suite, in the order of a whole run.
pub const SUITES: &[Suite] = &[
    Suite { name: "unit", about: unit::ABOUT, subject: unit::subject, run: unit::run },
    Suite { name: "doc", about: doc::ABOUT, subject: doc::subject, run: doc::run },
    Suite { name: "nonroot", about: nonroot::ABOUT, subject: nonroot::subject, run: nonroot::run },
    Suite { name: "fuzz", about: fuzz::ABOUT, subject: fuzz::subject, run: fuzz::run },
    Suite { name: "model", about: model::ABOUT, subject: model::subject, run: model::run },
    Suite { name: "sim", about: sim::ABOUT, subject: sim::subject, run: sim::run },
    Suite { name: "crash", about: crash::ABOUT, subject: crash::subject, run: crash::run },
    Suite { name: "powerloss", about: powerloss::ABOUT, subject: powerloss::subject, run: powerloss::run },
    Suite { name: "mount", about: mount::ABOUT, subject: mount::subject, run: mount::run },
    Suite { name: "bounds", about: bounds::ABOUT, subject: bounds::subject, run: bounds::run },
    Suite { name: "mpi", about: mpi::ABOUT, subject: mpi::subject, run: mpi::run },
    Suite { name: "python", about: python::ABOUT, subject: python::subject, run: python::run },
    Suite { name: "smoke", about: smoke::ABOUT, subject: smoke::subject, run: smoke::run },
];

/// The suite of this name.
pub fn by_name(name: &str) -> Result<&'static Suite> {
    let names = || SUITES.iter().map(|suite| suite.name).collect::<Vec<_>>().join(", ");
    SUITES.iter().find(|suite| suite.name == name).with_context(|| format!("no suite `{name}`; there are: {}", names()))
}

impl Suite {
    /// Whether there is something to test; else an error that says what is missing.
    pub fn subject(&self, context: &Context) -> Result<()> {
        (self.subject)(context).with_context(|| format!("suite `{}` has nothing to test", self.name))
    }
}

/// Runs these suites; `by_name` when each was asked for, so that an absent subject is a failure.
pub fn run(context: &Context, suites: &[&Suite], by_name: bool, totals: &mut Totals) {
    for suite in suites {
        match suite.subject(context) {
            Err(missing) if !by_name => println!("absent {:<14} {missing:#}", suite.name),
            Err(missing) => {
                totals.add(suite.name, Default::default(), SuiteResult::fail("subject", format!("{missing:#}")))
            }
            Ok(()) => run_one(context, suite, totals),
        }
    }
}

fn run_one(context: &Context, suite: &Suite, totals: &mut Totals) {
    let started = Instant::now();
    let result = match (suite.run)(context) {
        Ok(result) if result.is_empty() => SuiteResult::fail("subject", "no case ran"),
        Ok(result) => result,
        Err(error) => SuiteResult::fail("the suite itself", format!("{error:#}")),
    };
    let word = if result.failed.is_empty() { "ok" } else { "FAILED" };
    let counts = format!("{} passed, {} failed", result.passed, result.failed.len());
    println!("{word:<6} {:<14} {:>7.1} s  {counts}", suite.name, started.elapsed().as_secs_f64());
    totals.add(suite.name, started.elapsed(), result);
}

/// Prints each suite and whether its subject is there.
pub fn list(context: &Context) {
    for suite in SUITES {
        let state = suite
            .subject(context)
            .map_or_else(|missing| format!("absent: {}", missing.root_cause()), |()| "ready".into());
        println!("{:<10} {}  [{state}]", suite.name, suite.about);
    }
}
