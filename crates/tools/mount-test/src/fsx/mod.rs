//! Random operations on one file, through one path or several, compared with an image in memory.
//!
//! ```text
//!   seed ──► operation ──► check ──┬──► subject 0 (path A)  ┐
//!                                  ├──► subject 1 (path B)  ├ the same file
//!                                  └──► image               ┘
//! ```
//!
//! Invariants:
//!
//! 1. The seed alone decides the operations.
//! 2. One operation runs at a time, and the next one sees its result through any path (the rule of
//!    docs/consistency.md). Exception: a write through a mapping is synced before another path
//!    reads, or before a server is asked where data is.
//! 3. No written byte is zero, so that a hole in its place shows.
//!
//! No assertion checks these: one generator makes the operations (1), one loop runs them (2), and
//! the bytes of a write come from one function (3).

mod aligned;
mod check;
mod image;
mod operation;
mod spread;
mod subject;

use std::{
    collections::{BTreeMap, VecDeque},
    fs::OpenOptions,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use braid_types::Random;
use clap::Args;

use self::{
    check::Mismatch,
    image::Image,
    operation::{Limits, Operation},
    subject::Subject,
};

/// Number of operations between two comparisons of the whole file through every path.
const WHOLE_EVERY: u64 = 2_000;
/// Number of operations in the report of a failure.
const SHOWN: usize = 24;
/// Number of kinds of operations in the report of times.
const DEAREST: usize = 6;

/// `braid-mount-test fsx`.
#[derive(Args, Clone, Debug)]
pub struct FsxArgs {
    /// A directory of the file system; several are the same directory through several mounts
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// The seed of the operations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The number of operations
    #[arg(long, default_value_t = 200_000, value_name = "N")]
    pub ops: u64,
    /// Maximum length of the file, in bytes
    #[arg(long, default_value_t = 256 << 10, value_name = "BYTES")]
    pub length: u64,
    /// Maximum range of one operation, in bytes
    #[arg(long, default_value_t = 64 << 10, value_name = "BYTES")]
    pub range: u64,
    /// Leave out operations with this in their names, such as `mapped` or `O_DIRECT`
    #[arg(long, value_name = "WORD")]
    pub without: Vec<String>,
    /// Print each operation before it runs
    #[arg(long)]
    pub verbose: bool,
    /// Corrupt a byte before this operation, to test that the exerciser detects it
    #[arg(long, value_name = "N")]
    pub plant: Option<u64>,
}

impl FsxArgs {
    /// The default sizes.
    pub fn of(dirs: Vec<PathBuf>, seed: u64, ops: u64) -> Self {
        Self {
            dirs,
            seed,
            ops,
            length: 256 << 10,
            range: 64 << 10,
            without: vec![],
            verbose: false,
            plant: None,
        }
    }
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct FsxSummary {
    daemons: Option<usize>,
    counts: BTreeMap<&'static str, u64>,
    refused: BTreeMap<&'static str, u64>,
    times: BTreeMap<&'static str, Duration>,
}

impl FsxSummary {
    /// The number of I/O daemons that hold the file; `None` on other file systems.
    pub fn daemons(&self) -> Option<usize> {
        self.daemons
    }

    /// Operations that the file system does not support, and how often they were tried.
    pub fn refused(&self) -> String {
        table(&self.refused)
    }

    /// How often each operation ran.
    pub fn counts(&self) -> String {
        table(&self.counts)
    }

    /// The operations that took most of the time, and the time of each.
    pub fn dearest(&self) -> String {
        let mut times: Vec<_> = self.times.iter().collect();
        times.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
        let all: Duration = times.iter().map(|(_, time)| **time).sum();
        let word = |(word, time): &(&&str, &Duration)| {
            let each =
                time.as_micros() / u128::from(self.counts.get(**word).copied().unwrap_or(1).max(1));
            format!(
                "{word} {:.0} % ({each} us each)",
                100.0 * time.as_secs_f64() / all.as_secs_f64()
            )
        };
        times.iter().take(DEAREST).map(word).collect::<Vec<_>>().join(", ")
    }
}

fn table(counts: &BTreeMap<&str, u64>) -> String {
    counts.iter().map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", ")
}

/// Runs all operations, or stops at the first failure.
pub fn run(args: &FsxArgs) -> Result<FsxSummary> {
    ensure!(
        args.length >= args.range && args.range >= 1 << 12,
        "--length must be >= --range, and that >= 4096"
    );
    let mut exerciser = Exerciser::new(args)?;
    let outcome =
        (0..args.ops).try_for_each(|_| exerciser.step()).and_then(|()| exerciser.look_everywhere());
    outcome.with_context(|| {
        format!("fsx --seed {} --length {} --range {}", args.seed, args.length, args.range)
    })?;
    std::fs::remove_file(&exerciser.paths[0])?;
    Ok(exerciser.done)
}

struct Exerciser<'a> {
    args: &'a FsxArgs,
    paths: Vec<PathBuf>,
    subjects: Vec<Subject>,
    image: Image,
    random: Random,
    number: u64,
    last: VecDeque<String>,
    done: FsxSummary,
}

impl<'a> Exerciser<'a> {
    fn new(args: &'a FsxArgs) -> Result<Self> {
        let name = format!("fsx-{}", args.seed);
        let paths: Vec<PathBuf> = args.dirs.iter().map(|dir| dir.join(&name)).collect();
        spread::prepare(&args.dirs[0])?;
        // A file of an earlier run has the layout of that run.
        if paths[0].exists() {
            std::fs::remove_file(&paths[0])?;
        }
        OpenOptions::new().write(true).create_new(true).open(&paths[0])?;
        let done = FsxSummary { daemons: spread::daemons(&paths[0])?, ..FsxSummary::default() };
        let subjects: std::io::Result<_> =
            paths.iter().map(|path| Subject::open(path.clone(), args.length)).collect();
        let subjects = subjects.with_context(|| format!("open {name} through every path"))?;
        let (image, random) = (Image::new(args.length), Random::new(args.seed));
        Ok(Self { args, paths, subjects, image, random, number: 0, last: VecDeque::new(), done })
    }

