//! The load and the results of a measurement of the disk.

use std::time::Duration;

/// The load of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskLoad {
    /// Length of the file, at most; at least 1 MiB.
    pub bytes: u64,
    /// Duration of each part, without its last flush.
    pub part: Duration,
    /// Threads that sync, and that read at random offsets.
    pub threads: u16,
}

/// The results of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskRates {
    /// Bytes written in order, flushed before a byte is written again and at the end.
    pub written: DiskWork,
    /// Pages of 4 KiB written at random offsets, flushed after every 256.
    pub random_writes: DiskWork,
    /// Pages of 4 KiB written at random offsets by many threads, each flushed by its thread.
    pub syncs: DiskWork,
    /// Pages of 4 KiB read at random offsets by many threads, after the page cache was dropped.
    pub random_reads: DiskWork,
    /// Bytes read in order, after the page cache was dropped.
    pub read: DiskWork,
}

/// An amount of bytes or pages, and the time for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskWork {
    /// Bytes or pages.
    pub amount: u64,
    /// The time for it.
    pub time: Duration,
}
