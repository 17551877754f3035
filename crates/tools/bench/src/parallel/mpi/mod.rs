//! The same over MPI-IO: an unmodified program with the shim, and with the MPI's own MPI-IO on the
//! mount.
//!
//! ```text
//!   repetitions ─► subjects in turn on one file: shim and MPICH, ROMIO, shim and Open MPI, OMPIO
//!                    └── a run of 4 processes: read and check the run before; write
//! ```
//!
//! Invariants:
//!
//! 1. Every subject runs the same program with the same settings of its MPI.
//! 2. Each run reads and checks what another subject wrote.
//! 3. Reads on the mount find a cold client cache, and writes find what was just read.
//! 4. A write is over when the call returns, without waiting for a disk: bytes that a mount still
//!    buffers are its advantage.
//!
//! The program that the subjects run compares every byte (2). The others are the steps of a run.

pub mod installed;

use anyhow::{Context, Result, ensure};
use braid_client::{OpenOptions, TlsPolicy};
use braid_testbed::{shell::sh, stats::Summary};

use self::installed::{Installed, MPICH, Mpi, MpiMethod, MpiRunRequest, OPEN_MPI, TestFile, Times};
use super::{
    mounted::Mounted,
    tasks::{TASKS, Tasks, together},
};
use crate::{bench::Bench, measure::Measure};

/// The issue's target of MPI-IO compared with the library.
const OF_LIBRARY: f64 = 0.95;
/// Its target of interleaved extents compared with the MPI's own MPI-IO.
const OF_OWN: f64 = 3.0;

/// One access pattern.
struct Shape {
    /// Its name in measures.
    name: &'static str,
    /// The program's argument.
    shape: &'static str,
    is_collective: bool,
    /// The factor over the MPI's own MPI-IO.
    factor: f64,
    /// Hints for the MPI's own MPI-IO.
    hints: &'static [&'static str],
}

const STRIDED: Shape = Shape {
    name: "mpi_strided",
    shape: "in_turn",
    is_collective: false,
    factor: OF_OWN,
    hints: &["romio_ds_read=enable", "romio_ds_write=enable"],
};

const COLLECTIVE: [Shape; 6] = [
    collective("mpi_collective.in_turn", "in_turn", OF_OWN),
    collective("mpi_collective.contiguous", "contiguous", 1.0),
    collective("mpi_collective.tiles", "tiles", 1.0),
    collective("mpi_collective.block_cyclic", "block_cyclic", 1.0),
    collective("mpi_collective.one_rank", "one_rank", 1.0),
    collective("mpi_collective.same_bytes", "same_bytes", 1.0),
];

const fn collective(name: &'static str, shape: &'static str, factor: f64) -> Shape {
    Shape { name, shape, is_collective: true, factor, hints: &[] }
}

/// `mpi_contiguous`: 64 MiB of each rank in one call, compared with the library.
pub fn contiguous(bench: &Bench) -> Result<Vec<Measure>> {
    let mpis = install(bench, &[&MPICH, &OPEN_MPI])?;
    let shape = Shape {
        name: "mpi_contiguous",
        shape: "contiguous",
        is_collective: false,
        factor: OF_LIBRARY,
        hints: &[],
    };
    let mut file = SharedFile::new(bench, &shape)?;
    let Some(first) = mpis.first() else { return Ok(Vec::new()) };
    file.run(first, None)?;
    let mut buffers = vec![vec![1; file.bytes as usize / TASKS]; TASKS];
    let mut samples: Vec<Vec<Times>> = vec![Vec::new(); mpis.len() + 1];
    for _ in 0..bench.repetitions {
        sh("sync", &[])?;
        samples[0].push(by_library(bench, &file.path, &mut buffers)?);
        for (mpi, taken) in mpis.iter().zip(&mut samples[1..]) {
            sh("sync", &[])?;
            taken.push(file.run(mpi, None)?);
        }
    }
    let mut measures = Vec::new();
    for what in WAYS {
        let library = rate(format!("{}.{what}.library", shape.name), what, &samples[0]);
        let bar = library.plain.summary.median;
        measures.push(library);
        for (mpi, taken) in mpis.iter().zip(&samples[1..]) {
            let ours = rate(format!("{}.{what}.shim_{}", shape.name, mpi.mpi.name), what, taken);
            measures.push(
                ours.at_least(OF_LIBRARY * bar, format!("{OF_LIBRARY} x the library, {bar:.0}")),
            );
        }
    }
    file.remove()?;
    Ok(measures)
}

/// `mpi_strided`: 4 KiB of every 16 KiB, each rank separately, compared with ROMIO's data sieving.
pub fn strided(bench: &Bench) -> Result<Vec<Measure>> {
    let mpis = install(bench, &[&MPICH])?;
    let Some(mounted) = Mounted::start(bench)? else { return Ok(Vec::new()) };
    against_own(bench, &mpis, &mounted, &STRIDED)
}

/// `mpi_collective`: calls of all ranks, compared with ROMIO's and OMPIO's two-phase I/O.
pub fn collectives(bench: &Bench) -> Result<Vec<Measure>> {
    let mpis = install(bench, &[&MPICH, &OPEN_MPI])?;
    let Some(mounted) = Mounted::start(bench)? else { return Ok(Vec::new()) };
    let mut measures = Vec::new();
    for shape in &COLLECTIVE {
        measures.extend(against_own(bench, &mpis, &mounted, shape)?);
    }
    Ok(measures)
}

