//! The limits of the disks: each daemon measures its own, all at the same time, in a file that no
//! client sees. Daemons that share one device count as one disk, whose rate is the sum of their
//! rates.
//!
//! At the same time, since rows use all disks so: two daemons measured alone on a shared device
//! would each show less than the device does for both.

use std::{thread, time::Duration};

use braid_client::{
    Status,
    message::iod::{DiskRates, DiskWork, MeasureDisk},
};
use braid_types::ByteCount;

use super::limit;
use crate::{
    bench::Bench,
    error::{BenchError, Result},
    iods::{Iod, on_one_device},
    report::{Limit, LimitKind},
};

/// Number of limits of each device.
pub(super) const EACH: usize = 5;

/// The test file of each daemon: larger than most disks' own buffers.
const FILE_BYTES_MAX: u64 = 128 << 20;
const FILE_BYTES_MIN: u64 = 1 << 20;
/// Maximum time of one part of a daemon's measurement.
const PART_MAX: Duration = Duration::from_secs(2);
/// Maximum number of threads of one daemon.
const AT_ONCE_MAX: u16 = 64;
/// Length of a part in samples of other limits: a flush is included.
const PART_TIMES: u32 = 2;
const NOT_MEASURED: [Status; 4] =
    [Status::Unsupported, Status::UnknownMessage, Status::NoSpace, Status::NotPermitted];
/// How long a run waits for another run that is measuring the disks.
const TURN_MAX: Duration = Duration::from_secs(20);
const TURN_LOOK: Duration = Duration::from_millis(50);

/// The limits of each device, in the order of its first daemon.
pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Limit>> {
    let load = load(bench);
    let rates: Result<Vec<Option<DiskRates>>> = thread::scope(|scope| {
        let threads: Vec<_> =
            bench.iods.iter().map(|iod| scope.spawn(|| one(bench, iod, &load))).collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect::<Vec<_>>().into_iter().collect()
    });
    bench.check_stop()?;
    Ok(limits(&bench.iods, &rates?, u64::from(load.threads)))
}

/// The load of each daemon: as much as a flushed row writes to it, and as many syncs at the same
/// time as there are tasks.
fn load(bench: &Bench<'_>) -> MeasureDisk {
    let iods = bench.iods.len() as u64;
    let least = bench.iods.iter().map(|iod| iod.available).min().unwrap_or(0);
    let bytes = (bench.bytes / iods).min(least / 10 / iods).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX);
    let at_once = u64::from(bench.options.tasks()).div_ceil(iods);
    MeasureDisk {
        bytes: ByteCount(bytes),
        part_ms: (bench.limit_sample * PART_TIMES).min(PART_MAX).as_millis() as u32,
        threads: u16::try_from(at_once).unwrap_or(AT_ONCE_MAX).min(AT_ONCE_MAX),
    }
}

