//! The time of one small call of a daemon: a read of recently written bytes, which are in its
//! memory, and a write with its sync.

use super::limit;
use crate::{
    bench::Bench,
    error::Result,
    iods::Iod,
    report::{Limit, LimitKind},
    rows::Random,
    sample::time,
};

/// Number of limits of each daemon.
pub(super) const EACH: usize = 2;

const BYTES: usize = 4096;
const FILE_BYTES: u64 = 1 << 20;

pub(super) fn measure(bench: &Bench<'_>, iod: &Iod) -> Result<Vec<Limit>> {
    let file = bench.file_on(iod, &format!("small-{}", iod.id))?;
    file.write_at(&[1; FILE_BYTES as usize], 0)?;
    file.sync()?;
    let (mut small, mut random) = (vec![2_u8; BYTES], Random::new(1));
    let mut place = || random.below(FILE_BYTES / BYTES as u64) * BYTES as u64;
    let read = time(bench, bench.limit_sample, || file.read_at(&mut small, place()).map(drop))?;
    let force = time(bench, bench.limit_sample, || {
        file.write_at(&small, place())?;
        file.sync()
    })?;
    let (id, name) = (Some(iod.id.0), iod.name());
    Ok(vec![
        limit(
            LimitKind::SmallRead,
            id,
            format!("a 4 KiB read from the memory of {name}"),
            "at random offsets of recently written bytes",
            read,
        ),
        limit(
            LimitKind::Force,
            id,
            format!("a 4 KiB write and sync at {name}"),
            "write, fsync of the object, fsync of the metadata server's log",
            force,
        ),
    ])
}