    fn step(&mut self) -> Result<()> {
        self.number += 1;
        if self.args.plant == Some(self.number) {
            self.plant()?;
        }
        let limits = Limits {
            file: self.args.length,
            operation: self.args.range,
            paths: self.subjects.len(),
        };
        let at = self.random.below(self.subjects.len() as u64) as usize;
        let operation = operation::draw(&mut self.random, &limits, self.image.length());
        if self.args.without.iter().any(|word| operation.word().contains(word.as_str())) {
            return Ok(());
        }
        self.note(at, &operation);
        let outcome = self.settle_others(at).and_then(|()| self.perform(at, &operation));
        outcome.map_err(|wrong| self.report(at, &wrong))?;
        if self.number.is_multiple_of(WHOLE_EVERY) { self.look_everywhere() } else { Ok(()) }
    }

    fn note(&mut self, at: usize, operation: &Operation) {
        let line = format!(
            "{:>8}  path {at}  length {:>8}  {operation:?}",
            self.number,
            self.image.length()
        );
        if self.args.verbose {
            println!("{line}");
        }
        self.last.push_back(line);
        if self.last.len() > SHOWN {
            self.last.pop_front();
        }
    }

    fn settle_others(&mut self, at: usize) -> Result<(), Mismatch> {
        let others = self.subjects.iter_mut().enumerate().filter(|(other, _)| *other != at);
        Ok(others.map(|(_, subject)| subject).try_for_each(Subject::settle)?)
    }

    fn perform(&mut self, at: usize, operation: &Operation) -> Result<(), Mismatch> {
        match operation {
            // The other path takes part too.
            Operation::CopyRange { .. } => {
                self.subjects.iter_mut().try_for_each(Subject::settle)?;
                self.tell_the_kernel_the_length(at)?;
            }
            Operation::ReadMapped { .. } | Operation::WriteMapped { .. } => {
                self.tell_the_kernel_the_length(at)?
            }
            _ => {}
        }
        let started = Instant::now();
        let outcome =
            check::perform(&mut self.subjects, at, &mut self.image, self.number, operation);
        *self.done.times.entry(operation.word()).or_default() += started.elapsed();
        match outcome {
            Err(Mismatch::Failed(error)) if subject::is_refusal(&error) => {
                *self.done.refused.entry(operation.word()).or_default() += 1;
                Ok(())
            }
            outcome => {
                *self.done.counts.entry(operation.word()).or_default() += 1;
                outcome
            }
        }
    }

    /// Linux does not ask for a file's length before it copies a range or maps a page: it uses the
    /// length that it knows. A program that needs the current length must query it before
    /// (docs/consistency.md).
    fn tell_the_kernel_the_length(&self, at: usize) -> Result<(), Mismatch> {
        if self.subjects.len() > 1 {
            self.subjects[at].length()?;
        }
        Ok(())
    }

    fn look_everywhere(&mut self) -> Result<()> {
        for at in 0..self.subjects.len() {
            let settled = self.settle_others(at);
            let outcome = settled.and_then(|()| check::whole(&self.subjects[at], &self.image));
            outcome.map_err(|wrong| self.report(at, &wrong).context("compare the whole file"))?;
        }
        Ok(())
    }

    fn report(&self, at: usize, wrong: &Mismatch) -> anyhow::Error {
        let last: Vec<&str> = self.last.iter().map(String::as_str).collect();
        let path = self.paths[at].display();
        anyhow::anyhow!(
            "operation {} by {path}: {wrong}\nthe last operations:\n{}",
            self.number,
            last.join("\n")
        )
    }

    /// Simulates a file system that corrupts a byte.
    fn plant(&self) -> Result<()> {
        use std::os::unix::fs::FileExt;
        let file = OpenOptions::new().read(true).write(true).open(&self.paths[0])?;
        let mut byte = [0];
        if file.read_at(&mut byte, self.image.length() / 2)? == 0 {
            bail!("--plant: the file is empty there; try another number");
        }
        Ok(file.write_all_at(&[!byte[0]], self.image.length() / 2)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn args(dirs: &[&Path], ops: u64) -> FsxArgs {
        FsxArgs::of(dirs.iter().map(|dir| dir.to_path_buf()).collect(), 1, ops)
    }

    #[test]
    fn a_local_file_system_passes_by_one_path_and_by_two() {
        let dir = tempfile::tempdir().unwrap();
        run(&args(&[dir.path()], 2_000)).unwrap();
        run(&args(&[dir.path(), dir.path()], 2_000)).unwrap();
    }

    #[test]
    fn a_byte_that_changes_by_itself_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let error = run(&FsxArgs { plant: Some(2_000), ..args(&[dir.path()], 2_000) }).unwrap_err();
        assert!(format!("{error:#}").contains("1 bytes differ"), "{error:#}");
    }

    #[test]
    fn two_mounts_that_do_not_see_each_others_writes_are_found_at_once() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(other.path().join("fsx-1"), b"").unwrap();
        let error = run(&args(&[one.path(), other.path()], 200)).unwrap_err();
        assert!(format!("{error:#}").contains("the last operations"), "{error:#}");
    }

    #[test]
    fn the_seed_alone_decides_the_operations() {
        let dir = tempfile::tempdir().unwrap();
        let counts = || run(&args(&[dir.path()], 300)).unwrap().counts();
        assert_eq!(counts(), counts());
    }
}
