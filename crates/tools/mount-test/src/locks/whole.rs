//! Under a lock of their range, writes over several I/O daemons are atomic to each other.
//! `docs/consistency.md` guarantees that instead of atomic writes without locks.

use std::{fs::File, os::unix::fs::FileExt, path::Path, thread};

use anyhow::{Context, Result, ensure};

use super::calls::{Mode, Space, lock};
use crate::cases::{Outcome, TestDirs};

/// Longer than several stripes of the default size, and several requests of the kernel.
const LENGTH: usize = 3 << 20;
const WRITERS: usize = 4;
/// Turns of each writer.
const TURNS: u64 = 25;
const TURNS_FULL: u64 = 500;

pub(super) fn run(ground: &TestDirs) -> Result<Outcome> {
    let (name, turns) = ("whole", ground.size(TURNS, TURNS_FULL));
    std::fs::write(ground.first().join(name), vec![0; LENGTH])?;
    let writer = |at: usize| {
        let path = ground.dir_of_turn(at).join(name);
        move || (0..turns).try_for_each(|_| turn(&path))
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|at| scope.spawn(writer(at))).collect();
        let ended = writers
            .into_iter()
            .map(|writer| writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?);
        ended.collect::<Result<Vec<()>>>()
    })?;
    let (last, wanted) = (value(&File::open(ground.last().join(name))?)?, turns * WRITERS as u64);
    ensure!(last == wanted, "{wanted} writes, but the last visible one is number {last}");
    Ok(Outcome::Passed(format!("{wanted} writes of {} MiB", LENGTH >> 20)))
}

/// Reads the number in the whole range, and writes the next one everywhere.
fn turn(path: &Path) -> Result<()> {
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .with_context(|| path.display().to_string())?;
    lock(&file, Space::Open, Mode::Alone, true, 0, LENGTH as i64)?;
    let next = value(&file)? + 1;
    file.write_all_at(&next.to_le_bytes().repeat(LENGTH / 8), 0)?;
    Ok(lock(&file, Space::Open, Mode::Unlock, false, 0, LENGTH as i64)?)
}

fn value(file: &File) -> Result<u64> {
    let mut bytes = vec![0; LENGTH];
    file.read_exact_at(&mut bytes, 0)?;
    let mut words =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let first = words.next().unwrap_or_default();
    let torn = words.position(|word| word != first);
    ensure!(torn.is_none(), "a mix of two writes: number {first}, but word {torn:?} differs");
    Ok(first)
}
