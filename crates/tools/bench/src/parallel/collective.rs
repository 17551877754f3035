//! One collective call: as the library decides, through the daemons, and each task separately, by
//! access pattern.

use std::{
    cell::RefCell,
    io::{IoSlice, IoSliceMut},
    time::Duration,
};

use anyhow::{Result, ensure};
use braid_client::{
    BlockCyclicDimension, CollectiveMode, CollectiveOptions, File, Group, OpenOptions, ThreadGroup,
    View,
};

use super::{
    rate,
    tasks::{TASKS, Tasks, together},
};
use crate::{
    bench::{Bench, WorkCost},
    measure::Measure,
};

/// Never slower than independent calls, except for the noise of two medians.
const FACTOR: f64 = 0.9;
/// Bytes of a number in the arrays.
const ELEMENT_BYTES: u64 = 8;
const MODES: [(&str, CollectiveMode); 3] = [
    ("independent", CollectiveMode::Independent),
    ("daemons", CollectiveMode::Server),
    ("auto", CollectiveMode::Auto),
];

/// The tasks' accesses to a file of `bytes`.
struct Shape {
    name: &'static str,
    /// For each task its view, and how many bytes of it.
    parts: Vec<(View, u64)>,
    /// Whether no two tasks access the same byte.
    is_disjoint: bool,
}

/// `collective`.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let bytes = bench.size(256_u64 << 20, 16 << 20);
    let tasks = Tasks::open(
        bench,
        "/parallel-collective",
        &OpenOptions::new().read(true).write(true).create(true).stripe_size(64 << 10),
    )?;
    let groups = ThreadGroup::of(TASKS as u32);
    let mut measures = Vec::new();
    for shape in shapes(bytes)? {
        measures.extend(one_shape(bench, &tasks, &groups, &shape)?);
    }
    Ok(measures)
}

fn shapes(bytes: u64) -> Result<Vec<Shape>> {
    let each = bytes / TASKS as u64;
    let ranks = 0..TASKS as u64;
    let in_turn = |piece: u64| {
        let view = |rank: u64| (View::strided(rank * piece, piece, piece * TASKS as u64), each);
        ranks.clone().map(view).collect::<Vec<_>>()
    };
    // A square of numbers that fits, with a power of two as its width.
    let side = 1_u64 << ((bytes / ELEMENT_BYTES).ilog2() / 2);
    let half = side / 2;
    let tile = |rank: u64| {
        let starts = [rank / 2 * half, rank % 2 * half];
        Ok((
            View::subarray(0, &[side, side], &[half, half], &starts, ELEMENT_BYTES)?,
            half * half * ELEMENT_BYTES,
        ))
    };
    let dealt = |rank: u64| {
        let dimension = |task| BlockCyclicDimension { size: side, block: 32, tasks: 2, task };
        let view =
            View::block_cyclic(0, &[dimension(rank / 2), dimension(rank % 2)], ELEMENT_BYTES)?;
        Ok((view, half * half * ELEMENT_BYTES))
    };
    let whole = View::strided(0, bytes, bytes);
    Ok(vec![
        Shape { name: "in_turn_4k", parts: in_turn(4096), is_disjoint: true },
        Shape { name: "in_turn_1k", parts: in_turn(1024), is_disjoint: true },
        Shape {
            name: "contiguous",
            parts: ranks
                .clone()
                .map(|rank| (View::strided(rank * each, each, bytes), each))
                .collect(),
            is_disjoint: true,
        },
        Shape {
            name: "tiles",
            parts: ranks.clone().map(tile).collect::<Result<_>>()?,
            is_disjoint: true,
        },
        Shape {
            name: "block_cyclic",
            parts: ranks.clone().map(dealt).collect::<Result<_>>()?,
            is_disjoint: true,
        },
        Shape {
            name: "one_task",
            parts: ranks
                .clone()
                .map(|rank| (whole.clone(), if rank == 0 { each } else { 0 }))
                .collect(),
            is_disjoint: true,
        },
        Shape {
            name: "same_bytes",
            parts: ranks.map(|_| (whole.clone(), each)).collect(),
            is_disjoint: false,
        },
    ])
}

