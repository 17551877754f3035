//! Files of 1 KiB to 1 TiB: written whole up to 256 MiB, sparse at every size.

use anyhow::{Result, ensure};
use braid_client::{Client, OpenOptions};

use super::{
    Growth, Plan,
    series::{Point, Series, Unit},
    stage::{Amount, Stage},
};
use crate::daemons::IODS;

/// Bytes of one call.
const CALL_BYTES: u64 = 4 << 20;
/// Maximum size of a file that is written completely.
const WHOLE_BYTES_MAX: u64 = 256 << 20;
/// Minimum size of a sample, and maximum number of its files.
const SAMPLE_BYTES: u64 = 256 << 20;
const FILES_MAX: u64 = 1000;
/// Size of a read or write at an offset of a sparse file; a smaller file is read completely.
const PIECE_BYTES: u64 = 4096;
/// Operations of a sample.
const OPERATIONS: u64 = 10_000;
/// Operations that involve two servers and all daemons.
const CHANGES: u64 = 300;

pub const PLAN: Plan = Plan {
    name: "file_sizes",
    about: "a file's bytes, dense to 256 MiB and sparse to 1 TiB: write, read, stat, a piece \
        somewhere, truncate, remove",
    size: "bytes",
    sizes: &[
        1 << 10,
        16 << 10,
        256 << 10,
        4 << 20,
        64 << 20,
        256 << 20,
        4 << 30,
        64 << 30,
        1 << 40,
    ],
    quick: &[1 << 10, 4 << 20, 1 << 40],
    run,
};

fn run(growth: &Growth, sizes: &[u64]) -> Result<Vec<Series>> {
    let mut whole =
        Series::flat("whole_file", "made, written, closed, opened, read, removed", Unit::Gib);
    let mut stat = Series::flat("stat", "of a sparse file by path", Unit::Each);
    let mut read = Series::flat("read_piece", "4 KiB somewhere in its hole", Unit::Each);
    let mut write = Series::flat("write_piece", "4 KiB somewhere in it", Unit::Each);
    let mut truncate = Series::flat("truncate", "cut to half and made long again", Unit::Each);
    let mut remove = Series::flat(
        "remove",
        "made, made long, a byte written at its end, closed, removed",
        Unit::Each,
    );
    let stage = Stage::start(growth, IODS)?;
    let client = stage.client()?;
    for &size in sizes {
        if size <= WHOLE_BYTES_MAX {
            whole.push(whole_point(growth, &stage, &client, size)?);
        }
        let sparse = Sparse { growth, stage: &stage, client: &client, size };
        sparse.make()?;
        stat.push(sparse.stat()?);
        read.push(sparse.read()?);
        write.push(sparse.write()?);
        truncate.push(sparse.truncate()?);
        client.unlink("/sparse")?;
        remove.push(sparse.remove()?);
    }
    Ok(vec![stat, whole, read, write, truncate, remove])
}

fn whole_point(growth: &Growth, stage: &Stage<'_>, client: &Client, size: u64) -> Result<Point> {
    let files = (SAMPLE_BYTES / size).clamp(1, FILES_MAX);
    let files = growth.amount(files);
    let mut buffer = vec![0x5a; CALL_BYTES.min(size) as usize];
    let options = OpenOptions::new().write(true).create_new(true);
    let calls = || (0..size).step_by(CALL_BYTES as usize);
    stage.calls(size, Amount::Bytes(files * size), CALL_BYTES, || {
        for number in 0..files {
            let path = format!("/whole{number}");
            let file = client.open(path.as_str(), &options)?;
            calls().try_for_each(|at| file.write_at(&buffer, at).map(drop))?;
            file.close()?;
            let file = client.open(path.as_str(), &OpenOptions::new().read(true))?;
            for at in calls() {
                ensure!(file.read_at(&mut buffer, at)? == buffer.len(), "{path} was read short");
            }
            file.close()?;
            client.unlink(path.as_str())?;
        }
        Ok(())
    })
}

struct Sparse<'s> {
    growth: &'s Growth,
    stage: &'s Stage<'s>,
    client: &'s Client,
    size: u64,
}

impl Sparse<'_> {
    fn make(&self) -> Result<()> {
        let file = self.client.open("/sparse", &OpenOptions::new().write(true).create_new(true))?;
        file.set_len(self.size)?;
        Ok(file.close()?)
    }

    fn stat(&self) -> Result<Point> {
        let count = self.growth.amount(OPERATIONS);
        self.stage.calls(self.size, Amount::Count(count), 0, || {
            for _ in 0..count {
                let bytes = self.client.stat("/sparse")?.bytes.0;
                ensure!(bytes == self.size, "a stat says {bytes} bytes of {}", self.size);
            }
            Ok(())
        })
    }

    fn read(&self) -> Result<Point> {
        let file = self.client.open("/sparse", &OpenOptions::new().read(true))?;
        let mut buffer = vec![0; PIECE_BYTES.min(self.size) as usize];
        let count = self.growth.amount(OPERATIONS);
        let point = self.stage.calls(self.size, Amount::Count(count), 0, || {
            for at in places(count, self.size) {
                ensure!(
                    file.read_at(&mut buffer, at)? == buffer.len(),
                    "at {at} it was read short"
                );
            }
            Ok(())
        })?;
        file.close()?;
        Ok(point)
    }

    fn write(&self) -> Result<Point> {
        let file = self.client.open("/sparse", &OpenOptions::new().write(true))?;
        let buffer = vec![0x5a; PIECE_BYTES.min(self.size) as usize];
        let count = self.growth.amount(OPERATIONS);
        let point = self.stage.calls(self.size, Amount::Count(count), 0, || {
            places(count, self.size)
                .try_for_each(|at| file.write_at(&buffer, at).map(drop))
                .map_err(Into::into)
        })?;
        file.close()?;
        Ok(point)
    }

    fn truncate(&self) -> Result<Point> {
        let count = self.growth.amount(CHANGES);
        self.stage.calls(self.size, Amount::Count(count), 0, || {
            for _ in 0..count {
                self.client.truncate("/sparse", self.size / 2)?;
                self.client.truncate("/sparse", self.size)?;
            }
            Ok(())
        })
    }

    fn remove(&self) -> Result<Point> {
        let count = self.growth.amount(CHANGES);
        self.stage.calls(self.size, Amount::Count(count), 0, || {
            for number in 0..count {
                let path = format!("/removed{number}");
                let file = self
                    .client
                    .open(path.as_str(), &OpenOptions::new().write(true).create_new(true))?;
                file.set_len(self.size)?;
                file.write_at(&[1], self.size - 1)?;
                file.close()?;
                self.client.unlink(path.as_str())?;
            }
            Ok(())
        })
    }
}

/// Offsets in a file, always the same ones, so that a bounded amount is written.
fn places(count: u64, size: u64) -> impl Iterator<Item = u64> {
    let pieces = (size / PIECE_BYTES).max(1);
    (1..=count).map(move |at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % pieces * PIECE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_lie_within_the_file_and_all_over_it() {
        for size in [1 << 10, 16 << 10, 1 << 40] {
            assert!(places(1000, size).all(|at| at + PIECE_BYTES.min(size) <= size), "{size}");
        }
        let far = places(1000, 1 << 40).filter(|at| *at > 1 << 39).count();
        assert!((400..600).contains(&far), "{far}");
    }
}
