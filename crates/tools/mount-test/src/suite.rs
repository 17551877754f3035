//! All tests, on a cluster of its own that is mounted twice: the suite of `cargo xtask test --only
//! mount`.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use braid_testbed::{braid::Braid, scratch::scratch};
use clap::Args;

use crate::{
    append,
    cases::{self, Case, Counts, Outcome, TestDirs},
    consistency,
    fsx::{self, FsxArgs},
    history::{self, HistoryArgs},
    huge_directory, in_use, locks, mapped, pjdfstest, power, programs, quota,
    scratch_cluster::{self, ScratchCase, ScratchCluster},
    space,
    stage::{TestCluster, kill, mount::Mount},
    union,
};

/// Operations of fsx on one mount.
const FSX_OPS: u64 = 25_000;
/// Operations through two mounts, where each may wait for the other's leases: up to 3 ms each on
/// two busy processors.
const FSX_OPS_TWO: u64 = 15_000;
const FSX_OPS_FULL: u64 = 10_000_000;
/// Rounds of histories.
const ROUNDS: u64 = 15;
const ROUNDS_FULL: u64 = 500;
/// Rounds in which a process is killed.
const KILLS: u64 = 8;
const KILLS_FULL: u64 = 100;
/// Rounds on one cluster; then a new one starts.
const KILLS_PER_STAGE: u64 = 10;

/// Cases that start their own cluster.
const OWN: &[&[ScratchCase]] = &[space::CASES, power::CASES, huge_directory::CASES, mapped::OWN];

/// `braid-mount-test suite`.
#[derive(Args, Clone, Debug)]
pub struct SuiteArgs {
    /// The long form
    #[arg(long)]
    full: bool,
    /// Only groups and cases with this in their names: fsx, history, locks, append, mapped, in_use,
    /// programs, consistency, quota, pjdfstest, stop, union, space, power, crowd, kill
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// The seed of random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program of pjdfstest; without it its cases are skipped
    #[arg(long, value_name = "FILE")]
    pjdfstest: Option<PathBuf>,
    /// Operations of fsx on each mount
    #[arg(long, value_name = "N")]
    ops: Option<u64>,
    /// Rounds in which a process is killed
    #[arg(long, value_name = "N")]
    kills: Option<u64>,
    /// Directory of the cluster [default: in memory, where that has extended attributes]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs it; returns true when nothing failed.
pub fn run(args: &SuiteArgs) -> Result<bool> {
    let mut counts = Counts::default();
    if let Some(why) = cannot_mount() {
        counts.note("the mount", Ok(Outcome::Skipped(why)), Default::default());
        println!("{}", counts.closing_line());
        return Ok(true);
    }
    let (braid, dir) = (Braid::find()?, args.dir.clone().unwrap_or_else(scratch));
    let dir = dir.join(format!("braid-mt-{}", std::process::id()));
    on_two_mounts(args, &braid, &dir.join("two"), &mut counts)?;
    if args.wants("union") {
        let program = args.pjdfstest.as_deref();
        union::run(program, &braid, &dir.join("u"), (args.seed, args.full), &mut counts)?;
    }
    let yard = ScratchCluster {
        braid: braid.clone(),
        dir: dir.join("own"),
        full: args.full,
        seed: args.seed,
    };
    OWN.iter().try_for_each(|group| scratch_cluster::run(group, &args.only, &yard, &mut counts))?;
    if args.wants("kill") {
        kills(args, &braid, &dir, &mut counts)?;
    }
    if counts.failed == 0 {
        std::fs::remove_dir_all(&dir)?;
    } else {
        println!("kept in {}", dir.display());
    }
    println!("{}", counts.closing_line());
    Ok(counts.failed == 0)
}

/// The reason why nothing can be mounted here, if so.
pub(crate) fn cannot_mount() -> Option<String> {
    if !Path::new("/dev/fuse").exists() {
        return Some("/dev/fuse does not exist; try: modprobe fuse".to_owned());
    }
    (!rustix::process::geteuid().is_root())
        .then(|| "mounting for other users needs root".to_owned())
}

impl SuiteArgs {
    /// Whether this group, or a case of it, was requested.
    fn wants(&self, group: &str) -> bool {
        self.only.is_empty()
            || self.only.iter().any(|word| word.starts_with(group) || group.contains(word.as_str()))
    }

