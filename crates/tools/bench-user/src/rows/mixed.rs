//! A mix of small and large writes: 95 % of the requests are small, and 95 % of the bytes are in
//! large ones (Direct-pNFS 2007, 6.3.1, of ATLAS digitization: small is below 275 KB; each client
//! writes its own file).

use super::{
    Measured, Random, RowKind, RowSpec, files::Files, files::Shape, files::TaskFile, files::iods_of,
};
use crate::{
    bench::Bench,
    bottleneck::{Limits, TransferDirection},
    content::BLOCK_BYTES_MAX,
    error::Result,
    report::Unit,
    sample::{Step, rate},
};

const SMALL_BYTES: usize = 4096;
/// With one large request in twenty, it has 95 % of all bytes when it is as long as 19 x 19 small
/// ones.
const LARGE_BYTES: usize = 361 * SMALL_BYTES;
const LARGE_IN: u64 = 20;

pub(crate) fn row() -> RowSpec {
    RowSpec {
        name: "mixed-write".into(),
        what: "each task its own file: 95 % of the requests of 4 KiB, \
               95 % of the bytes in requests of 1444 KiB, at random offsets"
            .into(),
        kind: RowKind::Mixed,
        quick: false,
    }
}

pub(super) fn measure(
    bench: &Bench<'_>,
    limits: &Limits,
    files: &mut Files<'_>,
) -> Result<Measured> {
    let count = bench.options.tasks();
    let opened = files.of(Shape {
        shared: false,
        tasks: count,
        block: BLOCK_BYTES_MAX,
        iods: None,
        stripe: None,
    })?;
    let iods = iods_of(&opened);
    let mut tasks: Vec<_> = (0..).zip(&opened).map(|(rank, file)| task(rank, file)).collect();
    let sample = rate(bench, bench.sample, &mut tasks)?;
    opened.iter().try_for_each(TaskFile::check)?;
    Ok(Measured {
        unit: Unit::BytesPerSecond,
        tasks: count,
        sample,
        ceilings: limits.network(TransferDirection::Send, &iods),
    })
}

/// One step is one large request with its nineteen small ones, so that each sample has the same
/// mix.
fn task(rank: u64, file: &TaskFile) -> Step<impl FnMut() -> Result<u64> + Send> {
    let (content, bytes_in_file) = (file.content, file.bytes);
    let (mut random, mut buffer) = (Random::new(rank), content.buffer(LARGE_BYTES));
    Step(move || {
        let large = random.below(LARGE_IN);
        let mut written = 0;
        for number in 0..LARGE_IN {
            let bytes =
                if number == large { LARGE_BYTES.min(bytes_in_file as usize) } else { SMALL_BYTES };
            let places = (bytes_in_file - bytes as u64) / BLOCK_BYTES_MAX as u64 + 1;
            let at = random.below(places) * BLOCK_BYTES_MAX as u64;
            content.stamp(&mut buffer[..bytes], |block| at + (block * BLOCK_BYTES_MAX) as u64);
            file.file.write_at(&buffer[..bytes], at)?;
            written += bytes as u64;
        }
        Ok(written)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_requests_and_of_the_bytes_95_percent() {
        let small = (LARGE_IN - 1) * SMALL_BYTES as u64;
        assert_eq!((LARGE_IN - 1) * 100 / LARGE_IN, 95);
        assert_eq!(LARGE_BYTES as u64 * 100 / (LARGE_BYTES as u64 + small), 95);
        const { assert!(LARGE_BYTES > 275_000 && SMALL_BYTES < 275_000) }
    }
}
