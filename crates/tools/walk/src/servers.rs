//! The servers' process, and how the client's process commands it: one line per command, one line
//! per answer.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use braid_client::{Config, Credential, Secret};
use braid_types::KeyId;

use crate::{
    cluster::{Cluster, SECRET_BYTES},
    counters,
};

/// Starts a cluster, prints how to reach it, and obeys until standard input ends.
pub fn serve(dir: &Path) -> Result<()> {
    let cluster = Cluster::start(dir)?;
    let secret: Vec<String> = cluster.secret.iter().map(|byte| format!("{byte:02x}")).collect();
    answer(&format!("{} {} {}", cluster.address, cluster.key.0, secret.concat()))?;
    for line in std::io::stdin().lock().lines() {
        match line?.split_once(' ') {
            Some(("write", path)) => counters::write(Path::new(path))?,
            Some(("reset", _)) => counters::reset(),
            other => bail!("no such command: {other:?}"),
        }
        answer("done")?;
    }
    counters::write_at_exit(&dir.join("servers.end.profraw"))
}

fn answer(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// The servers' process, as the client's process sees it. It ends when this is dropped.
pub struct Servers {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// What a client needs.
    pub config: Config,
}

impl Servers {
    /// Starts them; returns when all I/O daemons are in the cluster map.
    pub fn start(dir: &Path) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["servers".as_ref(), dir.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().context("a pipe was asked for")?);
        let config = read_config(&mut answers)?;
        Ok(Self { child, commands, answers, config })
    }

    /// Sets their counters to 0.
    pub fn reset(&mut self) -> Result<()> {
        self.command("reset counters")
    }

    /// Makes them write their counters to this file.
    pub fn write(&mut self, path: &Path) -> Result<()> {
        self.command(&format!("write {}", path.display()))
    }

    fn command(&mut self, line: &str) -> Result<()> {
        writeln!(self.commands.as_mut().context("the servers were stopped")?, "{line}")?;
        ensure!(read_line(&mut self.answers)? == "done", "the servers' process failed: {line}");
        Ok(())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.commands = None;
        let _ = self.child.wait();
    }
}

fn read_line(from: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// The line that [`serve`] prints first.
fn read_config(from: &mut impl BufRead) -> Result<Config> {
    let line = read_line(from)?;
    let mut words = line.split(' ');
    let mut word = || words.next().context("the servers' process did not start");
    let (address, id, hex) = (word()?.to_owned(), word()?.parse()?, word()?);
    let mut secret = [0; SECRET_BYTES];
    for (index, byte) in secret.iter_mut().enumerate() {
        let digits = hex.get(2 * index..2 * index + 2).context("a secret of this length")?;
        *byte = u8::from_str_radix(digits, 16)?;
    }
    let credential = Credential::Key { id: KeyId(id), secret: Secret::from_bytes(secret) };
    Ok(Config::new(vec![address], credential))
}
