//! A process of this program that works on command, so that several start at the same time.

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Write, stdin},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::daemons::Daemon;

/// Such a process, as seen by its parent.
pub struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts this program with these arguments and waits until it is ready.
    pub fn start(arguments: &[OsString]) -> Result<Self> {
        // Dies with this program.
        let mut command = Daemon::command(&std::env::current_exe()?);
        let mut child =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("a process has an input")?;
        let output = BufReader::new(child.stdout.take().context("a process has an output")?);
        let mut worker = Self { child, input, output };
        worker.expect("ready")?;
        Ok(worker)
    }

    /// Lets it start.
    pub fn go(&mut self) -> Result<()> {
        Ok(self.input.write_all(b"go\n")?)
    }

    /// Waits until it has done this many.
    pub fn expect_done(&mut self, count: u64) -> Result<()> {
        self.expect(&count.to_string())
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(line.trim() == wanted, "a worker process answered {:?}, not {wanted}", line.trim());
        Ok(())
    }

    /// Lets it end.
    pub fn finish(self) -> Result<()> {
        let Self { mut child, input, .. } = self;
        drop(input);
        ensure!(child.wait()?.success(), "a worker process failed");
        Ok(())
    }
}

/// In the process: everything is prepared; returns when it may start.
pub fn ready() -> Result<()> {
    println!("ready");
    let mut line = String::new();
    stdin().read_line(&mut line).context("wait for the start")?;
    Ok(())
}

/// In the process: reports the number done; returns when it may end.
pub fn report(count: u64) -> Result<()> {
    println!("{count}");
    stdin().lock().read_until(b'\n', &mut Vec::new())?;
    Ok(())
}
