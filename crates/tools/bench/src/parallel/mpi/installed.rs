//! The MPIs: installed where we may, the shim and the program compiled for each, and runs of it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use braid_testbed::{programs::need, shell::sh};

use crate::daemons::release_build;

/// Maximum time of one run, in seconds.
const LIMIT_SECONDS: &str = "300";
/// MPICH's MPI_STATUSES_IGNORE is the address 1, which gcc takes for an array of length 0.
const COMPILE: &str = "\"$1\" -std=gnu11 -O2 -Wall -Wextra -Wno-stringop-overflow -o \"$3\" \"$2\"";

/// An MPI, with Debian's names of its commands.
pub struct Mpi {
    /// Its name in measures.
    pub name: &'static str,
    /// Its own MPI-IO.
    pub own: &'static str,
    mpicc: &'static str,
    mpirun: &'static str,
    packages: &'static [&'static str],
    flags: &'static [&'static str],
    /// There are more ranks than processors: ranks that wait yield.
    environment: &'static [(&'static str, &'static str)],
}

/// With ROMIO.
pub const MPICH: Mpi = Mpi {
    name: "mpich",
    own: "romio",
    mpicc: "mpicc.mpich",
    mpirun: "mpiexec.mpich",
    packages: &["mpich", "libmpich-dev"],
    flags: &[],
    environment: &[("MPIR_CVAR_POLLS_BEFORE_YIELD", "1")],
};

/// With OMPIO.
pub const OPEN_MPI: Mpi = Mpi {
    name: "openmpi",
    own: "ompio",
    mpicc: "mpicc.openmpi",
    mpirun: "mpirun.openmpi",
    packages: &["openmpi-bin", "libopenmpi-dev"],
    flags: &[
        "--allow-run-as-root",
        "--oversubscribe",
        "--mca",
        "btl",
        "self,vader",
        "--mca",
        "io",
        "ompio",
    ],
    environment: &[
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ],
};

/// An MPI with the program, and the shim, compiled for it.
pub struct Installed {
    /// The MPI.
    pub mpi: &'static Mpi,
    program: PathBuf,
    shim: PathBuf,
    libraries: PathBuf,
}

/// The times of one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Times {
    /// Bytes of all ranks.
    pub bytes: u64,
    /// Seconds of the slowest rank; 0 without a read.
    pub read: f64,
    /// The same for writing.
    pub write: f64,
}

/// The calls by which a rank moves its part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MpiMethod {
    /// One call of all ranks.
    Collective,
    /// One call, each rank separately.
    Independent,
    /// Calls of 4 MiB, each rank separately; connections are opened before the time measurement.
    Calls,
}

impl MpiMethod {
    fn word(self) -> &'static str {
        match self {
            Self::Collective => "collective",
            Self::Independent => "independent",
            Self::Calls => "calls",
        }
    }
}

/// The host of a run, and its number of ranks.
pub struct TestFile<'a> {
    /// Words before the command, which enter a host.
    pub before: &'a [String],
    /// Variables with which it finds the cluster.
    pub environment: &'a [(&'a str, String)],
    /// Processes.
    pub ranks: usize,
}

/// The parameters of a run.
pub struct MpiRunRequest<'a> {
    /// The file's name for the MPI.
    pub file: &'a str,
    /// One of the program's access patterns.
    pub shape: &'static str,
    /// Size of the whole file.
    pub bytes: u64,
    /// The kind of calls.
    pub how: MpiMethod,
    /// The pattern that the file has, to be read; 0: no read.
    pub read_seed: u64,
    /// The pattern to write afterwards; 0: no write.
    pub write_seed: u64,
    /// `name=value`.
    pub hints: &'static [&'static str],
}

impl Installed {
    /// Installs and compiles what is missing.
    ///
    /// # Errors
    /// When it is missing and cannot be installed.
    pub fn new(mpi: &'static Mpi) -> Result<Self> {
        need(mpi.mpicc, mpi.packages)?;
        need(mpi.mpirun, mpi.packages)?;
        let archive = release_build("braid-capi", "libbraid.a")?;
        let to = archive.with_file_name("bench-mpi");
        let (prefix, shims) = (to.join("prefix"), to.join(mpi.name));
        fs::create_dir_all(&shims)?;
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let bind = here.join("../../bind");
        sh(
            "\"$1\" \"$2\" \"$3\"",
            &[&text(&bind.join("capi/install.sh")), &text(&archive), &text(&prefix)],
        )?;
        let build = text(&bind.join("mpiio/build.sh"));
        sh("\"$1\" \"$2\" \"$3\" \"$4\"", &[&build, mpi.mpicc, &text(&prefix), &text(&shims)])?;
        let program = to.join(format!("share-{}", mpi.name));
        sh(COMPILE, &[mpi.mpicc, &text(&here.join("mpi/share.c")), &text(&program)])?;
        Ok(Self {
            mpi,
            program,
            shim: shims.join("libbraid_mpiio.so"),
            libraries: prefix.join("lib"),
        })
    }

    /// Runs the program: with the shim, or with the MPI's own MPI-IO alone.
    ///
    /// # Errors
    /// When it fails, with its output.
    pub fn run(
        &self,
        place: &TestFile<'_>,
        with_shim: bool,
        ask: &MpiRunRequest<'_>,
    ) -> Result<Times> {
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=10", LIMIT_SECONDS])
            .args(place.before)
            .arg(self.mpi.mpirun)
            .args(self.mpi.flags);
        command.args(["-n", &place.ranks.to_string(), "env"]);
        if with_shim {
            command.arg(format!("LD_PRELOAD={}", self.shim.display()));
            command.arg(format!("LD_LIBRARY_PATH={}", self.libraries.display()));
        }
        command
            .args(place.environment.iter().map(|(name, value)| format!("{name}={value}")))
            .arg(&self.program);
        command.args([ask.file, ask.shape, &ask.bytes.to_string(), ask.how.word()]);
        command.args([ask.read_seed.to_string(), ask.write_seed.to_string()]).args(ask.hints);
        command.envs(self.mpi.environment.iter().copied()).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("running {}", self.mpi.mpirun))?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            bail!("{command:?}: {}: {}{}", output.status, said.trim(), complaint.trim());
        }
        times(&said).with_context(|| format!("{command:?} printed {said}"))
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn times(said: &str) -> Option<Times> {
    let line = said.lines().find(|line| line.starts_with('{'))?;
    let report: serde_json::Value = serde_json::from_str(line).ok()?;
    let seconds = |name: &str| report[name].as_f64();
    Some(Times {
        bytes: report["bytes"].as_u64()?,
        read: seconds("read")?,
        write: seconds("write")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_among_what_an_mpi_says() {
        let said = "[WARNING] something\n{\"bytes\": 4096, \"read\": 0.000000, \"write\": 0.25}\n";
        assert_eq!(times(said), Some(Times { bytes: 4096, read: 0.0, write: 0.25 }));
        assert_eq!(times("nothing\n"), None);
        assert_eq!(times("{\"bytes\": 1}\n"), None);
    }
}
