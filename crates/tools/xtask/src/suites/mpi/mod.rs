//! Programs of third-party MPI-IO suites through `libbraid_mpiio`, with 2 ranks on both MPIs: those
//! of MPICH's `test/mpi/io` and of ROMIO, from Debian's source package; and ROMIO's programs on two
//! mounts with the MPI's own driver.
//!
//! ```text
//! target/mpi/source    apt-get source mpich, once
//! target/mpi/prefix    libbraid of the debug build, as install.sh installs it
//! target/mpi/MPI/      libbraid_mpiio, and the programs, which do not link it: it is preloaded
//! a cluster in a scratch directory, mounted once, and again for programs on two mounts
//! ```
//!
//! CI runs a sample. `--full` runs every program that uses a file system, also with each collective
//! call executed by the I/O daemons. docs/conformance.md has the counts.

mod cluster;
mod compiler;
mod programs;
mod source;

use crate::context::Context;
use crate::report::SuiteResult;
use anyhow::{Result, ensure};
use braid_testbed::process::Process;
use cluster::Cluster;
use compiler::Compiler;
use programs::{PROGRAMS, Program};
use std::path::Path;
use std::time::Duration;

pub const ABOUT: &str =
    "MPICH's test/mpi/io and ROMIO's programs over libbraid_mpiio and on two mounts, on both MPIs";

const PACKAGE: &str = "braid-mpiio";
/// Limit of one program, which normally takes a second: ranks that poll wait for daemons without a
/// processor.
const LIMIT_PROGRAM: Duration = Duration::from_secs(120);

/// An MPI, by Debian's names and packages.
pub struct Mpi {
    name: &'static str,
    packages: [(&'static str, &'static str); 2],
    flags: &'static [&'static str],
}

const MPIS: [Mpi; 2] = [
    Mpi {
        name: "openmpi",
        packages: [("mpicc.openmpi", "libopenmpi-dev"), ("mpirun.openmpi", "openmpi-bin")],
        flags: &[
            "--allow-run-as-root",
            "--oversubscribe",
            "--mca",
            "btl",
            "self,vader",
            "--mca",
            "mpi_yield_when_idle",
            "1",
        ],
    },
    Mpi {
        name: "mpich",
        packages: [("mpicc.mpich", "libmpich-dev"), ("mpirun.mpich", "mpich")],
        flags: &[],
    },
];

/// Values of `BRAID_MPIIO_COLLECTIVE`: which side executes collective calls.
const WAYS: [&str; 2] = ["auto", "server"];

pub fn subject(context: &Context) -> Result<()> {
    ensure!(
        context.metadata.members().any(|package| package.name == PACKAGE),
        "no crate `{PACKAGE}`"
    );
    Ok(())
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    if !cfg!(target_os = "linux") {
        return Ok(SuiteResult::skip("all", "the shim is for Linux"));
    }
    let home = context.root.join("target/mpi");
    let source = match source::of_mpich(&home) {
        Ok(source) => source,
        Err(why) => {
            return Ok(SuiteResult::skip("all", format!("download the sources of MPICH: {why:#}")));
        }
    };
    context.build()?;
    let prefix = compiler::install_library(context, &home)?;
    let cluster = Cluster::start(context)?;
    let mut result = SuiteResult::default();
    for mpi in &MPIS {
        let missing = mpi.packages.iter().find_map(|(program, package)| {
            braid_testbed::programs::need(program, &[package]).err().map(|why| format!("{why:#}"))
        });
        match missing {
            Some(why) => result.merge(SuiteResult::skip(mpi.name, why)),
            None => result.merge(of_mpi(
                context,
                mpi,
                &Compiler::new(context, mpi, &source, &home, &prefix)?,
                &cluster,
            )?),
        }
    }
    Ok(result)
}

fn of_mpi(
    context: &Context,
    mpi: &Mpi,
    compiler: &Compiler,
    cluster: &Cluster,
) -> Result<SuiteResult> {
    let mut result = SuiteResult::default();
    let ways = if context.full { &WAYS[..] } else { &WAYS[..1] };
    for program in PROGRAMS.iter().filter(|program| context.full || program.in_sample) {
        if let Some(why) = program.reason_to_skip(mpi.name) {
            result.merge(SuiteResult::skip(&program.case(mpi.name, "all"), why));
            continue;
        }
        let compiled = compiler.compile(program)?;
        for way in ways {
            let case = program.case(mpi.name, way);
            match cluster.place(&case)? {
                Some(place) => result.merge(judge(
                    &case,
                    through_shim(mpi, compiler, cluster, (program, way), &compiled, &place.0)?,
                )),
                None => result.merge(SuiteResult::skip(&case, cluster::NOT_MOUNTED)),
            }
        }
        if program.on_two_mounts && mpi.name == "mpich" {
            result.merge(on_two_mounts(mpi, cluster, program, &compiled)?);
        }
    }
    Ok(result)
}

/// The output and exit code of one run.
struct ProgramOutput {
    success: bool,
    text: String,
}

/// A run passes if it exits with 0 and prints "No Errors", as every program does.
fn judge(case: &str, said: ProgramOutput) -> SuiteResult {
    let good =
        said.success && said.text.contains("No Errors") && !said.text.contains("Error at line");
    if good {
        SuiteResult { passed: 1, ..SuiteResult::default() }
    } else {
        SuiteResult::fail(case, said.text)
    }
}

fn mpirun(mpi: &Mpi, cluster: &Cluster, place: &Path) -> Process {
    let run = Process::new(mpi.packages[1].0).args(mpi.flags).dir(place).limit(LIMIT_PROGRAM);
    // Open MPI needs a home directory.
    run.env("HOME", &cluster.root)
        .env("BRAID_CONFIG", cluster.config())
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
}

fn through_shim(
    mpi: &Mpi,
    compiler: &Compiler,
    cluster: &Cluster,
    (program, way): (&Program, &str),
    compiled: &Path,
    place: &Path,
) -> Result<ProgramOutput> {
    let run = mpirun(mpi, cluster, place).env("BRAID_MPIIO_COLLECTIVE", way);
    let run = run.args(["-n", &program.ranks.to_string(), "env"]).args(compiler.preload());
    let finished = run
        .args([compiled])
        .args(
            program
                .args(&format!("braid:/{}/file", place.file_name().unwrap_or_default().display())),
        )
        .finish()?;
    Ok(ProgramOutput { success: finished.status.success(), text: finished.output() })
}

/// The ranks see the same path, and one of them on another mount of the cluster; without the shim.
fn on_two_mounts(
    mpi: &Mpi,
    cluster: &Cluster,
    program: &Program,
    compiled: &Path,
) -> Result<SuiteResult> {
    let case = program.case(mpi.name, "two_mounts");
    let second = match cluster.second_mount() {
        Ok(second) => second,
        Err(why) => return Ok(SuiteResult::skip(&case, format!("{why:#}"))),
    };
    let Some(place) = cluster.place(&case)? else {
        return Ok(SuiteResult::skip(&case, cluster::NOT_MOUNTED));
    };
    let name = place.0.join("file").display().to_string();
    let args = program.args(&name);
    let run = mpirun(mpi, cluster, &cluster.root).args(["-n", "1"]).args([compiled]).args(&args);
    let run = run.args([":", "-n", "1"]).args(second).args([compiled]).args(&args);
    let finished = run.finish()?;
    Ok(judge(&case, ProgramOutput { success: finished.status.success(), text: finished.output() }))
}
