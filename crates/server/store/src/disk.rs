//! What a disk is asked to do when it is measured by itself, and what it did.

use std::time::Duration;

/// What a disk is asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskLoad {
    /// How long the file is at most, that it is done in; 1 MiB at least.
    pub bytes: u64,
    /// How long each part takes; its last flush comes on top.
    pub part: Duration,
    /// How many threads sync, and read at random places, at once.
    pub at_once: u16,
}

/// What it did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskRates {
    /// Bytes written in order, flushed before a byte was written again and at the end.
    pub written: DiskWork,
    /// Pages of 4 KiB written at random places, flushed after every 256.
    pub random_writes: DiskWork,
    /// Pages of 4 KiB written at random places, each flushed by who wrote it, many at once.
    pub syncs: DiskWork,
    /// Pages of 4 KiB read at random places, which the system was asked to drop before; many at once.
    pub random_reads: DiskWork,
    /// Bytes read in order, which the system was asked to drop before.
    pub read: DiskWork,
}

/// An amount, of bytes or pages, and the time that it took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskWork {
    /// Bytes or pages.
    pub amount: u64,
    /// How long.
    pub time: Duration,
}
