//! All libtest tests of the workspace: unit, golden vectors, property, integration.

use crate::context::Context;
use crate::libtest;
use crate::report::SuiteResult;
use crate::test_binaries::TestBinary;
use crate::tools;
use anyhow::Result;
use std::time::Duration;

pub const ABOUT: &str = "every test of every crate, as the user who runs this";

/// One binary that takes longer hangs; the others still run.
const LIMIT: Duration = Duration::from_secs(15 * 60);

pub fn subject(_: &Context) -> Result<()> {
    Ok(())
}

/// With `--full`: tests that have a long form look for it.
const FULL: [&str; 2] = ["env", "BRAID_TEST_FULL=1"];

/// What tests of MPI programs compile and start them with, and the packages that have it. Without them these tests say that they are skipped.
const MPI: &[(&str, &str)] = &[
    ("mpicc.openmpi", "libopenmpi-dev"),
    ("mpirun.openmpi", "openmpi-bin"),
    ("mpicc.mpich", "libmpich-dev"),
    ("mpirun.mpich", "mpich"),
    ("gfortran", "gfortran"),
];

pub fn run(context: &Context) -> Result<SuiteResult> {
    if cfg!(target_os = "linux") {
        for (program, package) in MPI {
            if let Err(error) = tools::need(program, package) {
                println!("     {error:#}");
            }
        }
    }
    let mut result = SuiteResult::default();
    let runner = if context.full { FULL.map(str::to_owned).to_vec() } else { Vec::new() };
    for binary in context.test_binaries()? {
        result.absorb(run_binary(binary, &runner)?);
    }
    Ok(result)
}

/// Runs one binary, with `runner` in front of it, and gives its cases their full names.
pub fn run_binary(binary: &TestBinary, runner: &[String]) -> Result<SuiteResult> {
    let finished = binary.process(runner).args(["--show-output"]).limit(LIMIT).finish()?;
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
