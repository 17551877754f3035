//! The checks of `cargo xtask ci`: each passes or returns an error with its findings.

mod cargo_steps;
mod deny;
mod dependency_arrows;
mod header;
mod words;

use crate::context::Context;
use crate::progress;
use crate::report::{SuiteResult, Totals, indent};
use anyhow::Result;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

struct Check {
    name: &'static str,
    run: fn(&Context) -> Result<()>,
}

/// Fast checks first, so that a failure shows early.
const CHECKS: &[Check] = &[
    Check { name: "fmt", run: cargo_steps::fmt },
    Check { name: "arrows", run: dependency_arrows::check },
    Check { name: "words", run: words::check },
    Check { name: "header", run: header::check },
    Check { name: "clippy", run: cargo_steps::clippy },
    Check { name: "rustdoc", run: cargo_steps::rustdoc },
    Check { name: "deny", run: deny::check },
    Check { name: "requirements", run: requirements },
];

/// Whether a check has this name.
pub fn exists(name: &str) -> bool {
    CHECKS.iter().any(|check| check.name == name)
}

/// All names, for a message.
pub fn names() -> String {
    CHECKS.iter().map(|check| check.name).collect::<Vec<_>>().join(", ")
}

/// Runs the named checks; a failure does not stop the next one.
pub fn run(context: &Context, only: &[String], mut totals: Totals) -> Totals {
    let (took, result) = run_chosen(context, |check| only.iter().any(|name| name == check.name));
    totals.add("checks", took, result);
    totals
}

/// Runs all checks, in parallel with the suites.
pub fn run_into(context: &Context, sink: &Mutex<Totals>) {
    let (took, result) = run_chosen(context, |_| true);
    sink.lock().unwrap_or_else(PoisonError::into_inner).add("checks", took, result);
}

fn run_chosen(context: &Context, chosen: impl Fn(&Check) -> bool) -> (Duration, SuiteResult) {
    let (started, mut result) = (Instant::now(), SuiteResult::default());
    for check in CHECKS.iter().filter(|check| chosen(check)) {
        result.merge(run_one(check, context));
    }
    (started.elapsed(), result)
}

fn run_one(check: &Check, context: &Context) -> SuiteResult {
    let (started, _step) = (Instant::now(), progress::step(check.name));
    let outcome = (check.run)(context);
    let word = if outcome.is_ok() { "ok" } else { "FAILED" };
    println!("{word:<6} {:<14} {:>7.1} s", check.name, started.elapsed().as_secs_f64());
    match outcome {
        Ok(()) => SuiteResult { passed: 1, ..SuiteResult::default() },
        Err(error) => SuiteResult::fail(check.name, format!("{error:#}")),
    }
}

fn requirements(context: &Context) -> Result<()> {
    let problems = crate::requirements::check(context)?;
    anyhow::ensure!(
        problems.is_empty(),
        "docs/requirements.toml:\n{}",
        indent(&problems.join("\n"))
    );
    Ok(())
}