    fn size<T>(&self, short: T, full: T) -> T {
        if self.full { full } else { short }
    }
}

fn on_two_mounts(args: &SuiteArgs, braid: &Braid, dir: &Path, counts: &mut Counts) -> Result<()> {
    let mut stage =
        TestCluster::start(braid, dir, 2).context("start a cluster and mount it twice")?;
    if args.wants("fsx") {
        note(counts, "fsx::one_mount", || fsx_on(args, &stage, 1));
        note(counts, "fsx::two_mounts", || fsx_on(args, &stage, 2));
    }
    if args.wants("history") {
        note(counts, "history::two_mounts", || history_on(args, &stage));
    }
    let ground = TestDirs { dirs: stage.dirs("cases")?, full: args.full, seed: args.seed };
    for group in [locks::CASES, append::CASES, mapped::CASES, in_use::CASES, programs::CASES] {
        run_group(args, group, &ground, counts);
    }
    if args.wants("consistency") {
        on_weak_mounts(args, braid, &stage, counts)?;
    }
    if args.wants("quota") {
        note(counts, "quota::two_mounts_enforce_the_quota_of_a_directory", || {
            quota::directory(&stage)
        });
        note(counts, "quota::two_mounts_enforce_the_quota_of_a_user_and_chown_moves_usage", || {
            quota::user(&stage)
        });
        note(
            counts,
            "quota::two_mounts_enforce_the_quota_of_a_group_and_chgrp_moves_usage",
            || quota::group(&stage),
        );
    }
    if args.wants("pjdfstest") {
        conformance(args, &stage, counts)?;
    }
    note(counts, "mount::fsck_is_clean_and_no_process_hangs", || {
        stage.check().and_then(|()| Outcome::passed())
    });
    if args.wants("stop") {
        note(counts, "mount::sigterm_unmounts", || stops(&mut stage));
    }
    Ok(())
}

fn run_group(args: &SuiteArgs, group: &[Case], ground: &TestDirs, counts: &mut Counts) {
    let of_group = group.first().and_then(|case| case.name.split("::").next()).unwrap_or_default();
    let whole = args.only.iter().any(|word| word == of_group);
    cases::run(group, if whole { &[] } else { &args.only }, ground, counts);
}

/// On mounts of their own, which end with the group.
fn on_weak_mounts(
    args: &SuiteArgs,
    braid: &Braid,
    stage: &TestCluster,
    counts: &mut Counts,
) -> Result<()> {
    let mounted = consistency::OPTIONS.iter().enumerate();
    let mounted =
        mounted.map(|(at, option)| stage.mount_again(braid, &format!("w{at}"), &[option]));
    let mut mounts: Vec<Mount> = mounted.collect::<Result<_>>()?;
    let dirs: Vec<PathBuf> = mounts.iter().map(|mount| mount.point().join("consistency")).collect();
    std::fs::create_dir_all(&dirs[0])?;
    run_group(
        args,
        consistency::CASES,
        &TestDirs { dirs, full: args.full, seed: args.seed },
        counts,
    );
    mounts.iter_mut().try_for_each(|mount| mount.stop().map(drop))
}

fn note(counts: &mut Counts, name: &str, case: impl FnOnce() -> Result<Outcome>) {
    let started = Instant::now();
    let outcome = case();
    counts.note(name, outcome, started.elapsed());
}

fn fsx_on(args: &SuiteArgs, stage: &TestCluster, mounts: usize) -> Result<Outcome> {
    let short = if mounts == 1 { FSX_OPS } else { FSX_OPS_TWO };
    let ops = args.ops.unwrap_or(args.size(short, FSX_OPS_FULL));
    let mut dirs = stage.dirs("fsx")?;
    dirs.truncate(mounts);
    let done = fsx::run(&FsxArgs::of(dirs, args.seed, ops))?;
    ensure!(done.refused().is_empty(), "the mount does not support: {}", done.refused());
    let daemons = done.daemons().context("the mount does not report the file's layout")?;
    let (counts, dearest) = (done.counts(), done.dearest());
    Ok(Outcome::Passed(format!(
        "{ops} operations over {daemons} daemons: {counts}; time: {dearest}"
    )))
}

fn history_on(args: &SuiteArgs, stage: &TestCluster) -> Result<Outcome> {
    let rounds = args.size(ROUNDS, ROUNDS_FULL);
    let history = HistoryArgs::of(stage.dirs("history")?, args.seed, rounds);
    let played = history::run(&history)?;
    Ok(Outcome::Passed(format!(
        "{} calls, the longest {:.2} s",
        played.calls,
        played.longest.as_secs_f64()
    )))
}

fn conformance(args: &SuiteArgs, stage: &TestCluster, counts: &mut Counts) -> Result<()> {
    let Some(program) = &args.pjdfstest else {
        counts.note(
            "pjdfstest",
            Ok(Outcome::Skipped("--pjdfstest FILE was not given".to_owned())),
            Default::default(),
        );
        return Ok(());
    };
    // Short: the path of a socket has 107 bytes, and the suite uses most of them.
    let dir = stage.dirs("p")?.remove(0);
    let (before, started) = (*counts, Instant::now());
    if let Err(error) = pjdfstest::run(program, &dir, "pjdfstest", pjdfstest::SKIPS, counts) {
        counts.note("pjdfstest", Err(error), started.elapsed());
    }
    let (passed, seconds) = (counts.passed - before.passed, started.elapsed().as_secs_f64());
    println!(
        "pjdfstest: {passed} cases passed, {} failed ({seconds:.1} s)",
        counts.failed - before.failed
    );
    Ok(())
}

fn stops(stage: &mut TestCluster) -> Result<Outcome> {
    let mut words = Vec::new();
    for mount in &mut stage.mounts {
        let took = mount.stop().with_context(|| mount.point().display().to_string())?;
        words.push(format!("{} ms", took.as_millis()));
    }
    Ok(Outcome::Passed(words.join(", ")))
}

fn kills(args: &SuiteArgs, braid: &Braid, dir: &Path, counts: &mut Counts) -> Result<()> {
    let rounds = args.kills.unwrap_or(args.size(KILLS, KILLS_FULL));
    let mut done = 0;
    while done < rounds {
        let mut stage = TestCluster::start(braid, &dir.join(format!("kill{done}")), 2)?;
        let mut failed = false;
        let last = rounds.min(done + KILLS_PER_STAGE);
        while done < last && !failed {
            let number = done;
            let seed = args.seed.wrapping_mul(1 << 20).wrapping_add(number);
            let name = format!("kill::round_{number}_of_seed_{}", args.seed);
            let before = counts.failed;
            note(counts, &name, || kill::round(&mut stage, seed).map(Outcome::Passed));
            done += 1;
            failed = counts.failed > before;
        }
        let kept = stage.dir().to_owned();
        drop(stage);
        if !failed {
            std::fs::remove_dir_all(kept)?;
        }
    }
    Ok(())
}
