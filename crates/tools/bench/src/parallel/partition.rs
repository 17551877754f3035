//! Partitions that match the stripes, and others (1996 paper, 2.2 and figure 11): four tasks, each
//! with its own partition, 2 MiB at a time, separately and in collective calls.

use std::{cell::RefCell, io::IoSliceMut};

use anyhow::{Result, ensure};
use braid_client::{CollectiveMode, CollectiveOptions, File, OpenOptions, ThreadGroup, View};
use braid_testbed::stats::Summary;

use super::{
    rate,
    tasks::{TASKS, Tasks, together},
};
use crate::{
    bench::{Bench, WorkCost},
    measure::Measure,
    rows::target,
};

/// The file's stripe. With groups of this size each task's bytes are all at one daemon.
const STRIPE_BYTES: u64 = 64 << 10;
/// Group sizes of the partitions: equal to the stripes, smaller, much smaller, larger.
const GROUPS: [(&str, u64); 4] = [
    ("matched", STRIPE_BYTES),
    ("quarter", STRIPE_BYTES / 4),
    ("sixteenth", STRIPE_BYTES / 16),
    ("four_fold", 4 * STRIPE_BYTES),
];
/// Size of one request, as in the paper.
const CALL_BYTES: usize = 2 << 20;
/// The target for mismatched partitions with collective calls, as a part of the matched
/// ones' rate.
const FACTOR: f64 = 0.8;
const MODES: [(&str, CollectiveMode); 3] = [
    ("independent", CollectiveMode::Independent),
    ("daemons", CollectiveMode::Server),
    ("auto", CollectiveMode::Auto),
];

/// `partition`.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let bytes = bench.size(256_u64 << 20, 64 << 20);
    let options = OpenOptions::new().read(true).write(true).create(true).stripe_size(STRIPE_BYTES);
    let tasks = Tasks::open(bench, "/parallel-partition", &options)?;
    target::write(&tasks.files()[0], bytes, &vec![0x5a; target::CALL_BYTES])?;
    let partitions: Vec<Vec<File>> =
        GROUPS.iter().map(|(_, group)| views(&tasks, *group)).collect::<Result<_>>()?;
    let groups = ThreadGroup::of(TASKS as u32);
    let mut measures = Vec::new();
    for (way, mode) in MODES {
        measures.extend(counts(bench, way, mode, &partitions, &groups, bytes)?);
    }
    let buffers = RefCell::new(vec![vec![0; CALL_BYTES]; TASKS]);
    let (groups, buffers) = (&groups, &buffers);
    let ways =
        MODES.iter().flat_map(|(_, mode)| partitions.iter().map(move |views| (views, *mode)));
    let mut variants: Vec<_> = ways
        .map(|(views, mode)| {
            move || {
                together(bench, &mut buffers.borrow_mut(), |rank, buffer| {
                    read_all(&views[rank], &groups[rank], mode, bytes, buffer)
                })
            }
        })
        .collect();
    let mut variants: Vec<&mut dyn FnMut() -> Result<WorkCost>> = variants
        .iter_mut()
        .map(|variant| variant as &mut dyn FnMut() -> Result<WorkCost>)
        .collect();
    let samples = bench.alternate::<WorkCost>(&mut variants)?;
    for ((way, mode), samples) in MODES.iter().zip(samples.chunks(GROUPS.len())) {
        measures.extend(rates(way, *mode, samples, bytes));
    }
    Ok(measures)
}

/// The number of requests to the I/O daemons.
fn counts(
    bench: &Bench,
    way: &str,
    mode: CollectiveMode,
    partitions: &[Vec<File>],
    groups: &[ThreadGroup],
    bytes: u64,
) -> Result<Vec<Measure>> {
    let mut measures = Vec::new();
    let mut matched = None;
    for ((name, _), views) in GROUPS.iter().zip(partitions) {
        let count = requests(bench, views, groups, mode, bytes)?;
        let matched = *matched.get_or_insert(count);
        let measure = Measure::new(
            format!("partition.requests.{name}.{way}"),
            "of an IOD",
            Summary::once(count as f64),
        );
        measures
            .push(measure.at_most(matched as f64, format!("I2: as many as matched, {matched}")));
    }
    Ok(measures)
}

/// The library's own choice has the target.
fn rates(way: &str, mode: CollectiveMode, samples: &[Vec<WorkCost>], bytes: u64) -> Vec<Measure> {
    let of = |((name, _), taken): (&(&str, u64), &Vec<WorkCost>)| {
        rate(format!("partition.read.{name}.{way}"), taken, bytes)
    };
    let mut measures: Vec<Measure> = GROUPS.iter().zip(samples).map(of).collect();
    if mode == CollectiveMode::Auto {
        let matched = measures[0].plain.summary.median;
        let hold = |measure: Measure| {
            measure.at_least(FACTOR * matched, format!("{FACTOR} x matched, {matched:.0}"))
        };
        let mismatched: Vec<Measure> = measures.drain(1..).map(hold).collect();
        measures.extend(mismatched);
    }
    measures
}

/// Each task's partition: its own disjoint part of the file.
fn views(tasks: &Tasks, group: u64) -> Result<Vec<File>> {
    let view = |(rank, file): (u64, &File)| {
        Ok(file.with_view(View::strided(rank * group, group, TASKS as u64 * group))?)
    };
    (0..).zip(tasks.files()).map(view).collect()
}

/// A task's whole partition, one request after the other, all tasks together.
fn read_all(
    view: &File,
    group: &ThreadGroup,
    mode: CollectiveMode,
    bytes: u64,
    buffer: &mut [u8],
) -> Result<()> {
    for at in (0..bytes / TASKS as u64).step_by(buffer.len()) {
        read_together(view, group, mode, at, buffer)?;
    }
    Ok(())
}

fn read_together(
    view: &File,
    group: &ThreadGroup,
    mode: CollectiveMode,
    at: u64,
    buffer: &mut [u8],
) -> Result<()> {
    let options = CollectiveOptions { mode, ..CollectiveOptions::default() };
    let read = match mode {
        // Without a group: the tasks are independent.
        CollectiveMode::Independent => view.read_at(buffer, at)?,
        _ => view.read_all_vectored_at(group, &mut [IoSliceMut::new(buffer)], at, &options)?,
    };
    ensure!(read == buffer.len(), "at {at} only {read} bytes were read");
    Ok(())
}

/// The maximum number of requests that an I/O daemon received when each task read its partition in
/// one call. The first calls open connections and present capabilities; the second ones are
/// counted.
fn requests(
    bench: &Bench,
    views: &[File],
    groups: &[ThreadGroup],
    mode: CollectiveMode,
    bytes: u64,
) -> Result<u64> {
    let mut buffers = vec![vec![0; (bytes as usize) / TASKS]; TASKS];
    let mut all = || {
        together(bench, &mut buffers, |rank, buffer| {
            read_together(&views[rank], &groups[rank], mode, 0, buffer)
        })
    };
    all()?;
    let calls = || bench.cluster()?.iod_metric("braid_iod_calls_total");
    let before = calls()?;
    all()?;
    let after = calls()?;
    Ok(after.iter().zip(&before).map(|(after, before)| after - before).max().unwrap_or_default())
}
