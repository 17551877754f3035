//! The MPIs of this machine: the shim is compiled for each, and programs are compiled and run with
//! it.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use braid_testbed::programs::find;
use tempfile::TempDir;

use crate::support::{self, Cluster, ok};

/// An MPI, by the names of its commands in Debian.
pub struct Mpi {
    pub name: &'static str,
    mpicc: &'static str,
    mpifort: &'static str,
    mpirun: &'static str,
    flags: &'static [&'static str],
    pub library: &'static str,
}

pub const MPIS: [Mpi; 2] = [
    Mpi {
        name: "openmpi",
        mpicc: "mpicc.openmpi",
        mpifort: "mpif90.openmpi",
        mpirun: "mpirun.openmpi",
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
        library: "libmpi.so",
    },
    Mpi {
        name: "mpich",
        mpicc: "mpicc.mpich",
        mpifort: "mpif90.mpich",
        mpirun: "mpiexec.mpich",
        flags: &[],
        library: "libmpich.so",
    },
];

/// MPICH's MPI_STATUSES_IGNORE is the address 1, which gcc takes for an array of size 0.
const FLAGS: [&str; 7] =
    ["-std=gnu11", "-g", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-stringop-overflow"];

/// One program at a time: waiting ranks poll, and so take the processors from the daemons.
pub fn alone() -> MutexGuard<'static, ()> {
    static RUNS: Mutex<()> = Mutex::new(());
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints the reason if no MPI is installed and nothing was tested.
pub fn need_one(ran: usize) {
    if ran == 0 {
        println!(
            "skipped: neither Open MPI nor MPICH is installed; try: apt-get install openmpi-bin \
             libopenmpi-dev mpich libmpich-dev"
        );
    }
}

fn scratch() -> &'static Path {
    static SCRATCH: OnceLock<TempDir> = OnceLock::new();
    SCRATCH.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

impl Mpi {
    /// The MPI, if it is installed.
    pub fn find(&self) -> Option<&Self> {
        (find(self.mpicc).is_some() && find(self.mpirun).is_some()).then_some(self)
    }

    /// The shim for this MPI.
    pub fn shim(&self) -> PathBuf {
        let dir = scratch().join(self.name);
        self.once("shim", || {
            let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.sh");
            ok(Command::new(build).arg(self.mpicc).arg(support::installed()).arg(&dir));
        });
        scratch().join(self.name).join("libbraid_mpiio.so")
    }

    /// A program of `tests/c`, linked with the shim before the MPI. `NAME-large`: with its large
    /// sizes.
    pub fn compile(&self, name: &str) -> PathBuf {
        let (shim, program) = (self.shim(), scratch().join(format!("{name}-{}", self.name)));
        self.once(name, || {
            let small = name.strip_suffix("-large");
            let source = small.unwrap_or(name);
            let source =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(format!("{source}.c"));
            let mut compile = Command::new(self.mpicc);
            compile.args(small.map(|_| "-DLARGE")).args(FLAGS).arg("-o").arg(&program).arg(source);
            compile
                .arg("-Wl,--no-as-needed")
                .arg(&shim)
                .arg("-L")
                .arg(support::installed().join("lib"));
            compile.arg("-lbraid").arg(format!("-Wl,-rpath,{}", shim.parent().unwrap().display()));
            ok(&mut compile);
        });
        program
    }

    /// The same without the shim: an unprepared program.
    pub fn compile_plain(&self, name: &str) -> PathBuf {
        let program = scratch().join(format!("{name}-plain-{}", self.name));
        self.once(&format!("{name}-plain"), || {
            let source =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(format!("{name}.c"));
            ok(Command::new(self.mpicc).args(FLAGS).arg("-o").arg(&program).arg(source));
        });
        program
    }

    /// Whether the MPI has a Fortran compiler.
    pub fn has_fortran(&self) -> bool {
        find(self.mpifort).is_some() && find("gfortran").is_some()
    }

    /// `tests/fortran/calls.F90` with one of the three bindings, linked with the shim before the
    /// MPI.
    pub fn compile_fortran(&self, binding: &str) -> PathBuf {
        let (shim, program) =
            (self.shim(), scratch().join(format!("fortran-{binding}-{}", self.name)));
        self.once(&format!("fortran {binding}"), || {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fortran/calls.F90");
            let modules = tempfile::tempdir().unwrap();
            let mut compile = Command::new(self.mpifort);
            compile
                .arg(format!("-DBINDING={binding}"))
                .args(["-g", "-ffree-line-length-none", "-J"])
                .arg(modules.path());
            compile.arg("-o").arg(&program).arg(source).arg("-Wl,--no-as-needed").arg(&shim);
            compile.arg("-L").arg(support::installed().join("lib")).arg("-lbraid");
            compile.arg(format!("-Wl,-rpath,{}", shim.parent().unwrap().display()));
            ok(&mut compile);
        });
        program
    }

    /// Runs a program on this many ranks; it must succeed. Returns its output.
    pub fn run(&self, cluster: &Cluster, name: &str, ranks: u32, args: &[&str]) -> String {
        let program = self.compile(name);
        ok(self.command(cluster, ranks).arg(program).args(args))
    }

    /// The command that runs a program on this many ranks.
    pub fn command(&self, cluster: &Cluster, ranks: u32) -> Command {
        let mut command = cluster.program(Path::new("timeout"));
        command
            .args(["-k", "5", "120", self.mpirun])
            .args(self.flags)
            .args(["-n", &ranks.to_string()]);
        // Open MPI needs a home directory.
        command.env("HOME", cluster.dir.path()).env("OMPI_MCA_rmaps_base_oversubscribe", "1");
        // MPICH's process manager ends when an unknown client connects to it. Clients of stopped
        // clusters, of other tests, try ports of the system's ephemeral range. So it listens below
        // that range, and not where another process manager starts to search at the same time.
        let first = 10_000 + std::process::id() % 200 * 100;
        command.env("MPIEXEC_PORT_RANGE", format!("{first}:{}", first + 99));
        command
    }

    /// Once in this process, for the first test that needs it.
    fn once(&self, what: &str, work: impl FnOnce()) {
        static DONE: Mutex<Option<HashSet<String>>> = Mutex::new(None);
        let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        let done = done.get_or_insert_with(HashSet::new);
        let key = format!("{what} {}", self.name);
        if !done.contains(&key) {
            work();
            done.insert(key);
        }
    }
}
