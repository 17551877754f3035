//! Measure the disk without a network, for `braid bench`: limited in time and bytes, one call at a
//! time, and with an interval between calls. The holder of a client key may ask, since it stands
//! for a host. A user with a ticket may not: many users could keep the disk busy.

use std::{ops::RangeInclusive, time::Duration};

use braid_store::{DiskLoad, DiskWork, ObjectStore};
use braid_types::{Failure, Status};
use braid_wire::message::iod::{self, DiskRates, MeasureDisk};

use super::BlockingWork;
use crate::{connection::ConnectionState, iod_core::IodCore};

const BYTES: RangeInclusive<u64> = 1 << 20..=256 << 20;
const PART_MS: RangeInclusive<u32> = 1..=2000;
const THREADS: RangeInclusive<u16> = 1..=64;
/// Parts of a measurement, each as long as requested: writes, random writes, syncs, random reads,
/// reads.
const PARTS: u32 = 5;
/// The file takes at most this fraction of the free space.
const SHARE_OF_FREE: u64 = 10;

pub(crate) fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &ConnectionState,
    now: Duration,
    asked: &MeasureDisk,
) -> Result<BlockingWork<S>, Failure> {
    if connection.user().is_some() {
        return Err(Failure::new(
            Status::NotPermitted,
            "only the holder of a client key may measure a disk",
        ));
    }
    let &MeasureDisk { bytes, part_ms, threads: at_once } = asked;
    if !BYTES.contains(&bytes.0) || !PART_MS.contains(&part_ms) || !THREADS.contains(&at_once) {
        return Err(Failure::new(
            Status::Invalid,
            "a disk is measured with 1 to 256 MiB, 1 to 2000 ms and 1 to 64 threads",
        ));
    }
    // Reserved space counts as used.
    let available = core.space()?.available.0;
    if bytes.0 > available / SHARE_OF_FREE {
        let detail = format!("{bytes} bytes to measure the disk, {available} are free");
        return Err(Failure::new(Status::NoSpace, detail));
    }
    let load =
        DiskLoad { bytes: bytes.0, part: Duration::from_millis(part_ms.into()), threads: at_once };
    core.measuring().begin(now, load.part * PARTS)?;
    Ok(BlockingWork::new("MeasureDisk", move |core, _| run(core, load)))
}

fn run<S: ObjectStore>(core: &IodCore<S>, load: DiskLoad) -> Result<DiskRates, Failure> {
    let rates = core.store().measure_disk(load)?;
    Ok(DiskRates {
        written: work(rates.written),
        random_writes: work(rates.random_writes),
        syncs: work(rates.syncs),
        random_reads: work(rates.random_reads),
        read: work(rates.read),
    })
}

fn work(done: DiskWork) -> iod::DiskWork {
    iod::DiskWork {
        amount: done.amount,
        nanos: u64::try_from(done.time.as_nanos()).unwrap_or(u64::MAX),
    }
}