/// Those that are installed or can be; a note reports the others.
fn install(bench: &Bench, wanted: &[&'static Mpi]) -> Result<Vec<Installed>> {
    bench.cluster()?;
    let mut found = Vec::new();
    for mpi in wanted {
        match Installed::new(mpi) {
            Ok(installed) => found.push(installed),
            Err(error) => bench.note(format!("no rows of {}: {error:#}", mpi.name)),
        }
    }
    bench.note(
        "MPI: ranks that wait yield, in all subjects (MPIR_CVAR_POLLS_BEFORE_YIELD=1, \
        mpi_yield_when_idle 1)",
    );
    Ok(found)
}

/// Each MPI with the shim and without it.
fn against_own(
    bench: &Bench,
    mpis: &[Installed],
    mounted: &Mounted,
    shape: &Shape,
) -> Result<Vec<Measure>> {
    let mut file = SharedFile::new(bench, shape)?;
    let Some(first) = mpis.first() else { return Ok(Vec::new()) };
    file.run(first, None)?;
    let mut samples: Vec<[Vec<Times>; 2]> = mpis.iter().map(|_| Default::default()).collect();
    for _ in 0..bench.repetitions {
        for (mpi, [ours, own]) in mpis.iter().zip(&mut samples) {
            sh("sync", &[])?;
            ours.push(file.run(mpi, None)?);
            mounted.cold()?;
            own.push(file.run(mpi, Some(mounted))?);
        }
    }
    let mut measures = Vec::new();
    for what in WAYS {
        for (mpi, [ours, own]) in mpis.iter().zip(&samples) {
            let own = rate(format!("{}.{what}.{}", shape.name, mpi.mpi.own), what, own);
            let ours = rate(format!("{}.{what}.shim_{}", shape.name, mpi.mpi.name), what, ours);
            let bar = own.plain.summary.median;
            let reason = format!("{} x {} on the mount, {bar:.0}", shape.factor, mpi.mpi.own);
            measures.extend([own, ours.at_least(shape.factor * bar, reason)]);
        }
    }
    file.remove()?;
    Ok(measures)
}

/// The directions of a run.
const WAYS: [&str; 2] = ["read", "write"];

fn rate(name: String, what: &str, taken: &[Times]) -> Measure {
    let seconds = |times: &Times| if what == "read" { times.read } else { times.write };
    let rates = taken.iter().map(|times| times.bytes as f64 / 1e6 / seconds(times));
    Measure::new(name, "MB/s", Summary::of(rates).expect("there is a sample"))
}

/// The file of an access pattern, and the pattern last written to it.
struct SharedFile<'b> {
    bench: &'b Bench,
    shape: &'b Shape,
    path: String,
    bytes: u64,
    seed: u64,
}

impl<'b> SharedFile<'b> {
    fn new(bench: &'b Bench, shape: &'b Shape) -> Result<Self> {
        let bytes = bench.size(256_u64 << 20, 16 << 20);
        Ok(Self { bench, shape, path: format!("/parallel-{}", shape.name), bytes, seed: 0 })
    }

    /// Reads the content, if there is one, and writes a new one: with the shim, or by the MPI's own
    /// MPI-IO on a mount.
    fn run(&mut self, mpi: &Installed, mounted: Option<&Mounted>) -> Result<Times> {
        let file = match mounted {
            Some(mounted) => mounted.path(&self.path).display().to_string(),
            None => format!("braid:{}", self.path),
        };
        let ask = MpiRunRequest {
            file: &file,
            shape: self.shape.shape,
            bytes: self.bytes,
            how: if self.shape.is_collective {
                MpiMethod::Collective
            } else {
                MpiMethod::Independent
            },
            read_seed: self.seed,
            write_seed: self.seed + 1,
            hints: if mounted.is_some() { self.shape.hints } else { &[] },
        };
        let cluster = self.bench.cluster()?;
        let key = cluster.key.display().to_string();
        let environment = [("BRAID_MDS", cluster.mds_address.clone()), ("BRAID_KEY", key)];
        let place = TestFile { before: &[], environment: &environment, ranks: TASKS };
        let times = mpi.run(&place, mounted.is_none(), &ask).context(self.shape.name)?;
        ensure!(
            times.write > 0.0 && (self.seed == 0 || times.read > 0.0),
            "{}: nothing was measured",
            self.shape.name
        );
        self.seed += 1;
        Ok(times)
    }

    fn remove(&self) -> Result<()> {
        Ok(self.bench.cluster()?.client(TlsPolicy::default())?.unlink(&self.path)?)
    }
}

/// The same bytes by the library: threads with a new client each, like the ranks.
fn by_library(bench: &Bench, path: &str, buffers: &mut [Vec<u8>]) -> Result<Times> {
    let tasks = Tasks::open(bench, path, &OpenOptions::new().read(true).write(true))?;
    let bytes: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
    let read = together(bench, buffers, |rank, buffer| {
        let at = rank * buffer.len();
        let read = tasks.files()[rank].read_at(buffer, at as u64)?;
        ensure!(read == buffer.len(), "only {read} bytes were read");
        Ok(())
    })?;
    // Writes what was read: the next run finds the content of the run before.
    let write = together(bench, buffers, |rank, buffer| {
        tasks.files()[rank].write_at(buffer, (rank * buffer.len()) as u64)?;
        Ok(())
    })?;
    Ok(Times { bytes, read: read.time.as_secs_f64(), write: write.time.as_secs_f64() })
}
