//! Transactions like a database's: 8 KiB read, changed, written and synced, at random offsets of
//! one large file (Direct-pNFS 2007, 6.4.1).

use super::{
    Measured, Random, RowKind, RowSpec, files::Files, files::Shape, files::TaskFile, files::iods_of,
};
use crate::{
    bench::Bench,
    bottleneck::Limits,
    content::BLOCK_BYTES_MAX,
    error::Result,
    report::{LimitKind, Unit},
    sample::{Step, rate},
};

const PAGE_BYTES: usize = 8192;

pub(crate) fn row() -> RowSpec {
    RowSpec {
        name: "oltp".into(),
        what: "transactions: 8 KiB read, changed, written, synced, at random offsets of one file"
            .into(),
        kind: RowKind::Oltp,
        quick: false,
    }
}

pub(super) fn measure(
    bench: &Bench<'_>,
    limits: &Limits,
    files: &mut Files<'_>,
) -> Result<Measured> {
    let count = bench.options.tasks();
    let shape =
        Shape { shared: true, tasks: count, block: BLOCK_BYTES_MAX, iods: None, stripe: None };
    let opened = files.of(shape)?;
    let iods = iods_of(&opened);
    let mut tasks: Vec<_> =
        (0..).zip(&opened).map(|(rank, file)| transactions(rank, file)).collect();
    let sample = rate(bench, bench.sample, &mut tasks)?;
    opened.iter().try_for_each(TaskFile::check)?;
    let mut ceilings = limits.disks(LimitKind::DiskSync, &iods);
    ceilings.extend(limits.sync_limits(LimitKind::Force, count, &iods));
    Ok(Measured { unit: Unit::PerSecond, tasks: count, sample, ceilings })
}

fn transactions(rank: u64, file: &TaskFile) -> Step<impl FnMut() -> Result<u64> + Send> {
    let (mut random, mut page) = (Random::new(rank), vec![0; PAGE_BYTES]);
    Step(move || {
        let at = random.below(file.bytes / PAGE_BYTES as u64) * PAGE_BYTES as u64;
        let offset = |block: usize| at + (block * BLOCK_BYTES_MAX) as u64;
        file.file.read_at(&mut page, at)?;
        if let Some(wrong) = file.content.find_wrong_stamp(&page, offset) {
            return Err(file.wrong(wrong));
        }
        // The change keeps the content: another task may use the same page.
        file.content.stamp(&mut page, offset);
        file.file.write_at(&page, at)?;
        file.file.sync()?;
        Ok(1)
    })
}
