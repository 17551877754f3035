//! The loads of every subject.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, ensure};

use super::subject::Subject;
use crate::{
    mount::data::random_read,
    papers::tasks::{CALL_BYTES, Direction},
};

/// Size of each small file.
const SMALL_BYTES: usize = 4096;
const FILE: &str = "file";

/// Creates the file that is written and read.
pub fn fill(subject: &Subject, bytes: u64) -> Result<()> {
    dd(subject, bytes, Direction::Write).map(drop)
}

/// `dd` with calls of 4 MiB, and `fsync` after writing: MB/s.
pub fn dd(subject: &Subject, bytes: u64, way: Direction) -> Result<f64> {
    let file = subject.path(FILE);
    let (from, to, flags) = match way {
        Direction::Write => ("/dev/zero", file.as_str(), "conv=notrunc,fsync"),
        Direction::Read => (file.as_str(), "/dev/null", "conv=notrunc"),
    };
    let (count, block) = (format!("count={}", bytes / CALL_BYTES), format!("bs={CALL_BYTES}"));
    let start = Instant::now();
    let output = Command::new("dd")
        .args([&format!("if={from}"), &format!("of={to}"), &block, &count, flags, "status=none"])
        .output()
        .context("running dd")?;
    let time = start.elapsed().as_secs_f64();
    ensure!(output.status.success(), "dd: {}", String::from_utf8_lossy(&output.stderr).trim());
    ensure!(fs::metadata(&file)?.len() == bytes, "{file} has another length than what was written");
    Ok(bytes as f64 / 1e6 / time)
}

/// One `fio` job that reads 4 KiB at random offsets past the client's cache: mean and 99th
/// percentile, in microseconds.
pub fn random(subject: &Subject, seconds: u32) -> Result<[(&'static str, f64); 2]> {
    let file = subject.path(FILE);
    let (mean, p99) = random_read(&file, fs::metadata(&file)?.len() >> 20, seconds)?;
    Ok([("mean", mean), ("p99", p99)])
}

/// Creates, looks up and removes `count` small files, one after the other: each per second.
pub fn names(subject: &Subject, count: u32) -> Result<[(&'static str, f64); 3]> {
    let dir = PathBuf::from(subject.path("names"));
    fs::create_dir(&dir)?;
    let contents = [0x5a; SMALL_BYTES];
    let create = each(&dir, count, |path| {
        OpenOptions::new().write(true).create_new(true).open(path)?.write_all(&contents)
    })?;
    let stat = each(&dir, count, |path| {
        let size = rustix::fs::lstat(path)?.st_size;
        if size == SMALL_BYTES as i64 {
            Ok(())
        } else {
            Err(std::io::Error::other(format!("a size of {size}")))
        }
    })?;
    let unlink = each(&dir, count, |path| fs::remove_file(path))?;
    fs::remove_dir(&dir)?;
    Ok([("create", create), ("stat", stat), ("unlink", unlink)])
}

fn each(dir: &Path, count: u32, call: impl Fn(&Path) -> std::io::Result<()>) -> Result<f64> {
    let paths: Vec<PathBuf> = (0..count).map(|at| dir.join(format!("file{at:06}"))).collect();
    let start = Instant::now();
    paths.iter().try_for_each(|path| call(path).with_context(|| path.display().to_string()))?;
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}
