//! Whether creates in a directory of a million entries are as fast as in a small one.

use std::cell::Cell;

use anyhow::Result;
use braid_client::{Client, TlsPolicy};
use braid_testbed::stats::Summary;

use super::create_parallel::create_with_threads;
use crate::{
    bench::{Bench, WorkCost},
    measure::Measure,
};

/// Number of creating threads.
const THREADS: u32 = 16;
/// Entries of the small directory.
const SMALL: u32 = 10_000;
/// Number of files created in a sample.
const SAMPLE: u32 = 8_000;

/// `create_million`.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let entries = bench.size(1_000_000, 100_000);
    let client = bench.cluster()?.client(TlsPolicy::default())?;
    let number = Cell::new(0);
    client.mkdir("/million", 0o755)?;
    fill(&client, "/million", entries, &number)?;
    let mut large = || bench.take(|| fill(&client, "/million", SAMPLE, &number));
    let mut small = || {
        let directory = format!("/small{}", number.get());
        client.mkdir(&directory, 0o755)?;
        fill(&client, &directory, SMALL, &number)?;
        bench.take(|| fill(&client, &directory, SAMPLE, &number))
    };
    let samples = bench.alternate::<WorkCost>(&mut [&mut small, &mut large])?;
    let rate = |of: usize| {
        Summary::of(samples[of].iter().map(|taken| taken.per_second(SAMPLE.into())))
            .expect("a sample")
    };
    let at_small = rate(0);
    Ok(vec![
        Measure::new("create_million.at_10000", "per s", at_small),
        Measure::new(format!("create_million.at_{entries}"), "per s", rate(1)).at_least(
            0.8 * at_small.median,
            format!("0.8 x the rate at 10,000, {:.0}", at_small.median),
        ),
    ])
}

/// Creates `count` new files, from the threads of all rows; each call with its own names.
fn fill(client: &Client, directory: &str, count: u32, number: &Cell<u32>) -> Result<()> {
    let call = number.replace(number.get() + 1);
    create_with_threads(client, directory, &format!("c{call}-"), THREADS, count / THREADS)
}
