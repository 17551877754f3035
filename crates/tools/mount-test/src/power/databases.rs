//! SQLite's test of a loss of power, where the whole cluster and the mount lose it.
//!
//! ```text
//!   sqlite3 ── transaction 1 ── "done 1" ── transaction 2 ── … ─╳ all killed, disks stopped
//!                                                               │ mounted again, forced data only
//!   sqlite3 ── integrity_check, count ── all acknowledged, perhaps the one in flight
//! ```

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use braid_testbed::wait::until;
use braid_types::Random;

use crate::{
    cases::Outcome,
    programs::{missing, sh},
    scratch_cluster::ScratchCluster,
    stage::TestCluster,
};

/// Journal modes, and the setting with which SQLite guarantees that a committed transaction stays.
/// When the deletion of a journal is the commit, `FULL` allows a rollback of the last one (its
/// manual: `PRAGMA synchronous`, EXTRA).
const MODES: [(&str, &str); 3] = [("wal", "full"), ("truncate", "full"), ("delete", "extra")];
/// Number of losses of power, each under a database of every mode.
const LOSSES: u32 = 2;
const LOSSES_FULL: u32 = 40;
/// Transactions that are acknowledged before; the power then fails a moment later, in the middle of
/// one.
const TRANSACTIONS_MAX: u64 = 40;
const WRITTEN_MAX: Duration = Duration::from_secs(120);
const MOMENT_US: u64 = 20_000;
/// A few pages each, over the stripes of several daemons.
const LAYOUT: &str = "stripe-size=65536 iod-count=4";
const BYTES: u32 = 20_000;

pub(super) fn run(yard: &ScratchCluster) -> Result<Outcome> {
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
    // Writes that were never forced may have left objects of files that do not exist.
    stage.cluster.fsck_mended()?;
    stage.check()?;
    let words = bases
        .iter()
        .map(|base| format!("{} {}", base.mode.0, base.transactions))
        .collect::<Vec<_>>();
    Ok(Outcome::Passed(format!("{losses} losses; transactions: {}", words.join(", "))))
}

/// A database, and the number of transactions that it must have.
struct Base {
    mode: (&'static str, &'static str),
    dir: PathBuf,
    transactions: u64,
}

impl Base {
    fn create(stage: &TestCluster, mode: (&'static str, &'static str)) -> Result<Self> {
        let (journal, dir) = (mode.0, stage.dirs(mode.0)?.remove(0));
        rustix::fs::setxattr(
            &dir,
            "user.braid.layout",
            LAYOUT.as_bytes(),
            rustix::fs::XattrFlags::empty(),
        )?;
        let create = format!(
            "sqlite3 base 'pragma journal_mode={journal}; \
             create table entries(n integer, text blob);'"
        );
        sh(&dir, &create, &[])?;
        Ok(Self { mode, dir, transactions: 0 })
    }

    /// Commits one transaction after the other until the disk is gone; counts the acknowledged
    /// ones.
    fn write(&mut self, acknowledged: &AtomicU64) -> Result<()> {
        let mut writer = Writer::start(&self.dir, self.mode)?;
        while writer.begin(self.transactions) && writer.acknowledged()? {
            self.transactions += 1;
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Every acknowledged transaction is there, and perhaps the one in flight.
    fn judge(&mut self) -> Result<()> {
        let found = found(&self.dir)?;
        let wanted = self.transactions;
        ensure!(
            found == wanted || found == wanted + 1,
            "{found} transactions are there, but {wanted} were acknowledged"
        );
        self.transactions = found;
        Ok(())
    }
}

/// Transactions in all databases until the power fails.
fn lose_power_under(
    stage: &mut TestCluster,
    bases: &mut [Base],
    random: &mut Random,
) -> Result<()> {
    let wanted = random.below(TRANSACTIONS_MAX) + 1;
    let counts: Vec<_> = bases.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let pairs = bases.iter_mut().zip(&counts);
        let writers: Vec<_> =
            pairs.map(|(base, count)| scope.spawn(move || base.write(count))).collect();
        let enough = || Ok(counts.iter().all(|count| count.load(Ordering::Relaxed) >= wanted));
        let begun = until("every database has enough transactions", WRITTEN_MAX, enough);
        // A random moment in a transaction.
        std::thread::sleep(Duration::from_micros(random.below(MOMENT_US)));
        let lost = stage.power_off();
        for writer in writers {
            writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))??;
        }
        begun.and(lost)
    })
}

/// Checks the integrity and that no transaction is missing; returns their number.
fn found(dir: &Path) -> Result<u64> {
    let script = "sqlite3 base 'pragma integrity_check; \
                  select count(*), coalesce(max(n) + 1, 0) from entries;'";
    let said = sh(dir, script, &[])?;
    let lines: Vec<&str> = said.lines().collect();
    ensure!(lines.len() == 2 && lines[0] == "ok", "{}", lines.join(" | "));
    let (count, end) = lines[1].split_once('|').context("no two numbers")?;
    ensure!(count == end, "{count} transactions, but the next number is {end}");
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
        // Its complaints about the missing disk are hidden.
        let mut process = command.stderr(Stdio::null()).spawn().context("start sqlite3")?;
        let mut input = process.stdin.take().context("no input")?;
        let output = BufReader::new(process.stdout.take().context("no output")?);
        // Settings of the connection, except `wal`, which the file stores.
        writeln!(
            input,
            "pragma journal_mode={journal}; pragma synchronous={synchronous}; pragma cache_size=10;"
        )?;
        let mut writer = Self { process, input, output };
        ensure!(writer.line()? == journal, "not in mode {journal}");
        Ok(writer)
    }

    /// Sends a transaction; false when the shell has ended.
    fn begin(&mut self, number: u64) -> bool {
        let transaction = format!(
            "begin immediate; insert into entries values({number}, randomblob({BYTES})); \
             update entries set text = randomblob({BYTES}) where n = {number} / 2; \
             commit; select 'done';"
        );
        writeln!(self.input, "{transaction}").is_ok()
    }

    /// Waits until the oldest transaction is acknowledged; false when the shell ended before.
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
