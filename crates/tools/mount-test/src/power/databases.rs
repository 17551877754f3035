//! SQLite's test of a loss of power, with the whole cluster and the mount as the machine that loses it.
//!
//! ```text
//!   sqlite3 ── transaction 1 ── "done 1" ── transaction 2 ── … ─╳ everything killed, the disks stopped without a flush
//!                                                               │ mounted again, from what had been forced
//!   sqlite3 ── integrity_check, count ── as many as were acknowledged, or the one more that was under way
//! ```

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use braid_crash_tests::random::Random;

use crate::{
    cases::Outcome,
    programs::{missing, sh},
    stage::Stage,
    yard::Yard,
};

/// Journal modes, and with what SQLite itself promises that a committed transaction stays: when a journal that is deleted
/// is the commit, `FULL` lets the last one be rolled back (its manual: `PRAGMA synchronous`, EXTRA).
const MODES: [(&str, &str); 3] = [("wal", "full"), ("truncate", "full"), ("delete", "extra")];
/// Losses of power in each mode.
const LOSSES: u32 = 3;
const LOSSES_FULL: u32 = 40;
/// Transactions that are acknowledged before, and then a moment more: in the middle of one.
const TRANSACTIONS_MAX: u64 = 40;
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
    let losses = if yard.full { LOSSES_FULL } else { LOSSES };
    let (mut random, mut words) = (Random::new(yard.seed), vec![]);
    for (journal, synchronous) in MODES {
        let dir = stage.dirs(journal)?.remove(0);
        rustix::fs::setxattr(&dir, "user.braid.layout", LAYOUT.as_bytes(), rustix::fs::XattrFlags::empty())?;
        let create =
            format!("sqlite3 base 'pragma journal_mode={journal}; create table entries(n integer, text blob);'");
        sh(&dir, &create, &[])?;
        let mut count = 0;
        for loss in 0..losses {
            let acknowledged = count + lose_power_under(&mut stage, &dir, count, (journal, synchronous), &mut random)?;
            let found = judge(&dir).with_context(|| format!("{journal}, loss {loss}"))?;
            ensure!(
                found == acknowledged || found == acknowledged + 1,
                "{journal}, loss {loss}: {found} transactions are there, {acknowledged} were acknowledged"
            );
            count = found;
        }
        words.push(format!("{journal} {count}"));
    }
    stage.check()?;
    Ok(Outcome::Passed(format!("{losses} losses each; transactions: {}", words.join(", "))))
}

/// Transactions until the power fails; how many were acknowledged.
fn lose_power_under(stage: &mut Stage, dir: &Path, first: u64, mode: (&str, &str), random: &mut Random) -> Result<u64> {
    let mut writer = Writer::start(dir, mode)?;
    let wanted = random.below(TRANSACTIONS_MAX) + 1;
    for number in 0..wanted {
        writer.begin(first + number)?;
        ensure!(writer.acknowledged()?, "sqlite3 ended by itself after {number} transactions");
    }
    // One more is under way, somewhere.
    writer.begin(first + wanted)?;
    std::thread::sleep(Duration::from_micros(random.below(MOMENT_US)));
    stage.power_off()?;
    // What it said before its mount was gone lies in the pipe.
    let last = writer.acknowledged()?;
    Ok(wanted + u64::from(last))
}

/// Integrity, and transactions without a gap; how many.
fn judge(dir: &Path) -> Result<u64> {
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
        command.args(["-bail", "base"]).current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        // That the disk is gone is what it complains of.
        let mut process = command.stderr(Stdio::null()).spawn().context("starting sqlite3")?;
        let mut input = process.stdin.take().context("no input")?;
        let output = BufReader::new(process.stdout.take().context("no output")?);
        // A connection's own, but for `wal`, which the file remembers.
        writeln!(input, "pragma journal_mode={journal}; pragma synchronous={synchronous}; pragma cache_size=10;")?;
        let mut writer = Self { process, input, output };
        ensure!(writer.line()? == journal, "not in mode {journal}");
        Ok(writer)
    }

    /// Sends a transaction; a shell that is no more takes none.
    fn begin(&mut self, number: u64) -> Result<()> {
        let transaction = format!(
            "begin immediate; insert into entries values({number}, randomblob({BYTES})); \
             update entries set text = randomblob({BYTES}) where n = {number} / 2; commit; select 'done';"
        );
        Ok(writeln!(self.input, "{transaction}")?)
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
