//! Directories with very many names: a listing has each name once, also while other names come and
//! go, and uses a bounded amount of the mount's memory.

use std::{
    collections::HashSet,
    fs::{self, File},
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use braid_client::{Client, LayoutHint};

use crate::{
    cases::Outcome,
    scratch_cluster::{ScratchCase, ScratchCluster},
    stage::TestCluster,
};

pub const CASES: &[ScratchCase] =
    &[ScratchCase { name: "crowd::a_huge_directory_is_listed_whole", run: listed }];

/// Number of names.
const NAMES: usize = 100_000;
const NAMES_FULL: usize = 1_000_000;
/// Threads that create them through the library, since the mount is what is tested.
const MAKERS: usize = 4;
/// Names that come and go meanwhile.
const PASSING: usize = 64;
/// Maximum growth of the mount process's memory by listings, in KiB. The mount caches the names of
/// 262,144 files (`FILES_MAX` of `braid-vfs`) in directories of any size.
const GROWTH_MAX_KIB: u64 = 192 << 10;

fn listed(yard: &ScratchCluster) -> Result<Outcome> {
    let mut stage = TestCluster::start(&yard.braid, &yard.dir, 2)?;
    let dirs = stage.dirs("crowd")?;
    let names = if yard.full { NAMES_FULL } else { NAMES };
    let mut words = vec![timed("made", || make(&stage, names))?];
    let before = stage.mounts[0].memory_kib()?;
    words.push(timed("readdir", || judge(&dirs[0], names, 0))?);
    words.push(timed("ls -f", || counted(&dirs[0], "ls -f . | wc -l", names + 2))?);
    words.push(timed("find", || counted(&dirs[0], "find . | wc -l", names + 1))?);
    words
        .push(timed("stat of all", || counted(&dirs[0], "find . -type f -size 0 | wc -l", names))?);
    words.push(timed("readdir under change", || under_change(&dirs[0], &dirs[1], names))?);
    let after = stage.mounts[0].memory_kib()?;
    ensure!(
        after <= before + GROWTH_MAX_KIB,
        "the mount used {before} KiB before, and {after} KiB now"
    );
    words.push(timed("removed", || remove(&stage, names))?);
    fs::remove_dir(&dirs[1])?;
    stage.check()?;
    Ok(Outcome::Passed(format!(
        "{names} names: {}; {} to {} MiB",
        words.join(", "),
        before >> 10,
        after >> 10
    )))
}

fn timed(what: &str, run: impl FnOnce() -> Result<()>) -> Result<String> {
    let started = Instant::now();
    run().context(what.to_owned())?;
    Ok(format!("{what} {:.1} s", started.elapsed().as_secs_f64()))
}

fn name(number: usize) -> String {
    format!("name-{number:07}-as-long-as-usual")
}

fn make(stage: &TestCluster, names: usize) -> Result<()> {
    by_many(stage, names, |client, path| {
        client.touch(path, 0o644, true, LayoutHint::default()).map(drop)
    })
}

fn remove(stage: &TestCluster, names: usize) -> Result<()> {
    by_many(stage, names, |client, path| client.unlink(path))
}

/// Runs `act` on every name, in several threads.
fn by_many(
    stage: &TestCluster,
    names: usize,
    act: impl Fn(&Client, &str) -> Result<(), braid_client::Error> + Sync,
) -> Result<()> {
    let client = stage.cluster.client()?;
    std::thread::scope(|scope| {
        let (client, act) = (&client, &act);
        let own = |maker: usize| {
            move || {
                (maker..names)
                    .step_by(MAKERS)
                    .try_for_each(|at| act(client, &format!("/crowd/{}", name(at))))
            }
        };
        let makers: Vec<_> = (0..MAKERS).map(|maker| scope.spawn(own(maker))).collect();
        for maker in makers {
            maker.join().map_err(|_| anyhow::anyhow!("a maker panicked"))??;
        }
        Ok(())
    })
}

/// Every name is listed once; names that come and go at most once.
fn judge(dir: &Path, names: usize, passing: usize) -> Result<()> {
    let (mut seen, mut guests) = (vec![false; names], HashSet::new());
    for entry in fs::read_dir(dir)? {
        let found = entry?
            .file_name()
            .into_string()
            .map_err(|name| anyhow::anyhow!("an unknown name: {name:?}"))?;
        let number = found.get(5..12).and_then(|digits| digits.parse::<usize>().ok());
        match number.filter(|number| *number < names && name(*number) == found) {
            Some(number) => ensure!(!std::mem::replace(&mut seen[number], true), "{found} twice"),
            None => {
                ensure!(passing > 0 && found.starts_with("passing-"), "an unknown name: {found}");
                ensure!(guests.insert(found.clone()), "{found} twice");
            }
        }
    }
    let missing = seen.iter().position(|seen| !seen);
    ensure!(missing.is_none(), "{} is missing", missing.map(name).unwrap_or_default());
    Ok(())
}

/// Another mount creates, renames and removes names while this one lists.
fn under_change(here: &Path, there: &Path, names: usize) -> Result<()> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changer = scope.spawn(|| change(there, &done));
        let outcome = judge(here, names, PASSING);
        done.store(true, Ordering::Relaxed);
        let changes = changer.join().map_err(|_| anyhow::anyhow!("the changer panicked"))??;
        outcome?;
        ensure!(changes > 0, "nothing changed meanwhile");
        judge(here, names, 0)
    })
}

/// Each name only once: a name that is removed and created again may be listed twice.
fn change(dir: &Path, done: &AtomicBool) -> Result<u64> {
    let mut made = 0;
    while made == 0 || !done.load(Ordering::Relaxed) {
        let batch: Vec<_> =
            (0..PASSING).map(|at| dir.join(format!("passing-{}", made + at as u64))).collect();
        batch.iter().try_for_each(|path| File::create_new(path).map(drop))?;
        batch.iter().try_for_each(fs::remove_file)?;
        made += PASSING as u64;
    }
    Ok(made)
}

fn counted(dir: &Path, script: &str, wanted: usize) -> Result<()> {
    let output = Command::new("sh").args(["-euc", script]).current_dir(dir).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && said.trim() == wanted.to_string(),
        "{script}: {}, not {wanted}",
        said.trim()
    );
    Ok(())
}
