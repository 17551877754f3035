//! Tasks with interleaved blocks, each separately: through a view, and one call for each block.

use anyhow::{Result, ensure};
use braid_client::{File, OpenOptions, View};

use super::{
    mounted::{Mounted, read_blocks, write_blocks},
    rate,
    tasks::{TASKS, Tasks, together},
};
use crate::{
    bench::{Bench, WorkCost},
    measure::Measure,
};

/// Bytes of a block.
const BLOCK_BYTES: usize = 4096;
/// Distance of two blocks of a task: the other tasks' blocks are between them.
const STRIDE_BYTES: usize = TASKS * BLOCK_BYTES;
/// The target, compared with one call for each block on the mount.
const FACTOR: f64 = 10.0;
const PATH: &str = "/parallel-strided";

/// `strided`.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let bytes = bench.size(256_u64 << 20, 32 << 20);
    let tasks = Tasks::open(bench, PATH, &OpenOptions::new().read(true).write(true).create(true))?;
    let views: Vec<File> = (0..TASKS)
        .map(|rank| Ok(tasks.files()[rank].with_view(view(rank))?))
        .collect::<Result<_>>()?;
    let mut buffers = [0, 1, 2, 3].map(|rank| pattern(rank, bytes as usize / TASKS));
    together(bench, &mut buffers, |rank, buffer| write_view(&views[rank], buffer))?;
    check(&tasks, bytes)?;
    let mounted = Mounted::start(bench)?;
    let mut measures = Vec::new();
    for is_write in [false, true] {
        measures.extend(one_way(
            bench,
            is_write,
            bytes,
            &tasks,
            &views,
            mounted.as_ref(),
            &mut buffers,
        )?);
        check(&tasks, bytes)?;
    }
    Ok(measures)
}

/// A task's view: 4 KiB of every 16 KiB.
fn view(rank: usize) -> View {
    View::strided((rank * BLOCK_BYTES) as u64, BLOCK_BYTES as u64, STRIDE_BYTES as u64)
}

/// One direction, by every method.
fn one_way(
    bench: &Bench,
    is_write: bool,
    bytes: u64,
    tasks: &Tasks,
    views: &[File],
    mounted: Option<&Mounted>,
    buffers: &mut [Vec<u8>],
) -> Result<Vec<Measure>> {
    let name = if is_write { "strided.write" } else { "strided.read" };
    let buffers = std::cell::RefCell::new(buffers);
    let mut through_views = || {
        together(bench, &mut buffers.borrow_mut(), |rank, buffer| match is_write {
            true => write_view(&views[rank], buffer),
            false => read_view(&views[rank], buffer),
        })
    };
    let mut block_by_block = || {
        together(bench, &mut buffers.borrow_mut(), |rank, buffer| {
            library_blocks(&tasks.files()[rank], rank, is_write, buffer)
        })
    };
    let mut on_the_mount;
    let mut variants: Vec<&mut dyn FnMut() -> Result<WorkCost>> =
        vec![&mut through_views, &mut block_by_block];
    if let Some(mounted) = mounted {
        on_the_mount = || {
            mounted.cold()?;
            let files = mounted.open(PATH, is_write)?;
            together(bench, &mut buffers.borrow_mut(), |rank, buffer| {
                let first = (rank * BLOCK_BYTES) as u64;
                match is_write {
                    true => write_blocks(&files[rank], buffer, BLOCK_BYTES, first, STRIDE_BYTES),
                    false => read_blocks(&files[rank], buffer, BLOCK_BYTES, first, STRIDE_BYTES),
                }
            })
        };
        variants.push(&mut on_the_mount);
    }
    let samples = bench.alternate::<WorkCost>(&mut variants)?;
    for (rank, buffer) in buffers.borrow().iter().enumerate() {
        ensure!(
            *buffer == pattern(rank, buffer.len()),
            "task {rank} read bytes that it did not write"
        );
    }
    let mut view = rate(format!("{name}.views"), &samples[0], bytes);
    let each = rate(format!("{name}.call_per_block"), &samples[1], bytes);
    let mount =
        samples.get(2).map(|taken| rate(format!("{name}.call_per_block_on_mount"), taken, bytes));
    if let Some(mount) = &mount {
        let slow = mount.plain.summary.median;
        view = view.at_least(
            FACTOR * slow,
            format!("{FACTOR} x one call for each block on the mount, {slow:.0}"),
        );
    }
    Ok(mount.into_iter().chain([each, view]).collect())
}

/// Bytes that identify their task and their position.
fn pattern(rank: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / BLOCK_BYTES * 7 + at % 251 + rank * 64) as u8).collect()
}

fn read_view(view: &File, buffer: &mut [u8]) -> Result<()> {
    let read = view.read_at(buffer, 0)?;
    ensure!(read == buffer.len(), "only {read} bytes were read");
    Ok(())
}

fn write_view(view: &File, buffer: &[u8]) -> Result<()> {
    view.write_at(buffer, 0)?;
    Ok(())
}

fn library_blocks(file: &File, rank: usize, is_write: bool, buffer: &mut [u8]) -> Result<()> {
    for (block, at) in
        buffer.chunks_mut(BLOCK_BYTES).zip(((rank * BLOCK_BYTES) as u64..).step_by(STRIDE_BYTES))
    {
        let done = if is_write { file.write_at(block, at)? } else { file.read_at(block, at)? };
        ensure!(done == block.len(), "at {at} only {done} bytes");
    }
    Ok(())
}

/// The whole file, read in order, has every task's blocks.
fn check(tasks: &Tasks, bytes: u64) -> Result<()> {
    let mut all = vec![0; bytes as usize];
    read_view(&tasks.files()[0], &mut all)?;
    for rank in 0..TASKS {
        let blocks = all.chunks(BLOCK_BYTES).skip(rank).step_by(TASKS);
        let wanted = pattern(rank, all.len() / TASKS);
        ensure!(
            blocks.eq(wanted.chunks(BLOCK_BYTES)),
            "the file lacks bytes that task {rank} wrote"
        );
    }
    Ok(())
}