fn one_shape(
    bench: &Bench,
    tasks: &Tasks,
    groups: &[ThreadGroup],
    shape: &Shape,
) -> Result<Vec<Measure>> {
    let views: Vec<File> = tasks
        .files()
        .iter()
        .zip(&shape.parts)
        .map(|(file, (view, _))| Ok(file.with_view(view.clone())?))
        .collect::<Result<_>>()?;
    let sum: u64 = shape.parts.iter().map(|(_, bytes)| bytes).sum();
    let fill = |(rank, (_, bytes)): (usize, &(View, u64))| {
        let rank = if shape.is_disjoint { rank } else { 0 };
        (0..*bytes)
            .map(|at| (at / 512 * 5 + at % 249 + rank as u64 * 61) as u8)
            .collect::<Vec<u8>>()
    };
    let wanted: Vec<Vec<u8>> = shape.parts.iter().enumerate().map(fill).collect();
    // Written once before: the first write of a page costs more than the measured one.
    for (view, bytes) in views.iter().zip(&wanted) {
        view.write_at(bytes, 0)?;
    }
    let buffers = RefCell::new(wanted.clone());
    let mut measures = Vec::new();
    for is_write in [false, true] {
        if is_write && !shape.is_disjoint {
            continue;
        }
        let way = |mode: CollectiveMode| {
            let (views, buffers) = (&views, &buffers);
            move || {
                let options = CollectiveOptions { mode, ..CollectiveOptions::default() };
                together(bench, &mut buffers.borrow_mut(), |rank, buffer| {
                    let (view, group) = (&views[rank], &groups[rank]);
                    let done = match is_write {
                        true => {
                            view.write_all_vectored_at(group, &[IoSlice::new(buffer)], 0, &options)?
                        }
                        false => view.read_all_vectored_at(
                            group,
                            &mut [IoSliceMut::new(buffer)],
                            0,
                            &options,
                        )?,
                    };
                    ensure!(done == buffer.len(), "only {done} bytes of {}", buffer.len());
                    Ok(())
                })
            }
        };
        let mut ways: Vec<_> = MODES.iter().map(|(_, mode)| way(*mode)).collect();
        let mut variants: Vec<&mut dyn FnMut() -> Result<WorkCost>> =
            ways.iter_mut().map(|way| way as &mut dyn FnMut() -> Result<WorkCost>).collect();
        let samples = bench.alternate::<WorkCost>(&mut variants)?;
        ensure!(
            *buffers.borrow() == wanted,
            "{}: the bytes read differ from those written",
            shape.name
        );
        measures.extend(rates(if is_write { "write" } else { "read" }, shape.name, &samples, sum));
    }
    check(groups, &views, &wanted)?;
    Ok(measures)
}

fn rates(what: &str, shape: &str, samples: &[Vec<WorkCost>], bytes: u64) -> Vec<Measure> {
    let of = |((mode, _), taken): (&(&str, CollectiveMode), &Vec<WorkCost>)| {
        rate(format!("collective.{what}.{shape}.{mode}"), taken, bytes)
    };
    let mut measures: Vec<Measure> = MODES.iter().zip(samples).map(of).collect();
    let independent = measures[0].plain.summary.median;
    let auto = measures.pop().expect("there are three ways");
    measures.push(
        auto.at_least(FACTOR * independent, format!("{FACTOR} x independent, {independent:.0}")),
    );
    measures
}

/// The bytes of all tasks are in the file, each once.
fn check(groups: &[ThreadGroup], views: &[File], wanted: &[Vec<u8>]) -> Result<()> {
    // A group that still meets: no task failed before.
    std::thread::scope(|scope| {
        let meet =
            |group| scope.spawn(move || Group::all_gather(group, &[], Duration::from_secs(30)));
        let met: Vec<_> = groups.iter().map(meet).collect();
        met.into_iter().try_for_each(|met| met.join().expect("a task does not panic").map(drop))
    })?;
    for (rank, (view, wanted)) in views.iter().zip(wanted).enumerate() {
        let mut found = vec![0; wanted.len()];
        ensure!(
            view.read_at(&mut found, 0)? == wanted.len() && found == *wanted,
            "task {rank}'s bytes are missing"
        );
    }
    Ok(())
}
