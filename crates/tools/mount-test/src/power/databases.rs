//! SQLite's test of a loss of power, with the whole cluster and the mount as the machine that loses it.
//!
//! ```text
//!   sqlite3 ── transaction 1 ── "done 1" ── transaction 2 ── … ─╳ everything killed, the disks stopped without a flush
//!                                                               │ mounted again, from what had been forced
//!   sqlite3 ── integrity_check, count ── as many as were acknowledged, or the one more that was under way
//! ```

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use braid_types::Random;

use crate::{
    cases::Outcome,
    programs::{missing, sh},
    stage::{Stage, until},
    yard::Yard,
};

/// Journal modes, and with what SQLite itself promises that a committed transaction stays: when a journal that is deleted
/// is the commit, `FULL` lets the last one be rolled back (its manual: `PRAGMA synchronous`, EXTRA).
const MODES: [(&str, &str); 3] = [("wal", "full"), ("truncate", "full"), ("delete", "extra")];
/// Losses of power, each under a database of every mode.
const LOSSES: u32 = 3;
const LOSSES_FULL: u32 = 40;
/// Transactions that are acknowledged before, and then a moment more: in the middle of one.
const TRANSACTIONS_MAX: u64 = 40;
const WRITTEN_MAX: Duration = Duration::from_secs(120);
const MOMENT_US: u64 = 20_000;
/// A few pages each, over the stripes of several daemons.
const LAYOUT: &str = "stripe-size=65536 iod-count=4";
const BYTES: u32 = 20_000;

pub(super) fn run(yard: &Yard) -> Result<Outcome> {
    if let Some(skipped) = missing("sqlite3", "sqlite3") {
        return Ok(skipped);
    }
    let mut stage = match yard.on_disks(1)? {
        Ok(stage) => stage,
        Err(skipped) => return Ok(skipped),
    };
    let mut bases =
        MODES.iter().map(|mode| Base::create(&stage, *mode)).collect::<Result<Vec<_>>>()?;
    let losses = if yard.full { LOSSES_FULL } else { LOSSES };
    let mut random = Random::new(yard.seed);
    for loss in 0..losses {
        lose_power_under(&mut stage, &mut bases, &mut random)
            .with_context(|| format!("loss {loss}"))?;
        bases.iter_mut().try_for_each(|base| {
            base.judge().with_context(|| format!("{}, loss {loss}", base.mode.0))
        })?;
    }
    // What was never forced may have left objects of files that are no more.
    stage.cluster.fsck_mended()?;
    stage.check()?;
    let words = bases
        .iter()
        .map(|base| format!("{} {}", base.mode.0, base.transactions))
        .collect::<Vec<_>>();
    Ok(Outcome::Passed(format!("{losses} losses; transactions: {}", words.join(", "))))
}

/// A database, and how many transactions it must have.
struct Base {
    mode: (&'static str, &'static str),
    dir: PathBuf,
    transactions: u64,
}

impl Base {
    fn create(stage: &Stage, mode: (&'static str, &'static str)) -> Result<Self> {
        let (journal, dir) = (mode.0, stage.dirs(mode.0)?.remove(0));
        rustix::fs::setxattr(
            &dir,
            "user.braid.layout",
            LAYOUT.as_bytes(),
            rustix::fs::XattrFlags::empty(),
        )?;
        let create = format!(
            "sqlite3 base 'pragma journal_mode={journal}; create table entries(n integer, text blob);'"
        );
        sh(&dir, &create, &[])?;
        Ok(Self { mode, dir, transactions: 0 })
    }

    /// One transaction after the other, until there is no disk any more; counts those that were acknowledged.
    fn write(&mut self, acknowledged: &AtomicU64) -> Result<()> {
        let mut writer = Writer::start(&self.dir, self.mode)?;
        while writer.begin(self.transactions) && writer.acknowledged()? {
            self.transactions += 1;
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Every transaction that was acknowledged is there, and perhaps the one that was under way.
    fn judge(&mut self) -> Result<()> {
        let found = found(&self.dir)?;
        let wanted = self.transactions;
        ensure!(
            found == wanted || found == wanted + 1,
            "{found} transactions are there, {wanted} were acknowledged"
        );
        self.transactions = found;
        Ok(())
    }
}

/// Transactions in all of them until the power fails.
fn lose_power_under(stage: &mut Stage, bases: &mut [Base], random: &mut Random) -> Result<()> {
    let wanted = random.below(TRANSACTIONS_MAX) + 1;
    let counts: Vec<_> = bases.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let pairs = bases.iter_mut().zip(&counts);
        let writers: Vec<_> =
            pairs.map(|(base, count)| scope.spawn(move || base.write(count))).collect();
        let enough = || Ok(counts.iter().all(|count| count.load(Ordering::Relaxed) >= wanted));
        let begun = until("every database has enough transactions", WRITTEN_MAX, enough);
        // Somewhere in one.
        std::thread::sleep(Duration::from_micros(random.below(MOMENT_US)));
        let lost = stage.power_off();
        for writer in writers {
            writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))??;
        }
        begun.and(lost)
    })
}

/// Integrity, and transactions without a gap; how many.
fn found(dir: &Path) -> Result<u64> {
    let script = "sqlite3 base 'pragma integrity_check; select count(*), coalesce(max(n) + 1, 0) from entries;'";
    let said = sh(dir, script, &[])?;
    let lines: Vec<&str> = said.lines().collect();
    ensure!(lines.len() == 2 && lines[0] == "ok", "{}", lines.join(" | "));
    let (count, end) = lines[1].split_once('|').context("no two numbers")?;
    ensure!(count == end, "{count} transactions, the last of which is number {end}");
    Ok(count.parse()?)
}

/// A shell of SQLite; killed when dropped.
struct Writer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Writer {
    fn start(dir: &Path, (journal, synchronous): (&str, &str)) -> Result<Self> {
        let mut command = Command::new("sqlite3");
        command
            .args(["-bail", "base"])
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // That the disk is gone is what it complains of.
        let mut process = command.stderr(Stdio::null()).spawn().context("starting sqlite3")?;
        let mut input = process.stdin.take().context("no input")?;
        let output = BufReader::new(process.stdout.take().context("no output")?);
        // A connection's own, but for `wal`, which the file remembers.
        writeln!(
            input,
            "pragma journal_mode={journal}; pragma synchronous={synchronous}; pragma cache_size=10;"
        )?;
        let mut writer = Self { process, input, output };
        ensure!(writer.line()? == journal, "not in mode {journal}");
        Ok(writer)
    }

    /// Sends a transaction; false when the shell is no more.
    fn begin(&mut self, number: u64) -> bool {
        let transaction = format!(
            "begin immediate; insert into entries values({number}, randomblob({BYTES})); \
             update entries set text = randomblob({BYTES}) where n = {number} / 2; commit; select 'done';"
        );
        writeln!(self.input, "{transaction}").is_ok()
    }

    /// Waits until the oldest transaction is acknowledged; false when the shell has ended before.
    fn acknowledged(&mut self) -> Result<bool> {
        Ok(self.line()? == "done")
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
