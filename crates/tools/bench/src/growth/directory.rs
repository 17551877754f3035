//! Entries of one directory, to 1,000,000: through the library, and through a mount.

use std::{cell::Cell, ops::Range, path::Path};

use anyhow::{Context, Result, anyhow, ensure};
use braid_client::{Client, LayoutHint};
use braid_mount_tests::stage::mount::Mount;
use braid_testbed::braid::Braid;

use super::{
    Growth, Plan,
    series::{Point, Series, Unit},
    stage::{Amount, Stage},
};
use crate::{
    daemons::IODS,
    pinning::{Pinning, pinned},
};

const DIRECTORY: &str = "/directory";
/// Number of threads that fill it.
const THREADS: u32 = 16;
/// Names that a sample creates, removes, and looks up.
const CHANGES: u64 = 8000;
const QUESTIONS: u64 = 16_000;
/// Minimum number of entries in the sample of a listing.
const ENTRIES: u64 = 50_000;
/// Minimum number of second lookups: all names of a small directory several times, or names all
/// over a large one, since a mount that cannot cache all of them caches the first.
const AGAIN: u64 = 100_000;

pub const PLAN: Plan = Plan {
    name: "directory",
    about: "entries of one directory: create, stat, list, remove; a mount that lists it and asks \
        for every name",
    size: "entries",
    sizes: &[1000, 10_000, 100_000, 250_000, 1_000_000],
    quick: &[1000, 10_000, 300_000],
    run,
};

fn run(growth: &Growth, sizes: &[u64]) -> Result<Vec<Series>> {
    let mut add = Series::flat("create", "a name more, by 16 threads", Unit::Each);
    let mut stat = Series::flat("stat", "of some name by path", Unit::Each);
    let mut remove = Series::flat("remove", "one of those names", Unit::Each);
    let mut list =
        Series::flat("list", "all entries in order, with attributes: of an entry", Unit::Each);
    let mut mounted = [
        Series::flat("mount_list", "a new mount lists it: of an entry", Unit::Each),
        Series::flat("mount_stat", "then asks for each name (lstat): of a name", Unit::Each)
            .with_memory_of("the mount"),
        Series::flat(
            "mount_stat_again",
            "and once more: of a large directory for 100,000 to 200,000 names all over it",
            Unit::Each,
        ),
    ];
    let stage = Stage::start(growth, IODS)?;
    let client = stage.client()?;
    client.mkdir(DIRECTORY, 0o755)?;
    let mut filled = 0;
    for &size in sizes {
        fill(&client, "f", filled..size)?;
        filled = size;
        let changes = growth.amount(CHANGES);
        // Of the names that a sample creates, and another removes.
        let there = Cell::new(false);
        let create = || {
            there.set(true);
            fill(&client, "more", 0..changes)
        };
        let unlink = || -> Result<()> {
            there.set(false);
            let mut names = (0..changes).map(|at| name("more", at));
            Ok(names.try_for_each(|name| client.unlink(name.as_str()))?)
        };
        let amount = Amount::Count(changes);
        let none = || if there.get() { unlink() } else { Ok(()) };
        add.push(stage.prepared_point(size, amount, 0, none, create)?);
        let questions = growth.amount(QUESTIONS);
        stat.push(
            stage.calls(size, Amount::Count(questions), 0, || ask(&client, size, questions))?,
        );
        let all = || if there.get() { Ok(()) } else { create() };
        remove.push(pinned(Pinning::OneCpu, &stage.cluster.pids(), || {
            stage.prepared_point(size, amount, 0, all, unlink)
        })?);
        let times = growth.amount(ENTRIES).div_ceil(size);
        let all = || (0..times).try_for_each(|_| entries(&client, size));
        list.push(stage.calls(size, Amount::Count(times * size), 0, all)?);
        if let Err(error) = may_mount() {
            growth.bench.note(format!("directory: without a mount: {error:#}"));
        } else {
            // Processes started inside inherit the pinning, also the mount.
            pinned(Pinning::OneCpu, &stage.cluster.pids(), || {
                through_mount(growth, &stage, size, &mut mounted)
            })?;
        }
    }
    let measured = mounted.into_iter().filter(|series| !series.is_empty());
    Ok([add, stat, remove, list].into_iter().chain(measured).collect())
}