/// `None` when the daemon has no disk, no space or an older version, or does not measure for users
/// with a ticket.
fn one(bench: &Bench<'_>, iod: &Iod, load: &MeasureDisk) -> Result<Option<DiskRates>> {
    let began = bench.now();
    loop {
        match bench.client.measure_disk(iod.id, load) {
            Ok(rates) => return Ok(Some(rates)),
            Err(BenchError::Call(error)) if NOT_MEASURED.contains(&error.status()) => {
                return Ok(None);
            }
            Err(BenchError::Call(error))
                if error.status() == Status::Busy && bench.now() - began < TURN_MAX =>
            {
                bench.check_stop()?;
                thread::sleep(TURN_LOOK);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Operations per second.
fn rate(work: &DiskWork) -> f64 {
    work.amount as f64 * 1e9 / (work.nanos.max(1)) as f64
}

fn limits(iods: &[Iod], rates: &[Option<DiskRates>], at_once: u64) -> Vec<Limit> {
    let mut all = Vec::new();
    for (first, sharing) in on_one_device(iods) {
        let of_device = || iods.iter().zip(rates).filter(|(iod, _)| iod.device == first.device);
        let Some(found) =
            of_device().map(|(_, rates)| rates.as_ref()).collect::<Option<Vec<&DiskRates>>>()
        else {
            continue;
        };
        let sum = |of: fn(&DiskRates) -> &DiskWork| {
            found.iter().map(|rates| rate(of(rates))).sum::<f64>()
        };
        let disk = disk_name(first, sharing);
        let count = at_once * sharing as u64;
        let id = Some(first.id.0);
        let daemons = "measured by the daemons themselves, all at the same time";
        all.extend([
            limit(
                LimitKind::DiskWrite,
                id,
                format!("writing in order to {disk}"),
                format!(
                    "1 MiB writes, flushed before a byte is overwritten and at the end; {daemons}"
                ),
                sum(|rates| &rates.written),
            ),
            limit(
                LimitKind::DiskRead,
                id,
                format!("reading in order from {disk}"),
                format!("1 MiB reads, dropped from the daemon's page cache before; {daemons}"),
                sum(|rates| &rates.read),
            ),
            limit(
                LimitKind::DiskRandomWrite,
                id,
                format!("writing 4 KiB at random places of {disk}"),
                format!("flushed after every 256; {daemons}"),
                sum(|rates| &rates.random_writes),
            ),
            limit(
                LimitKind::DiskRandomRead,
                id,
                format!("reading 4 KiB at random places of {disk}, {count} at a time"),
                format!("dropped from the daemon's page cache before; {daemons}"),
                sum(|rates| &rates.random_reads),
            ),
            limit(
                LimitKind::DiskSync,
                id,
                format!("fsyncs of {disk}, {count} at a time"),
                format!("each of a page of 4 KiB, written just before; {daemons}"),
                sum(|rates| &rates.syncs),
            ),
        ]);
    }
    all
}

fn disk_name(first: &Iod, sharing: usize) -> String {
    let shared =
        if sharing > 1 { format!(", which {sharing} daemons share") } else { String::new() };
    format!("the disk of {}{shared}", first.name())
}

#[cfg(test)]
mod tests {
    use braid_client::IodId;

    use super::*;

    fn iod(id: u32, device: u64) -> Iod {
        Iod { id: IodId(id), address: format!("h{id}:1"), ordinal: 0, device, available: 0 }
    }

    fn rates(bytes_written: u64, syncs: u64) -> DiskRates {
        let in_half_a_second = |amount| DiskWork { amount, nanos: 500_000_000 };
        DiskRates {
            written: in_half_a_second(bytes_written),
            random_writes: in_half_a_second(1),
            syncs: in_half_a_second(syncs),
            random_reads: in_half_a_second(2),
            read: in_half_a_second(3),
        }
    }

    #[test]
    fn daemons_on_one_device_are_one_disk_whose_rate_is_that_of_all_of_them() {
        let iods = [iod(1, 7), iod(2, 8), iod(3, 7)];
        let found = [rates(100, 10), rates(1000, 30), rates(50, 20)].map(Some);
        let limits = limits(&iods, &found, 2);
        assert_eq!(limits.len(), 2 * EACH);
        let of = |kind, iod| {
            limits.iter().find(|limit| limit.kind == kind && limit.iod == Some(iod)).unwrap()
        };
        assert_eq!(of(LimitKind::DiskWrite, 1).samples, [300.0]);
        assert_eq!(of(LimitKind::DiskWrite, 2).samples, [2000.0]);
        let syncs = of(LimitKind::DiskSync, 1);
        let named = "fsyncs of the disk of I/O daemon 1 (h1:1), which 2 daemons share, 4 at a time";
        assert_eq!((syncs.samples.as_slice(), syncs.name.as_str()), (&[60.0][..], named));
        assert_eq!(
            of(LimitKind::DiskSync, 2).name,
            "fsyncs of the disk of I/O daemon 2 (h2:1), 2 at a time"
        );
    }

    #[test]
    fn a_device_of_which_a_daemon_says_nothing_has_no_limit() {
        let iods = [iod(1, 7), iod(2, 8), iod(3, 7)];
        let found = limits(&iods, &[Some(rates(1, 1)), Some(rates(1, 1)), None], 1);
        assert!(found.len() == EACH && found.iter().all(|limit| limit.iod == Some(2)), "{found:?}");
    }
}
