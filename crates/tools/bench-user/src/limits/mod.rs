//! The hardware limits of the cluster, each measured alone, before the file system is measured.
//!
//! All measurements use calls that every client may make, so that a run needs no rights on the
//! servers and disturbs no files of others. The bytes for a daemon's network come from its memory,
//! and the daemon itself measures its disk.

mod disk;
mod files;
mod memory;
mod metadata;
mod network;
mod small;

use crate::{
    bench::{Bench, Progress},
    error::Result,
    report::{Limit, LimitKind, Unit},
};

/// Samples of a disk's measurement: a part is two samples long, and its flush may take as long
/// again. All disks are measured at the same time.
const DISK_SAMPLES: usize = 4;

/// Number of limit samples for this many daemons, which share the time.
pub(crate) fn count(iods: usize) -> usize {
    (network::EACH + small::EACH) * iods
        + disk::EACH * DISK_SAMPLES
        + network::ALL
        + metadata::COUNT
        + files::COUNT
        + 1
}

/// Measures each limit once; after a failure `all` has the results up to it.
pub(crate) fn measure(bench: &Bench<'_>, all: &mut Vec<Limit>) -> Result<()> {
    (bench.tell)(Progress::Now("this machine's memory"));
    all.push(memory::measure(bench)?);
    for iod in &bench.iods {
        (bench.tell)(Progress::Now(&iod.name()));
        all.extend(network::one(bench, iod)?);
        all.extend(small::measure(bench, iod)?);
    }
    (bench.tell)(Progress::Now("the disks of all I/O daemons together"));
    all.extend(disk::measure(bench)?);
    (bench.tell)(Progress::Now("all I/O daemons together"));
    all.extend(network::all(bench)?);
    all.extend(metadata::measure(bench)?);
    (bench.tell)(Progress::Now("small files, one server at a time"));
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
