//! Partitions that match the stripes, and that do not (1996 paper, 2.2 and figure 11): four tasks, each with a partition of its own,
//! 2 MiB at a time.

use std::{cell::RefCell, collections::BTreeMap};

use anyhow::{Result, ensure};
use braid_client::{File, OpenOptions, View};

use super::{
    rate,
    tasks::{TASKS, Tasks, together},
};
use crate::{
    bench::{Bench, Taken},
    measure::Measure,
    rows::target,
    stats::Summary,
};

/// The file's stripe. With groups of this size, each task's bytes are all at one daemon.
const STRIPE_BYTES: u64 = 64 << 10;
/// Group sizes of the partitions: as the stripes, smaller, much smaller, larger.
const GROUPS: [(&str, u64); 4] = [
    ("matched", STRIPE_BYTES),
    ("quarter", STRIPE_BYTES / 4),
    ("sixteenth", STRIPE_BYTES / 16),
    ("four_fold", 4 * STRIPE_BYTES),
];
/// Of one request, as in the paper.
const CALL_BYTES: usize = 2 << 20;
/// What the issue wants of mismatched partitions, as a part of the matched ones' rate; it is asked of collective requests.
const FACTOR: f64 = 0.8;

/// `partition`.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let bytes = bench.size(256_u64 << 20, 64 << 20);
    let options = OpenOptions::new().read(true).write(true).create(true).stripe_size(STRIPE_BYTES);
    let tasks = Tasks::open(bench, "/parallel-partition", &options)?;
    target::write(&tasks.files()[0], bytes, &vec![0x5a; target::CALL_BYTES])?;
    let partitions: Vec<Vec<File>> = GROUPS.iter().map(|(_, group)| views(&tasks, *group)).collect::<Result<_>>()?;
    let mut measures = Vec::new();
    let mut counts = BTreeMap::new();
    for ((name, _), views) in GROUPS.iter().zip(&partitions) {
        counts.insert(*name, requests(bench, views, bytes)?);
    }
    for (name, _) in GROUPS {
        let count = Measure::new(format!("partition.requests.{name}"), "of an IOD", Summary::once(counts[name] as f64));
        let matched = counts["matched"];
        measures.push(count.at_most(matched as f64, format!("I2: as many as matched, {matched}")));
    }
    let buffers = RefCell::new(vec![vec![0; CALL_BYTES]; TASKS]);
    let mut variants: Vec<_> = partitions
        .iter()
        .map(|views| {
            let buffers = &buffers;
            move || together(bench, &mut buffers.borrow_mut(), |rank, buffer| read_all(&views[rank], bytes, buffer))
        })
        .collect();
    let mut variants: Vec<&mut dyn FnMut() -> Result<Taken>> =
        variants.iter_mut().map(|variant| variant as &mut dyn FnMut() -> Result<Taken>).collect();
    let samples = bench.alternate::<Taken>(&mut variants)?;
    let rates =
        GROUPS.iter().zip(&samples).map(|((name, _), taken)| rate(format!("partition.read.{name}"), taken, bytes));
    let rates: Vec<Measure> = rates.collect();
    let matched = rates[0].plain.summary.median;
    bench.note(format!(
        "partition: {FACTOR} x matched, {:.0} MB/s, is the bar of collective requests",
        FACTOR * matched
    ));
    measures.extend(rates);
    Ok(measures)
}

/// Each task's partition: its own disjoint part of the file.
fn views(tasks: &Tasks, group: u64) -> Result<Vec<File>> {
    let view =
        |(rank, file): (u64, &File)| Ok(file.with_view(View::strided(rank * group, group, TASKS as u64 * group))?);
    (0..).zip(tasks.files()).map(view).collect()
}

/// A task's whole partition, one request of the program after the other.
fn read_all(view: &File, bytes: u64, buffer: &mut [u8]) -> Result<()> {
    for at in (0..bytes / TASKS as u64).step_by(buffer.len()) {
        let read = view.read_at(buffer, at)?;
        ensure!(read == buffer.len(), "at {at} only {read} bytes were read");
    }
    Ok(())
}

/// The most requests that any I/O daemon got when each task read its partition in one call. The first calls open connections and
/// present capabilities; the second ones are counted.
fn requests(bench: &Bench, views: &[File], bytes: u64) -> Result<u64> {
    let mut buffers = vec![vec![0; (bytes as usize) / TASKS]; TASKS];
    let mut all = || {
        together(bench, &mut buffers, |rank, buffer| {
            views[rank].read_at(buffer, 0)?;
            Ok(())
        })
    };
    all()?;
    let calls = || bench.cluster()?.iod_metric("braid_iod_calls_total");
    let before = calls()?;
    all()?;
    let after = calls()?;
    Ok(after.iter().zip(&before).map(|(after, before)| after - before).max().unwrap_or_default())
}
