//! Names: empty files made and closed, asked for, removed; one after the other, by the calls that a program makes.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::{Sample, subject::Subject};
use crate::bench::Bench;

/// Also when only trying: of fewer, one moment in which somebody else has the processor is the result.
const FILES: u64 = 5_000;

/// Samples of one subject.
pub fn run(bench: &Bench, subject: &Subject) -> Result<Vec<Sample>> {
    let dir = subject.dir().join("names");
    fs::create_dir(&dir)?;
    let create = each(bench, &dir, FILES, |path| {
        OpenOptions::new().write(true).create_new(true).open(path).map(drop)
    })?;
    // As C programs ask. The standard library's asks for the birth time too, which a kernel has of nobody before it asked: once for
    // each file of those that know it, and of those that do not it takes no for an answer.
    let stat = each(bench, &dir, FILES, |path| Ok(rustix::fs::lstat(path).map(drop)?))?;
    let unlink = each(bench, &dir, FILES, |path| fs::remove_file(path))?;
    fs::remove_dir(&dir)?;
    let sample = |name, value| Sample { name, unit: "per s", value };
    Ok(vec![
        sample("names.create", create),
        sample("names.stat", stat),
        sample("names.unlink", unlink),
    ])
}

fn each(
    bench: &Bench,
    dir: &Path,
    count: u64,
    call: impl Fn(&Path) -> std::io::Result<()>,
) -> Result<f64> {
    let paths: Vec<PathBuf> = (0..count).map(|at| dir.join(format!("file{at:06}"))).collect();
    let taken = bench.take(|| Ok(paths.iter().try_for_each(|path| call(path))?))?;
    Ok(taken.per_second(count))
}
