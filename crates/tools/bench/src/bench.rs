//! The state that all rows share: options, sizes, the CPU meter, and the daemons after their first
//! use.

use std::{
    cell::{OnceCell, RefCell},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use braid_testbed::cleanup::Cleanup;
use tempfile::TempDir;

use crate::{args::CoreArgs, cpu::CpuMeter, daemons::Cluster, steal::Steal};

/// Cleans up when this program was killed: its daemons died with it; its mount, its files and its
/// control group did not.
const REMOVE: &str = r#"
umount -l "$1/scratch/braid" "$1/scratch/braid_uring"
test -z "$2" || echo $$ >"$2/../cgroup.procs"
for try in $(seq 100); do rm -rf --one-file-system "$1"; test -e "$1" || break; sleep 0.1; done
for try in $(seq 50); do test -d "$2" || break; rmdir "$2"/* "$2"; sleep 0.1; done &
"#;

/// One run.
pub struct Bench {
    /// Samples of each measure.
    pub repetitions: u32,
    /// Whether sizes are smaller.
    pub quick: bool,
    /// Whether TLS is measured too.
    pub tls: bool,
    /// A directory on the same file system as the daemons'.
    pub scratch: PathBuf,
    /// Processor time that the machine's host took from the samples.
    pub steal: Steal,
    /// The requested `mergerfs`, if any.
    pub mergerfs: Option<PathBuf>,
    braid: Option<PathBuf>,
    notes: RefCell<Vec<String>>,
    // Before `dir`: the daemons end before their directories are removed.
    cluster: OnceCell<Cluster>,
    _cleanup: Cleanup,
    dir: TempDir,
    // Last: its group can be removed when no daemon is in it.
    meter: CpuMeter,
}

/// The cost of some work.
#[derive(Clone, Copy, Debug)]
pub struct WorkCost {
    /// Wall-clock time.
    pub time: Duration,
    /// CPU of all processes.
    pub cpu: Duration,
}

impl WorkCost {
    /// CPU-seconds per GiB.
    pub fn cpu_per_gib(&self, bytes: u64) -> f64 {
        self.cpu.as_secs_f64() / (bytes as f64 / f64::from(1 << 30))
    }

    /// Millions of bytes a second.
    pub fn mb_per_second(&self, bytes: u64) -> f64 {
        bytes as f64 / 1e6 / self.time.as_secs_f64()
    }

    /// Operations a second.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.time.as_secs_f64()
    }

    /// CPU microseconds of each operation.
    pub fn cpu_us_each(&self, count: u64) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / count as f64
    }
}

impl Bench {
    /// Starts no daemon yet.
    pub fn new(args: &CoreArgs) -> Result<Self> {
        let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
        let dir = tempfile::Builder::new().prefix("braid-bench-").tempdir_in(&parent);
        let dir = dir.with_context(|| format!("make a directory in {}", parent.display()))?;
        let scratch = dir.path().join("scratch");
        std::fs::create_dir(&scratch)?;
        let meter = CpuMeter::start();
        let group = meter.group_path().map(|path| path.display().to_string()).unwrap_or_default();
        let cleanup = Cleanup::new(REMOVE, &[&dir.path().display().to_string(), &group])?;
        let quick = if args.quick {
            vec!["quick: smaller sizes, for trying; not to be published".to_owned()]
        } else {
            vec![]
        };
        let notes = [meter.describe().to_owned()].into_iter().chain(quick).collect();
        Ok(Self {
            repetitions: args.repetitions.unwrap_or(if args.quick { 3 } else { 5 }),
            quick: args.quick,
            tls: !args.no_tls,
            scratch,
            steal: Steal::new(args.quick),
            meter,
            mergerfs: None,
            braid: args.braid.clone(),
            notes: RefCell::new(notes),
            cluster: OnceCell::new(),
            _cleanup: cleanup,
            dir,
        })
    }

    /// `full`, or `quick` for a trial run.
    pub fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The daemons, started at the first call.
    pub fn cluster(&self) -> Result<&Cluster> {
        if self.cluster.get().is_none() {
            let cluster = Cluster::start(self.dir.path(), self.braid.as_deref())
                .context("start the daemons")?;
            assert!(self.cluster.set(cluster).is_ok(), "there is one thread");
        }
        Ok(self.cluster.get().expect("it was set above"))
    }

    /// The requested `braid`, if any.
    pub fn braid(&self) -> Option<&Path> {
        self.braid.as_deref()
    }

    /// The meter of all processes' CPU time.
    pub fn meter(&self) -> &CpuMeter {
        &self.meter
    }

    /// Time and CPU of `work`.
    pub fn take(&self, work: impl FnOnce() -> Result<()>) -> Result<WorkCost> {
        let (cpu, clock) = (self.meter.now()?, Instant::now());
        work()?;
        let time = clock.elapsed();
        Ok(WorkCost { time, cpu: self.meter.now()?.saturating_sub(cpu) })
    }

    /// Adds a note to the head of the report, once.
    pub fn note(&self, text: impl Into<String>) {
        let text = text.into();
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&text) {
            notes.push(text);
        }
    }

    /// The notes.
    pub fn notes(&self) -> Vec<String> {
        self.notes.borrow().clone()
    }

    /// Runs the variants in turn ([`Steal::in_turn`]).
    pub fn alternate<T>(
        &self,
        variants: &mut [&mut dyn FnMut() -> Result<T>],
    ) -> Result<Vec<Vec<T>>> {
        self.steal.in_turn(self.repetitions, variants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_take_turns() {
        let bench =
            Bench::new(&CoreArgs { quick: true, repetitions: Some(2), ..CoreArgs::default() })
                .unwrap();
        let order = RefCell::new(String::new());
        let say = |letter: char| {
            order.borrow_mut().push(letter);
            Ok(letter)
        };
        let samples = bench.alternate(&mut [&mut || say('A'), &mut || say('B')]).unwrap();
        assert_eq!(*order.borrow(), "ABAB");
        assert_eq!(samples, [['A', 'A'], ['B', 'B']]);
    }

    #[test]
    fn rates_are_per_gib_and_per_million_bytes() {
        let taken = WorkCost { time: Duration::from_secs(2), cpu: Duration::from_secs(1) };
        assert_eq!(taken.cpu_per_gib(2 << 30), 0.5);
        assert_eq!(taken.mb_per_second(4_000_000), 2.0);
        assert_eq!(taken.per_second(10), 5.0);
        assert_eq!(taken.cpu_us_each(1000), 1000.0);
    }
}
