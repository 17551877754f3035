//! One task of the hard loads, where IOR and mdtest are not installed: the same calls.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
};

use anyhow::{Context, Result};

use super::process::{ready, report};
use crate::args::{HardArgs, HardPhase};

/// Number of tasks that share the file or the directory.
pub const TASKS: u64 = 2;
/// IO500's record of `ior-hard`: a multiple of no page and no stripe.
pub const RECORD_BYTES: u64 = 47_008;
/// IO500's file of `mdtest-hard`.
pub const FILE_BYTES: u64 = 3_901;

/// Prints `ready`, waits for a line, runs, and prints the number of records or files.
pub fn run(args: &HardArgs) -> Result<()> {
    ready()?;
    work(args)?;
    report(args.count)
}

/// Runs the operation.
pub fn work(args: &HardArgs) -> Result<()> {
    let failed = || format!("task {} on {}", args.rank, args.path.display());
    match args.phase {
        HardPhase::WriteRecords => write_records(args),
        HardPhase::ReadRecords => read_records(args),
        HardPhase::Create => each(args, args.rank, create),
        HardPhase::Stat => each(args, other(args), |path| Ok(rustix::fs::stat(path).map(drop)?)),
        HardPhase::Read => each(args, other(args), read),
        HardPhase::Remove => each(args, args.rank, |path| Ok(fs::remove_file(path)?)),
    }
    .with_context(failed)
}

/// The task whose files and records this one reads, as IOR with `-C` and mdtest with `-N 1`.
fn other(args: &HardArgs) -> u64 {
    (args.rank + 1) % TASKS
}

/// The offsets of a task's records: in turn with those of the others.
fn records(rank: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |number| (number * TASKS + rank) * RECORD_BYTES)
}

/// Synced before the close, as IOR with `-e`.
fn write_records(args: &HardArgs) -> Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&args.path)?;
    let record = vec![args.rank as u8 + 1; RECORD_BYTES as usize];
    records(args.rank, args.count).try_for_each(|at| file.write_all_at(&record, at))?;
    Ok(file.sync_all()?)
}

fn read_records(args: &HardArgs) -> Result<()> {
    let file = File::open(&args.path)?;
    let mut record = vec![0; RECORD_BYTES as usize];
    Ok(records(other(args), args.count).try_for_each(|at| file.read_exact_at(&mut record, at))?)
}

fn each(args: &HardArgs, rank: u64, call: impl Fn(&PathBuf) -> Result<()>) -> Result<()> {
    (0..args.count).try_for_each(|number| call(&args.path.join(format!("file.{rank}.{number}"))))
}

fn create(path: &PathBuf) -> Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    Ok(file.write_all(&[7; FILE_BYTES as usize])?)
}

fn read(path: &PathBuf) -> Result<()> {
    let mut bytes = [0; FILE_BYTES as usize];
    Ok(File::open(path)?.read_exact(&mut bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_records_of_all_tasks_fill_the_file_without_a_gap() {
        let mut all: Vec<u64> = (0..TASKS).flat_map(|rank| records(rank, 3)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..3 * TASKS).map(|at| at * RECORD_BYTES).collect::<Vec<_>>());
    }
}
