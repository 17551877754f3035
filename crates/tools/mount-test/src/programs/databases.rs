//! SQLite: transactions from two mounts at the same time, a write-ahead log, and a killed writer.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{missing, sh, workplace};
use crate::cases::{Outcome, TestDirs};

const ADD_MANY: &str = r#"
i=0
while [ $i -lt "$2" ]; do
  printf '.timeout 60000\nbegin immediate; update counter set n = n + 1;\n'
  printf 'insert into entries(who, text) values (%s, hex(randomblob(100))); commit;\n' "$3"
  i=$((i + 1))
done | sqlite3 -bail "$1"
"#;

fn create(dir: &Path, journal: &str) -> Result<()> {
    let script = format!(
        "sqlite3 base 'pragma journal_mode={journal}; \
         create table counter(n integer); insert into counter values(0); \
         create table entries(id integer primary key, who integer, text text); \
         create index by_text on entries(text);'"
    );
    let said = sh(dir, &script, &[])?;
    ensure!(said.trim() == journal, "journal mode {}", said.trim());
    Ok(())
}

/// The integrity check, the counter and the entries must agree.
fn judge(dir: &Path, wanted: u32) -> Result<()> {
    let said = sh(
        dir,
        "sqlite3 base 'pragma integrity_check; select n from counter; \
         select count(*) from entries;'",
        &[],
    )?;
    let lines: Vec<&str> = said.lines().collect();
    let number = wanted.to_string();
    ensure!(lines == ["ok", &number, &number], "wanted ok and twice {wanted}: {lines:?}");
    Ok(())
}

/// Two processes on two mounts, each with its transactions, under the locks of the rollback
/// journal.
pub fn rollback(ground: &TestDirs) -> Result<Outcome> {
    if let Some(skipped) = missing("sqlite3", "sqlite3") {
        return Ok(skipped);
    }
    let (here, there) = workplace(ground, "sqlite-rollback")?;
    create(&here, "delete")?;
    let each = ground.size(50, 1000);
    let count = each.to_string();
    let add = |dir: &Path, who: &str| sh(dir, ADD_MANY, &["base", &count, who]).map(drop);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| add(&there, "2"));
        add(&here, "1")?;
        other.join().map_err(|_| anyhow::anyhow!("the other side panicked"))?
    })?;
    judge(&here, 2 * each)?;
    judge(&there, 2 * each)?;
    Ok(Outcome::Passed(format!("{} transactions by two mounts", 2 * each)))
}

/// The log's index is in shared memory: all writers use one mount, as SQLite requires. The other
/// mount reads after the close.
pub fn ahead(ground: &TestDirs) -> Result<Outcome> {
    if let Some(skipped) = missing("sqlite3", "sqlite3") {
        return Ok(skipped);
    }
    let (here, there) = workplace(ground, "sqlite-ahead")?;
    create(&here, "wal")?;
    let each = ground.size(200, 5000);
    let count = each.to_string();
    let add = |who: &str| sh(&here, ADD_MANY, &["base", &count, who]).map(drop);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| add("2"));
        add("1")?;
        other.join().map_err(|_| anyhow::anyhow!("the other side panicked"))?
    })?;
    judge(&here, 2 * each)?;
    judge(&there, 2 * each)?;
    Ok(Outcome::Passed(format!("{} transactions by two processes", 2 * each)))
}

/// Committed changes are there and others are not, whichever mount reads first.
pub fn killed(ground: &TestDirs) -> Result<Outcome> {
    if let Some(skipped) = missing("sqlite3", "sqlite3") {
        return Ok(skipped);
    }
    for journal in ["delete", "wal"] {
        let (here, there) = workplace(ground, &format!("sqlite-killed-{journal}"))?;
        create(&here, journal)?;
        sh(&here, ADD_MANY, &["base", "20", "1"])?;
        kill_in_a_transaction(&here)?;
        judge(&there, 20).with_context(|| format!("{journal}: looked at from the other mount"))?;
        sh(&here, ADD_MANY, &["base", "5", "1"])?;
        judge(&here, 25).with_context(|| format!("{journal}: written again"))?;
    }
    Outcome::passed()
}

/// A transaction larger than its page cache, so that it has written into the file when it is
/// killed.
fn kill_in_a_transaction(dir: &Path) -> Result<()> {
    let mut writer = Command::new("sqlite3")
        .arg("base")
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = writer.stdin.take().context("no input")?;
    writeln!(
        input,
        "pragma cache_size=10; begin immediate; update counter set n = 1000000;\n\
         with recursive c(x) as (select 1 union all select x+1 from c where x < 2000) \
         insert into entries(who, text) select 9, hex(randomblob(200)) from c;\nselect 'half way';"
    )?;
    let mut line = String::new();
    let mut output = BufReader::new(writer.stdout.take().context("no output")?);
    while line.trim() != "half way" {
        line.clear();
        ensure!(output.read_line(&mut line)? > 0, "sqlite3 ended by itself");
    }
    writer.kill()?;
    writer.wait()?;
    Ok(())
}
