//! One round: objects are created, threads run, all objects are read once more, and the calls are
//! checked.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Barrier},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use braid_types::Random;

use super::{
    attributes, file_words,
    linearizability::{Specification, TimedCall, find_order},
    listing, locking, log, names,
    register::{self, Register},
    small,
    test_thread::{CallInProgress, Clock, TestThread},
};

/// Objects of each kind: few, so that threads conflict.
const WORD_FILES: usize = 2;
const SMALL_FILES: usize = 2;
const CELLS: usize = 2;
const LOGS: usize = 1;
const LOCK_FILES: usize = 1;
const ATTRIBUTE_FILES: usize = 1;
/// How often the threads are checked for hung calls.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Maximum time until a killed mount is back.
const BACK_MAX: Duration = Duration::from_secs(60);
/// Number of violations that are printed.
const SHOWN: usize = 3;

/// The options of a round.
#[derive(Clone, Debug)]
pub struct Options {
    pub threads: usize,
    pub calls: u64,
    pub stripe: u64,
    /// Maximum time of a call.
    pub limit: Duration,
    pub plant: Option<u64>,
    /// Whether calls may fail, since servers are killed.
    pub errors_allowed: bool,
    /// Whether writes are synced, since a client is killed: only what the servers have is checked.
    pub durable: bool,
}

/// The result of a round.
#[derive(Default, Debug)]
pub struct RoundResult {
    pub calls: u64,
    pub longest: Duration,
    pub errors: BTreeMap<String, u64>,
}

impl RoundResult {
    /// Adds another result.
    pub fn absorb(&mut self, other: Self) {
        self.calls += other.calls;
        self.longest = self.longest.max(other.longest);
        other
            .errors
            .into_iter()
            .for_each(|(error, count)| *self.errors.entry(error).or_default() += count);
    }

    fn take(&mut self, player: &mut TestThread) {
        self.absorb(Self {
            calls: player.calls,
            longest: player.longest,
            errors: std::mem::take(&mut player.errors),
        });
    }
}

/// All recorded calls.
#[derive(Default)]
struct Record {
    words: Vec<TimedCall<register::Call>>,
    small: Vec<TimedCall<small::Call>>,
    names: Vec<TimedCall<names::Call>>,
    logs: Vec<TimedCall<log::Call>>,
    locks: Vec<TimedCall<locking::Call>>,
    attributes: Vec<TimedCall<register::Call>>,
    listings: Vec<TimedCall<listing::Listing>>,
}

impl Record {
    fn absorb(&mut self, other: Self) {
        self.words.extend(other.words);
        self.small.extend(other.small);
        self.names.extend(other.names);
        self.logs.extend(other.logs);
        self.locks.extend(other.locks);
        self.attributes.extend(other.attributes);
        self.listings.extend(other.listings);
    }
}

/// The initial state of the objects.
#[derive(Clone, Debug)]
struct Objects {
    places: [file_words::WordSet; WORD_FILES],
    anchors: [u64; CELLS],
    attributes: [u64; attributes::KINDS],
}

/// Runs a round in a new directory and checks it. `begin` is called when the objects exist,
/// `settle` when the threads have ended: servers must be up before `begin` and after `settle`.
pub fn play_round(
    dirs: &[PathBuf],
    seed: u64,
    options: &Options,
    begin: impl FnOnce(),
    settle: impl FnOnce() -> Result<()>,
) -> Result<RoundResult> {
    let name = format!("history-{seed}");
    let dirs: Vec<PathBuf> = dirs.iter().map(|dir| dir.join(&name)).collect();
    let objects = Arc::new(prepare(&dirs[0], options).context("create the objects of a round")?);
    let clock = Arc::new(Clock::new());
    let (mut record, mut played) = (Record::default(), RoundResult::default());
    begin();
    let outcome = let_loose(&dirs, seed, options, &objects, &clock);
    settle().context("after the threads ended")?;
    for (mut player, part, _) in outcome? {
        played.take(&mut player);
        record.absorb(part);
    }
    let (contents, wrong) =
        look_by_all(&dirs, options, &objects, &clock, &mut record, &mut played)?;
    ensure!(
        options.errors_allowed || played.errors.is_empty(),
        "calls failed: {:?}",
        played.errors
    );
    ensure!(played.longest <= options.limit, "a call took {:.1} s", played.longest.as_secs_f64());
    names::found_apart(&mut record.names, dirs.len());
    judge(record, &objects, &contents, wrong)?;
    fs::remove_dir_all(&dirs[0]).context("remove the directory of a round")?;
    Ok(played)
}

