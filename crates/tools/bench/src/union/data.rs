//! Bytes of cached files.

use std::{
    fs::File,
    io::{Read, Seek, Write},
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use braid_testbed::shell::sh;

use super::{Sample, subject::Subject};
use crate::bench::{Bench, WorkCost};

const MIB: u64 = 1 << 20;
const SMALL_BYTES: usize = 4096;
/// Small calls between two looks at the clock.
const CALLS: u32 = 64;

/// A new file is written, read and overwritten in order, then at random places.
pub fn run(bench: &Bench, subject: &Subject) -> Result<Vec<Sample>> {
    let path = subject.dir().join("big");
    let (bytes, passes) = bench.size((256 * MIB, 2), (64 * MIB, 1));
    let mut file =
        File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    write_all(&mut file, bytes)?;
    file.sync_all()?;
    let read = bench.take(|| (0..passes).try_for_each(|_| read_all(&path, bytes)))?;
    let rewrite = bench.take(|| (0..passes).try_for_each(|_| write_all(&mut file, bytes)))?;
    file.sync_all()?;
    let limit = Duration::from_millis(bench.size(500, 200));
    let mut buffer = vec![0xa5; SMALL_BYTES];
    let random_read = at_random(bytes, limit, |offset| file.read_exact_at(&mut buffer, offset))?;
    let random_write = at_random(bytes, limit, |offset| file.write_all_at(&buffer, offset))?;
    drop(file);
    std::fs::remove_file(&path)?;
    // What was written must not be written back during the next subject's sample.
    sh("sync", &[])?;
    let moved = bytes * passes;
    let rate =
        |what, cost: &WorkCost| Sample { what, unit: "MB/s", value: cost.mb_per_second(moved) };
    let cpu =
        |what, cost: &WorkCost| Sample { what, unit: "CPU s/GiB", value: cost.cpu_per_gib(moved) };
    let calls = |what, value| Sample { what, unit: "per s", value };
    Ok(vec![
        rate("read", &read),
        rate("rewrite", &rewrite),
        calls("random_read", random_read),
        calls("random_write", random_write),
        cpu("read_cpu", &read),
        cpu("rewrite_cpu", &rewrite),
    ])
}

fn write_all(file: &mut File, bytes: u64) -> Result<()> {
    let buffer = vec![0xa5; MIB as usize];
    file.rewind()?;
    for _ in 0..bytes / MIB {
        file.write_all(&buffer)?;
    }
    Ok(())
}

fn read_all(path: &Path, bytes: u64) -> Result<()> {
    let (mut file, mut buffer) = (File::open(path)?, vec![0; MIB as usize]);
    let mut done = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => done += count as u64,
        }
    }
    ensure!(done == bytes, "{} has {done} bytes instead of {bytes}", path.display());
    Ok(())
}

/// Calls a second at random places, of which each is a multiple of the size.
fn at_random(
    bytes: u64,
    limit: Duration,
    mut call: impl FnMut(u64) -> std::io::Result<()>,
) -> Result<f64> {
    let places = bytes / SMALL_BYTES as u64;
    // xorshift64: the same places for each subject.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let (start, mut done) = (Instant::now(), 0.0);
    while start.elapsed() < limit {
        for _ in 0..CALLS {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            call(random % places * SMALL_BYTES as u64)?;
        }
        done += f64::from(CALLS);
    }
    Ok(done / start.elapsed().as_secs_f64())
}
