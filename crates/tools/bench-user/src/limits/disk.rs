//! How fast a daemon's disk takes bytes for good, and how long one small flush takes. What was just written is in the daemon's
//! memory, and no client can have it dropped: reads measure that memory, and are named so.

use braid_client::File;

use super::limit;
use crate::{
    bench::Bench,
    error::Result,
    iods::Iod,
    report::{Limit, LimitKind},
    sample::{Task, rate, time},
};

/// Limits of each daemon.
pub(super) const EACH: usize = 3;

const REQUEST_BYTES: usize = 1 << 20;
/// The stretch that is written again and again: longer than most disks' own buffers.
const STRETCH_BYTES_MAX: u64 = 128 << 20;
const SMALL_BYTES: usize = 4096;
/// A disk's sample is so many times as long as another limit's: a flush is a part of it.
const DISK_TIMES: u32 = 4;

pub(super) fn measure(bench: &Bench<'_>, iod: &Iod) -> Result<Vec<Limit>> {
    let file = bench.file_on(iod, &format!("disk-{}", iod.id))?;
    let stretch = (bench.bytes / bench.iods.len() as u64).clamp(REQUEST_BYTES as u64, STRETCH_BYTES_MAX);
    let mut writer = Flushed { file: &file, buffer: vec![1; REQUEST_BYTES], at: 0, requests: stretch >> 20 };
    let write = rate(bench, bench.limit_sample * DISK_TIMES, std::slice::from_mut(&mut writer))?;
    let end = file.size()?;
    let (mut small, mut place) = (vec![2_u8; SMALL_BYTES], Places::of(end));
    let read = time(bench, bench.limit_sample, || Ok(file.read_at(&mut small, place.next()).map(drop)?))?;
    let force = time(bench, bench.limit_sample, || {
        file.write_at(&small, place.next())?;
        Ok(file.sync().map(drop)?)
    })?;
    let (id, name) = (Some(iod.id.0), iod.name());
    Ok(vec![
        limit(
            LimitKind::DiskWrite,
            id,
            format!("the disk of {name}"),
            "1 MiB writes, flushed before a byte is written again and at the end of each sample; the flush counts",
            write,
        ),
        limit(
            LimitKind::SmallRead,
            id,
            format!("a 4 KiB read from the memory of {name}"),
            "at random places of what was just written",
            read,
        ),
        limit(
            LimitKind::Force,
            id,
            format!("a 4 KiB write and sync at {name}"),
            "write, flush of the object, force of the metadata server's log",
            force,
        ),
    ])
}

/// Writes a stretch again and again, and flushes at the end of a sample.
struct Flushed<'f> {
    file: &'f File,
    buffer: Vec<u8>,
    at: u64,
    requests: u64,
}

impl Task for Flushed<'_> {
    fn step(&mut self) -> Result<u64> {
        // What is written twice before a flush reaches the disk once.
        if self.at == self.requests {
            self.file.sync()?;
            self.at = 0;
        }
        self.file.write_at(&self.buffer, self.at * REQUEST_BYTES as u64)?;
        self.at += 1;
        Ok(REQUEST_BYTES as u64)
    }

    fn finish(&mut self) -> Result<()> {
        self.at = 0;
        Ok(self.file.sync().map(drop)?)
    }
}

/// Random places of 4 KiB in a file.
struct Places {
    random: crate::rows::Random,
    count: u64,
}

impl Places {
    fn of(bytes: u64) -> Self {
        Self { random: crate::rows::Random::new(1), count: (bytes / SMALL_BYTES as u64).max(1) }
    }

    fn next(&mut self) -> u64 {
        self.random.below(self.count) * SMALL_BYTES as u64
    }
}
