//! What the cluster stands on, each part by itself, before anything is asked of the file system.
//!
//! All of it goes through calls that every client may make, so that a run needs no rights on the servers and disturbs nobody's
//! files: a daemon's network is measured by bytes that its memory has, its disk by the daemon itself.

mod disk;
mod files;
mod memory;
mod metadata;
mod network;
mod small;

use crate::{
    bench::{Bench, Told},
    error::Result,
    report::{Limit, LimitKind, Unit},
};

/// A part of the disks' measure is two samples long, and its flush may be as long again. All disks are measured at once.
const DISK_SAMPLES: usize = 4;

/// How many samples of limits there are with so many daemons: their time is shared out.
pub(crate) fn count(iods: usize) -> usize {
    (network::EACH + small::EACH) * iods
        + disk::EACH * DISK_SAMPLES
        + network::ALL
        + metadata::COUNT
        + files::COUNT
        + 1
}

/// Measures each of them once; `all` has what was measured before a failure too.
pub(crate) fn measure(bench: &Bench<'_>, all: &mut Vec<Limit>) -> Result<()> {
    (bench.tell)(Told::Now("this machine's memory"));
    all.push(memory::measure(bench)?);
    for iod in &bench.iods {
        (bench.tell)(Told::Now(&iod.name()));
        all.extend(network::one(bench, iod)?);
        all.extend(small::measure(bench, iod)?);
    }
    (bench.tell)(Told::Now("the disks of all I/O daemons at once"));
    all.extend(disk::measure(bench)?);
    (bench.tell)(Told::Now("all I/O daemons at once"));
    all.extend(network::all(bench)?);
    all.extend(metadata::measure(bench)?);
    (bench.tell)(Told::Now("small files, one server at a time"));
    all.extend(files::measure(bench)?);
    Ok(())
}

fn limit(
    kind: LimitKind,
    iod: Option<u32>,
    name: String,
    how: impl Into<String>,
    sample: f64,
) -> Limit {
    use LimitKind as K;
    let unit = match kind {
        K::Memory
        | K::Send
        | K::Receive
        | K::SendAll
        | K::ReceiveAll
        | K::DiskWrite
        | K::DiskRead => Unit::BytesPerSecond,
        K::IodCalls
        | K::MdsCalls
        | K::MdsChanges
        | K::DiskRandomWrite
        | K::DiskRandomRead
        | K::DiskSync => Unit::PerSecond,
        K::MdsCreates | K::IodObjects | K::MdsOpens | K::IodFirstReads => Unit::PerSecond,
        K::RoundTrip | K::MdsRoundTrip | K::SmallRead | K::Force | K::MdsForce => Unit::Seconds,
    };
    Limit { kind, iod: iod.map(u64::from), name, how: how.into(), unit, samples: vec![sample] }
}