fn prepare(dir: &Path, options: &Options) -> Result<Objects> {
    fs::create_dir(dir)?;
    let places = std::array::from_fn(|file| file_words::WordSet {
        stripe: if file % 2 == 0 { options.stripe } else { 0 },
    });
    for (file, place) in places.iter().enumerate() {
        File::create(dir.join(file_words::name(file)))?.set_len(place.length())?;
    }
    for half in 0..2 {
        fs::create_dir(dir.join(format!("d{half}")))?;
        (0..listing::BYSTANDERS)
            .try_for_each(|at| File::create(dir.join(listing::bystander(half, at))).map(drop))?;
    }
    let make = |name: String| File::create(dir.join(name)).map(drop);
    (0..SMALL_FILES).try_for_each(|file| make(small::name(file)))?;
    (0..LOGS).try_for_each(|file| make(log::name(file)))?;
    (0..LOCK_FILES).try_for_each(|file| make(locking::name(file)))?;
    (0..ATTRIBUTE_FILES).try_for_each(|file| make(attributes::name(file)))?;
    let mut anchors = [0; CELLS];
    for (cell, number) in anchors.iter_mut().enumerate() {
        *number = File::create(dir.join(names::anchor(cell)))?.metadata()?.ino();
    }
    let attributes = attributes::initial(&dir.join(attributes::name(0)))?;
    Ok(Objects { places, anchors, attributes })
}

/// A thread that has ended, its record, and its locks: they are released with the file, which
/// outlives all threads.
type Part = (TestThread, Record, Option<File>);

/// Runs the threads to their ends, or reports the call that hangs.
fn let_loose(
    dirs: &[PathBuf],
    seed: u64,
    options: &Options,
    objects: &Arc<Objects>,
    clock: &Arc<Clock>,
) -> Result<Vec<Part>> {
    let start = Arc::new(Barrier::new(options.threads));
    let mut threads = Vec::new();
    for thread in 0..options.threads {
        let random = Random::new(seed.wrapping_mul(0x1000).wrapping_add(thread as u64));
        let dir = dirs[thread % dirs.len()].clone();
        let mut player = TestThread::new(thread, dir, random, Arc::clone(clock));
        (player.plant, player.durable) = (options.plant, options.durable);
        let (watched, objects, start) =
            (Arc::clone(&player.watched), Arc::clone(objects), Arc::clone(&start));
        let options = options.clone();
        threads
            .push((watched, std::thread::spawn(move || play(player, &objects, &options, &start))));
    }
    join(threads, options.limit, clock)
}

