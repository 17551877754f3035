//! Measures the disk in an unnamed file, which is removed when its handle is closed, also when the
//! process dies.
//!
//! The file is filled and flushed first, so that only rewrites are measured: the first write to a
//! block costs more.

use super::platform;
use crate::{DiskLoad, DiskRates, DiskWork};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const REQUEST_BYTES: u64 = 1 << 20;
/// After this many bytes the filling checks the time: a slow disk gets a shorter file.
const FILL_STEP_BYTES: u64 = 8 << 20;
const PAGE_BYTES: u64 = 4096;
/// Pages written at random offsets before a flush: enough that the disk may sort them.
const RANDOM_WRITES_FLUSHED: u64 = 256;

/// The temporary file.
pub(super) struct Scratch {
    file: File,
    /// Its name, if the system cannot create unnamed files.
    named: Option<PathBuf>,
    bytes: u64,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = &self.named {
            // If this fails, the next open of the store removes it.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Scratch {
    /// An empty file in this directory; `path` is for systems without unnamed files.
    pub(super) fn new(directory: &Path, path: PathBuf) -> io::Result<Self> {
        if let Some(file) = platform::create_unnamed(directory)? {
            return Ok(Self { file, named: None, bytes: 0 });
        }
        let file = super::private::options().read(true).write(true).create_new(true).open(&path)?;
        Ok(Self { file, named: Some(path), bytes: 0 })
    }

    /// All parts, one after the other.
    pub(super) fn measure(&mut self, load: DiskLoad) -> io::Result<DiskRates> {
        self.fill(load)?;
        let written = self.write(load.part)?;
        let random_writes = self.write_at_random(load.part)?;
        let syncs = self.sync_at_random(load)?;
        let random_reads = self.read_at_random(load)?;
        let read = self.read(load.part)?;
        Ok(DiskRates { written, random_writes, syncs, random_reads, read })
    }

    fn fill(&mut self, load: DiskLoad) -> io::Result<()> {
        let (began, request) = (Instant::now(), request());
        while self.bytes < load.bytes && (self.bytes == 0 || began.elapsed() < load.part) {
            let end = load.bytes.min(self.bytes + FILL_STEP_BYTES).next_multiple_of(REQUEST_BYTES);
            while self.bytes < end {
                write_all(&self.file, &request, self.bytes)?;
                self.bytes += REQUEST_BYTES;
            }
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn write(&self, part: Duration) -> io::Result<DiskWork> {
        let (request, began) = (request(), Instant::now());
        let (mut amount, mut at) = (0, 0);
        loop {
            write_all(&self.file, &request, at)?;
            amount += REQUEST_BYTES;
            at += REQUEST_BYTES;
            let is_over = began.elapsed() >= part;
            // What is written twice before a flush reaches the disk only once.
            if is_over || at >= self.bytes {
                self.file.sync_data()?;
                at = 0;
            }
            if is_over {
                return Ok(DiskWork { amount, time: began.elapsed() });
            }
        }
    }

    fn write_at_random(&self, part: Duration) -> io::Result<DiskWork> {
        let (page, began) = (page(), Instant::now());
        let mut amount = 0;
        while amount == 0 || began.elapsed() < part {
            for _ in 0..RANDOM_WRITES_FLUSHED {
                write_all(&self.file, &page, self.page_offset(amount))?;
                amount += 1;
            }
            self.file.sync_data()?;
        }
        Ok(DiskWork { amount, time: began.elapsed() })
    }

    fn sync_at_random(&self, load: DiskLoad) -> io::Result<DiskWork> {
        let began = Instant::now();
        let amount = run_threads(load.threads, u64::MAX, began + load.part, |page, number| {
            write_all(&self.file, page, self.page_offset(number))?;
            self.file.sync_data()
        })?;
        Ok(DiskWork { amount, time: began.elapsed() })
    }

    fn read_at_random(&self, load: DiskLoad) -> io::Result<DiskWork> {
        platform::advise_random(&self.file)?;
        // Half of the pages, then all are dropped. Pages that the disk read ahead would otherwise
        // be all that is left.
        let (pages, mut work) = (self.pages() / 2, DiskWork::default());
        while work.time < load.part {
            self.drop_cached_pages()?;
            let began = Instant::now();
            let until = began + (load.part - work.time);
            work.amount += run_threads(load.threads, pages, until, |page, number| {
                read_all(&self.file, page, self.page_offset(number))
            })?;
            work.time += began.elapsed();
        }
        Ok(work)
    }

    fn read(&self, part: Duration) -> io::Result<DiskWork> {
        platform::advise_sequential(&self.file)?;
        let (mut request, mut work) = (request(), DiskWork::default());
        while work.time < part {
            self.drop_cached_pages()?;
            let (began, mut at) = (Instant::now(), 0);
            while at < self.bytes && (at == 0 || work.time + began.elapsed() < part) {
                read_all(&self.file, &mut request, at)?;
                at += REQUEST_BYTES;
            }
            work.amount += at;
            work.time += began.elapsed();
        }
        Ok(work)
    }

    /// Drops the file's pages from the page cache, where the system can.
    fn drop_cached_pages(&self) -> io::Result<()> {
        self.file.sync_data()?;
        platform::drop_cached_pages(&self.file)
    }

    /// A power of two.
    fn pages(&self) -> u64 {
        1 << (self.bytes / PAGE_BYTES).ilog2()
    }

    fn page_offset(&self, number: u64) -> u64 {
        scattered(number, self.pages().ilog2()) * PAGE_BYTES
    }
}

/// A permutation of the numbers below `2^bits`, in no visible order.
fn scattered(number: u64, bits: u32) -> u64 {
    let mask = (1 << bits) - 1;
    // Odd multipliers and a shift by half of the bits are invertible: no two numbers give one
    // result.
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask;
    let mixed = mixed ^ (mixed >> bits.div_ceil(2));
    mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93) & mask
}

/// Runs steps on this many threads until `until`, at most `count` in all. Each thread makes at
/// least one, if there are enough. Returns the number of steps.
fn run_threads(
    threads: u16,
    count: u64,
    until: Instant,
    step: impl Fn(&mut [u8], u64) -> io::Result<()> + Sync,
) -> io::Result<u64> {
    let next = AtomicU64::new(0);
    let work = || -> io::Result<u64> {
        let (mut page, mut done) = (page(), 0);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(done);
            }
            step(&mut page, number)?;
            done += 1;
            if Instant::now() >= until {
                return Ok(done);
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let done = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        done.collect::<Vec<_>>().into_iter().sum()
    })
}

fn request() -> Vec<u8> {
    vec![0x5a; REQUEST_BYTES as usize]
}

fn page() -> Vec<u8> {
    vec![0xa5; PAGE_BYTES as usize]
}

fn write_all(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < data.len() {
        match platform::write_at(file, &data[done..], offset + done as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            bytes => done += bytes,
        }
    }
    Ok(())
}

fn read_all(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match platform::read_at(file, &mut buffer[done..], offset + done as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => done += bytes,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const LOAD: DiskLoad = DiskLoad { bytes: 3 << 20, part: Duration::from_millis(1), threads: 3 };

    #[test]
    fn no_two_numbers_have_one_place_and_neighbours_lie_apart() {
        for bits in [8, 9, 15] {
            let count = 1_u64 << bits;
            let places: Vec<u64> = (0..count).map(|number| scattered(number, bits)).collect();
            assert_eq!(places.iter().collect::<HashSet<_>>().len() as u64, count);
            let near =
                places.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 8).count() as u64;
            assert!(near < count / 8, "{near} of {count}");
        }
    }

    #[test]
    fn every_part_does_something_and_takes_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let mut scratch = Scratch::new(dir.path(), dir.path().join("0")).unwrap();
        let rates = scratch.measure(LOAD).unwrap();
        let DiskRates { written, random_writes, syncs, random_reads, read } = rates;
        for work in [written, random_writes, syncs, random_reads, read] {
            assert!(work.amount > 0 && work.time >= LOAD.part, "{rates:?}");
        }
        assert_eq!(
            (written.amount % REQUEST_BYTES, random_writes.amount % RANDOM_WRITES_FLUSHED),
            (0, 0)
        );
        assert!(
            scratch.bytes <= LOAD.bytes && scratch.file.metadata().unwrap().len() == scratch.bytes
        );
        drop(scratch);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_with_a_name_is_removed_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let mut scratch = Scratch { file, named: Some(path.clone()), bytes: 0 };
        scratch.measure(LOAD).unwrap();
        assert!(path.exists());
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0");
        std::fs::write(&path, b"").unwrap();
        let mut scratch = Scratch { file: File::open(&path).unwrap(), named: None, bytes: 0 };
        scratch.measure(LOAD).unwrap_err();
    }
}