fn name(kind: &str, number: u64) -> String {
    format!("{DIRECTORY}/{kind}{number}")
}

/// Creates new names, by all threads at the same time.
fn fill(client: &Client, kind: &str, numbers: Range<u64>) -> Result<()> {
    let each = (numbers.end - numbers.start).div_ceil(u64::from(THREADS)).max(1);
    std::thread::scope(|scope| {
        let starts = numbers.clone().step_by(each as usize);
        let threads: Vec<_> = starts
            .map(|first| {
                let own = first..(first + each).min(numbers.end);
                scope.spawn(move || add_names(client, kind, own))
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

fn add_names(client: &Client, kind: &str, mut numbers: Range<u64>) -> Result<()> {
    let made = numbers.try_for_each(|at| {
        client.touch(name(kind, at).as_str(), 0o644, true, LayoutHint::none()).map(drop)
    });
    made.map_err(Into::into)
}

/// Looks up names all over the directory.
fn ask(client: &Client, size: u64, count: u64) -> Result<()> {
    let mut some = (1..=count).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % size);
    some.try_for_each(|at| client.stat(name("f", at).as_str()).map(drop)).map_err(Into::into)
}

fn entries(client: &Client, size: u64) -> Result<()> {
    let mut count = 0;
    for entry in client.read_dir(DIRECTORY, true)? {
        entry?;
        count += 1;
    }
    ensure!(count == size, "{count} entries were listed of {size}");
    Ok(())
}

fn may_mount() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "this user may not mount");
    std::fs::File::open("/dev/fuse").context("/dev/fuse")?;
    Ok(())
}

/// The calls of `ls -l`, on a mount with an empty cache.
fn through_mount(
    growth: &Growth,
    stage: &Stage<'_>,
    size: u64,
    series: &mut [Series; 3],
) -> Result<()> {
    let braid = Braid::at(stage.cluster.binary().to_owned());
    // The cleanup of the run looks for a mount there.
    let point = growth.bench.scratch.join("braid");
    let mount = Mount::start(&braid, point, &stage.cluster.mds_address, &stage.cluster.key, &[])
        .context("mounting")?;
    let directory = mount.point().join(DIRECTORY.trim_start_matches('/'));
    let mut names = Vec::new();
    let amount = Amount::Count(size);
    let listed = stage.once(size, amount, || {
        names = std::fs::read_dir(&directory)?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<Result<_>>()?;
        ensure!(names.len() as u64 == size, "{} entries were listed of {size}", names.len());
        Ok(())
    })?;
    let of_mount = |mut point: Point| -> Result<Point> {
        point.memory.client = mount.memory_kib()? << 10;
        Ok(point)
    };
    series[0].push(of_mount(listed)?);
    series[1].push(of_mount(stage.once(size, amount, || ask_mount(&directory, &names))?)?);
    let wanted = growth.amount(AGAIN);
    let some: Vec<_> = names.into_iter().step_by((size / wanted).max(1) as usize).collect();
    let times = wanted.div_ceil(some.len() as u64);
    let again = || (0..times).try_for_each(|_| ask_mount(&directory, &some));
    series[2].push(of_mount(stage.once(size, Amount::Count(times * some.len() as u64), again)?)?);
    Ok(())
}

fn ask_mount(directory: &Path, names: &[std::ffi::OsString]) -> Result<()> {
    let mut path = directory.join("x");
    for name in names {
        path.set_file_name(name);
        rustix::fs::lstat(&path)?;
    }
    Ok(())
}
