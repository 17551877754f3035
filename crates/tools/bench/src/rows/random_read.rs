//! 4 KiB reads at random offsets, one at a time.

use anyhow::{Result, ensure};
use braid_client::{File, TlsPolicy};
use braid_testbed::random::Random;

use super::{
    latency::{Latency, Subject, against_round_trip, timed},
    sequential::Sizes,
    target,
};
use crate::{bench::Bench, measure::Measure};

/// Bytes of a read.
const BLOCK_BYTES: usize = 4096;

/// `random_read`.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let bytes = Sizes::of(bench).file;
    let cluster = bench.cluster()?;
    let open = |tls| target::file(&cluster.client(tls)?, "/read", bytes);
    let plain = open(TlsPolicy::default())?;
    let tls = bench.tls.then(|| open(TlsPolicy::Always)).transpose()?;
    target::read(&plain, bytes, &mut vec![0; target::CALL_BYTES])?;
    let mut blocks = Random::new(0x5eed);
    let mut more_blocks = Random::new(0x5eee);
    let mut over_tls =
        tls.as_ref().map(|file| move || sample(bench, file, bytes, &mut more_blocks));
    against_round_trip(
        bench,
        Subject {
            name: "random_read",
            round_trips: 2.0,
            pids: cluster.pids(),
            plain: &mut || sample(bench, &plain, bytes, &mut blocks),
            tls: over_tls.as_mut().map(|sample| sample as &mut dyn FnMut() -> Result<Latency>),
        },
    )
}

fn sample(bench: &Bench, file: &File, bytes: u64, blocks: &mut Random) -> Result<Latency> {
    let mut buffer = vec![0; BLOCK_BYTES];
    timed(bench, bench.size(20_000, 4_000), |_| {
        let at = blocks.below(bytes / BLOCK_BYTES as u64) * BLOCK_BYTES as u64;
        let read = file.read_at(&mut buffer, at)?;
        ensure!(read == BLOCK_BYTES, "at {at} only {read} bytes were read");
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_spread_over_the_file() {
        let mut random = Random::new(1);
        let mut hit = [false; 16];
        (0..1000).for_each(|_| hit[random.below(16) as usize] = true);
        assert!(hit.iter().all(|hit| *hit));
    }
}