fn join(
    mut threads: Vec<(Arc<CallInProgress>, JoinHandle<Part>)>,
    limit: Duration,
    clock: &Clock,
) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    while !threads.is_empty() {
        if let Some(overdue) = threads.iter().find_map(|(watched, _)| watched.overdue(clock, limit))
        {
            bail!("over {} s without an answer: {overdue}", limit.as_secs());
        }
        let (done, left) = threads.into_iter().partition(|(_, thread)| thread.is_finished());
        threads = left;
        let done: Vec<(Arc<CallInProgress>, JoinHandle<Part>)> = done;
        for (_, thread) in done {
            parts
                .push(thread.join().map_err(|_| anyhow::anyhow!("a thread of the test panicked"))?);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(parts)
}

fn play(mut player: TestThread, objects: &Objects, options: &Options, start: &Barrier) -> Part {
    let (calls, errors_allowed) = (options.calls, options.errors_allowed);
    let mut record = Record::default();
    // Open for the whole round, since a close would release its locks. The locks of a killed client
    // are released at an unknown time: then no locks are used.
    let locks = File::options().read(true).write(true).open(player.dir.join(locking::name(0))).ok();
    let locks = locks.filter(|_| !options.durable);
    start.wait();
    for _ in 0..calls {
        let failures: u64 = player.errors.values().sum();
        one_call(&mut player, objects, locks.as_ref(), &mut record);
        // A thread whose mount is not back by then ends; that fails the round unless a server was
        // killed.
        let failed = player.errors.values().sum::<u64>() != failures;
        if failed && (!errors_allowed || !comes_back(&player.dir)) {
            break;
        }
    }
    (player, record, locks)
}

fn one_call(player: &mut TestThread, objects: &Objects, locks: Option<&File>, record: &mut Record) {
    match player.random.below(100) {
        0..35 => {
            let file = player.random.below(WORD_FILES as u64) as usize;
            file_words::play(player, file, objects.places[file], &mut record.words);
        }
        35..52 => {
            let file = player.random.below(SMALL_FILES as u64) as usize;
            small::play(player, file, &mut record.small);
        }
        52..77 => {
            let cell = player.random.below(CELLS as u64) as usize;
            names::play(player, cell, objects.anchors[cell], &mut record.names);
        }
        77..81 => {
            let dir = player.random.below(2) as usize;
            listing::play(player, dir, &mut record.listings);
        }
        81..89 => log::play(player, 0, &mut record.logs),
        89..93 => {
            if let Some(open) = locks {
                locking::play(player, 0, open, &mut record.locks);
            }
        }
        _ => attributes::play(player, 0, &mut record.attributes),
    }
}

/// After a failure: waits until the mount answers again.
fn comes_back(dir: &Path) -> bool {
    let started = Instant::now();
    while fs::metadata(dir).is_err() {
        if started.elapsed() > BACK_MAX {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}

/// Each mount reads everything. Returns the content of the log, and where two mounts differ.
fn look_by_all(
    dirs: &[PathBuf],
    options: &Options,
    objects: &Objects,
    clock: &Arc<Clock>,
    record: &mut Record,
    played: &mut RoundResult,
) -> Result<(Vec<u64>, Vec<String>)> {
    let mut seen: Option<(Vec<u64>, Vec<String>)> = None;
    let mut wrong: Vec<String> = Vec::new();
    for (at, dir) in dirs.iter().enumerate() {
        let mut player =
            TestThread::new(options.threads + at, dir.clone(), Random::new(0), Arc::clone(clock));
        look(&mut player, objects, record);
        ensure!(
            player.errors.is_empty(),
            "the last read through {}: {:?}",
            dir.display(),
            player.errors
        );
        let contents = log::contents(&mut player, 0).context("the last read of a log")?;
        played.take(&mut player);
        let found = (contents, tree(dir)?);
        if let Some(before) = &seen {
            if before.1 != found.1 {
                wrong.push(format!(
                    "two mounts see two trees:\n{}",
                    differences(&before.1, &found.1)
                ));
            }
            if before.0 != found.0 {
                wrong.push("two mounts see two logs".to_owned());
            }
        }
        seen = Some(found);
    }
    Ok((seen.context("no mount")?.0, wrong))
}

fn look(player: &mut TestThread, objects: &Objects, record: &mut Record) {
    (0..WORD_FILES)
        .for_each(|file| file_words::look(player, file, objects.places[file], &mut record.words));
    (0..SMALL_FILES).for_each(|file| small::look(player, file, &mut record.small));
    for cell in 0..CELLS {
        (0..names::NAMES).for_each(|name| names::look(player, cell, name, &mut record.names));
    }
    (0..attributes::KINDS)
        .for_each(|kind| attributes::look(player, 0, kind, &mut record.attributes));
    (0..2).for_each(|dir| listing::play(player, dir, &mut record.listings));
}

/// A sorted line for each entry below `root`: its name, and attributes that must be the same on
/// every mount.
fn tree(root: &Path) -> Result<Vec<String>> {
    let (mut lines, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            let found =
                fs::symlink_metadata(&path).with_context(|| format!("{}", path.display()))?;
            let name = path.strip_prefix(root)?.display();
            lines.push(format!(
                "{name} inode {} mode {:o} links {} size {} mtime {}.{:09}",
                found.ino(),
                found.mode(),
                found.nlink(),
                if found.is_dir() { 0 } else { found.len() },
                found.mtime(),
                found.mtime_nsec(),
            ));
            if found.is_dir() {
                open.push(path);
            }
        }
    }
    lines.sort();
    Ok(lines)
}

fn differences(one: &[String], other: &[String]) -> String {
    let only = |a: &[String], b: &[String], sign: &str| -> Vec<String> {
        a.iter().filter(|line| !b.contains(line)).map(|line| format!("  {sign} {line}")).collect()
    };
    [only(one, other, "-"), only(other, one, "+")].concat().join("\n")
}

fn judge(
    record: Record,
    objects: &Objects,
    contents: &[u64],
    mut wrong: Vec<String>,
) -> Result<()> {
    wrong.extend(each::<Register>("words", &record.words, |_| 0));
    wrong.extend(each::<Register>("attributes", &record.attributes, |object| {
        objects.attributes[object]
    }));
    wrong.extend(each::<small::Small>("small file", &record.small, |_| Vec::new()));
    wrong.extend(each::<names::Names>("names", &record.names, |_| {
        [names::Entry::Absent; names::NAMES]
    }));
    wrong.extend(each::<locking::Locks>("locks", &record.locks, |_| Default::default()));
    wrong.extend(listing::judge(&record.listings, &record.names, CELLS));
    match log::place(record.logs, contents) {
        Ok(placed) => wrong.extend(each::<log::Log>("log", &placed, |_| 0)),
        Err(why) => wrong.push(format!("log: {why}")),
    }
    let count = wrong.len();
    wrong.truncate(SHOWN);
    ensure!(count == 0, "{count} violations:\n{}", wrong.join("\n"));
    Ok(())
}

/// Checks each object of a kind separately.
fn each<S: Specification>(
    kind: &str,
    calls: &[TimedCall<S::Call>],
    initial: impl Fn(usize) -> S::State,
) -> Vec<String> {
    let mut objects: BTreeMap<usize, Vec<&TimedCall<S::Call>>> = BTreeMap::new();
    calls.iter().for_each(|call| objects.entry(call.object).or_default().push(call));
    let judged = objects
        .into_iter()
        .map(|(object, calls)| (object, find_order::<S>(initial(object), &calls)));
    judged
        .filter_map(|(object, outcome)| Some(format!("{kind} {object}: {}", outcome.err()?)))
        .collect()
}
