//! A union of three directories, with passthrough and without: pjdfstest, each of its cases, fsx,
//! histories, and the cases of a cluster that is mounted twice, here by two paths to one mount.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result};
use braid_testbed::braid::Braid;

use crate::{
    append,
    cases::{self, Counts, Outcome, TestDirs},
    fsx::{self, FsxArgs},
    history::{self, HistoryArgs},
    in_use, locks, mapped, pjdfstest, programs,
    stage::mount::Mount,
};

/// New files take turns on the branches, so that directories are on several of them.
const PLACEMENT: &str = "round-robin";
const BRANCHES: usize = 3;
/// A sample: the comparison of the bytes takes some milliseconds for each operation.
const FSX_OPS: u64 = 5_000;
const FSX_OPS_FULL: u64 = 5_000_000;
/// Rounds of histories.
const HISTORIES: u64 = 5;
const HISTORIES_FULL: u64 = 200;

/// A way to mount the union.
struct Way {
    name: &'static str,
    options: &'static [&'static str],
}

const WAYS: &[Way] = &[
    Way { name: "union_passthrough", options: &[] },
    Way { name: "union_no_passthrough", options: &["--no-passthrough"] },
];

/// Runs everything below `dir`. Without the program of pjdfstest its cases are skipped.
pub fn run(
    pjdfstest: Option<&Path>,
    braid: &Braid,
    dir: &Path,
    (seed, full): (u64, bool),
    counts: &mut Counts,
) -> Result<()> {
    for (number, Way { name, options }) in WAYS.iter().enumerate() {
        // Short: the path of a socket has 107 bytes, and pjdfstest uses most of them.
        let mut mount = start(braid, &dir.join(number.to_string()), options).context(*name)?;
        let ops = if full { FSX_OPS_FULL } else { FSX_OPS };
        note(counts, &format!("{name}::fsx"), || run_fsx(mount.point(), seed, ops));
        let cases = mount.point().join("cases");
        std::fs::create_dir(&cases)?;
        let ground = TestDirs { dirs: vec![cases.clone(), cases], full, seed };
        note(counts, &format!("{name}::history"), || run_history(&ground));
        for group in [locks::CASES, append::CASES, mapped::CASES, in_use::CASES] {
            cases::run_as(name, group, &ground, counts);
        }
        // They change more names than bytes: once is enough for a sample.
        if full || options.is_empty() {
            cases::run_as(name, programs::CASES, &ground, counts);
        }
        conformance(pjdfstest, name, mount.point(), counts);
        note(counts, &format!("{name}::sigterm_unmounts"), || {
            mount.stop().map(|took| Outcome::Passed(format!("{} ms", took.as_millis())))
        });
    }
    Ok(())
}

fn start(braid: &Braid, dir: &Path, options: &[&str]) -> Result<Mount> {
    let (meta, point) = (dir.join("meta"), dir.join("m"));
    let disks: Vec<PathBuf> = (0..BRANCHES).map(|disk| dir.join(format!("d{disk}"))).collect();
    disks.iter().try_for_each(std::fs::create_dir_all)?;
    let mut create: Vec<&Path> = ["union", "create", "test", "--min-free", "0", "--meta"]
        .map(Path::new)
        .into_iter()
        .chain([&*meta, Path::new("--placement"), Path::new(PLACEMENT)])
        .collect();
    create.extend(disks.iter().map(PathBuf::as_path));
    braid.run_successfully(create)?;
    Mount::start_union(braid, point, &meta, options)
}

fn run_fsx(point: &Path, seed: u64, ops: u64) -> Result<Outcome> {
    let dir = point.join("fsx");
    std::fs::create_dir(&dir)?;
    let done = fsx::run(&FsxArgs::of(vec![dir], seed, ops))?;
    Ok(Outcome::Passed(format!("{ops} operations: {}", done.counts())))
}

fn run_history(ground: &TestDirs) -> Result<Outcome> {
    let rounds = ground.size(HISTORIES, HISTORIES_FULL);
    let played = history::run(&HistoryArgs::of(ground.dirs.clone(), ground.seed, rounds))?;
    Ok(Outcome::Passed(format!("{} calls", played.calls)))
}

fn conformance(program: Option<&Path>, group: &str, point: &Path, counts: &mut Counts) {
    let Some(program) = program else {
        let why = "--pjdfstest FILE was not given".to_owned();
        return counts.note(group, Ok(Outcome::Skipped(why)), Default::default());
    };
    let (before, started) = (*counts, Instant::now());
    let dir = point.join("p");
    let done = std::fs::create_dir(&dir)
        .context("creating its directory")
        .and_then(|()| pjdfstest::run(program, &dir, group, pjdfstest::UNION_SKIPS, counts));
    if let Err(error) = done {
        counts.note(group, Err(error), started.elapsed());
    }
    println!(
        "{group}: {} cases passed, {} failed ({:.1} s)",
        counts.passed - before.passed,
        counts.failed - before.failed,
        started.elapsed().as_secs_f64()
    );
}

fn note(counts: &mut Counts, name: &str, case: impl FnOnce() -> Result<Outcome>) {
    let started = Instant::now();
    let outcome = case();
    counts.note(name, outcome, started.elapsed());
}
