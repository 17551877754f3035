//! All libtest tests of the workspace: unit, golden vectors, property, integration.

use crate::build::TestBinary;
use crate::context::Context;
use crate::libtest;
use crate::progress;
use crate::report::SuiteResult;
use anyhow::Result;
use braid_testbed::programs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub const ABOUT: &str = "every test of every crate, as the user who runs this";

/// A binary that takes longer hangs; the others still run.
const LIMIT: Duration = Duration::from_secs(30 * 60);

pub fn subject(_: &Context) -> Result<()> {
    Ok(())
}

/// Binaries that run in parallel. Most tests wait for a time bound or a disk, not for a processor.
const SIDE_BY_SIDE: usize = 3;

/// Packages with the longest tests: they start first, so that none of them runs alone at the end.
const LONG: &[&str] =
    &["braid-cli", "braid-netlab-tests", "braid-vfs", "braid-fuse", "braid-mpiio", "braid-bench"];

/// With `--full`: enables the long form of tests that have one.
const FULL: [&str; 2] = ["env", "BRAID_TEST_FULL=1"];

/// Programs that compile and start the tests of MPI programs, and their packages. Without them
/// these tests are skipped.
const MPI: &[(&str, &str)] = &[
    ("mpicc.openmpi", "libopenmpi-dev"),
    ("mpirun.openmpi", "openmpi-bin"),
    ("mpicc.mpich", "libmpich-dev"),
    ("mpirun.mpich", "mpich"),
    ("gfortran", "gfortran"),
];

/// Programs of the Kerberos server that the tests of `braid-gss` start, and their packages.
/// Without them these tests are skipped.
const KERBEROS: &[(&str, &str)] = &[("krb5kdc", "krb5-kdc"), ("kadmin.local", "krb5-admin-server")];

pub fn run(context: &Context) -> Result<SuiteResult> {
    if cfg!(target_os = "linux") {
        for (program, package) in MPI.iter().chain(KERBEROS) {
            if let Err(error) = programs::need(program, &[package]) {
                println!("     {error:#}");
            }
        }
    }
    let runner = if context.full { FULL.map(str::to_owned).to_vec() } else { Vec::new() };
    let binaries: Vec<&TestBinary> = context.test_binaries()?.iter().collect();
    run_binaries("unit", &binaries, &runner, &|_| Ok(Vec::new()))
}

/// Runs these binaries, `SIDE_BY_SIDE` at a time, with `runner` in front of each; prints a line
/// when one ends. `sample` names the tests of a binary that run; `None`: all.
pub fn run_binaries(
    suite: &str,
    binaries: &[&TestBinary],
    runner: &[String],
    sample: &(dyn Fn(&TestBinary) -> Result<Vec<String>> + Sync),
) -> Result<SuiteResult> {
    let mut order = binaries.to_vec();
    order.sort_by_key(|binary| !LONG.contains(&binary.package.as_str()));
    let (next, done) = (AtomicUsize::new(0), Mutex::new((0, Ok(SuiteResult::default()))));
    let work = || {
        while let Some(binary) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let name = binary.short_name();
            let step = progress::step(format!("{suite} {name}"));
            let outcome = sample(binary).and_then(|sample| run_binary(binary, runner, &sample));
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.0 += 1;
            println!(
                "       {suite} {:>3} of {} {:>7.1} s  {name}",
                done.0,
                order.len(),
                step.seconds()
            );
            // Their reasons follow at the end of the suite.
            let failed = outcome.iter().flat_map(|result| &result.failed);
            failed.for_each(|(case, _)| println!("       FAILED {case}"));
            match (&mut done.1, outcome) {
                (Ok(all), Ok(result)) => all.merge(result),
                (all @ Ok(_), Err(error)) => *all = Err(error),
                (Err(_), _) => {}
            }
        }
    };
    std::thread::scope(|scope| (0..SIDE_BY_SIDE).for_each(|_| drop(scope.spawn(work))));
    done.into_inner().unwrap_or_else(PoisonError::into_inner).1
}

/// Runs one binary, or only these tests of it, and gives its cases their full names.
fn run_binary(binary: &TestBinary, runner: &[String], sample: &[String]) -> Result<SuiteResult> {
    let exact = (!sample.is_empty()).then_some("--exact");
    let run = binary.process(runner).args(["--show-output"]).args(exact).args(sample);
    let finished = run.limit(LIMIT).finish()?;
    let mut result = libtest::parse_run(&finished.stdout, finished.status.success());
    for (name, why) in &mut result.failed {
        *name = binary.full_name(name);
        if !finished.stderr.is_empty() {
            why.push_str(&format!("\n{}", finished.stderr));
        }
    }
    result.skipped.iter_mut().for_each(|(name, _)| *name = binary.full_name(name));
    Ok(result)
}
