//! Names: empty files are created and closed, looked up, removed; one after the other, by the calls
//! of a program.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::{Sample, subject::Subject};
use crate::bench::Bench;

/// The same with `--quick`: with fewer files one interruption by other work would be the result.
const FILES: u64 = 5_000;

/// Samples of one subject.
pub fn run(bench: &Bench, subject: &Subject) -> Result<Vec<Sample>> {
    let dir = subject.dir().join("names");
    fs::create_dir(&dir)?;
    let create = each(bench, &dir, FILES, |path| {
        OpenOptions::new().write(true).create_new(true).open(path).map(drop)
    })?;
    // As C programs do. The standard library also requests the birth time, which a kernel does not
    // cache before its first request: one more request for each file on systems that support it. On
    // others the first refusal is remembered.
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
