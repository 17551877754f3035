//! Child processes: each has a time limit, and its output is stored until it is needed.

use anyhow::{Context as _, Result};
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Longer than any step needs on two slow cores; a step that reaches it hangs.
pub const LIMIT_DEFAULT: Duration = Duration::from_secs(40 * 60);

/// A command that is about to run.
pub struct Process {
    command: Command,
    limit: Duration,
    show_errors: bool,
}

/// The result of a finished command.
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Finished {
    /// Both streams, for a report.
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// `Ok` when it exited with 0, else an error that holds its output.
    pub fn success(self) -> Result<Self> {
        anyhow::ensure!(self.status.success(), "{}\n{}", self.status, self.output());
        Ok(self)
    }
}

impl Process {
    /// A program without arguments and with the default limit.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { command: Command::new(program), limit: LIMIT_DEFAULT, show_errors: false }
    }

    /// `program` as an argument of a command such as `nsenter`; an empty prefix is none.
    pub fn under(prefix: &[String], program: impl AsRef<OsStr>) -> Self {
        match prefix {
            [] => Self::new(program),
            [first, rest @ ..] => Self::new(first).args(rest).args([program]),
        }
    }

    /// Ends it after `limit`, if its output is collected.
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Standard error is shown immediately and not stored.
    pub fn show_errors(self) -> Self {
        Self { show_errors: true, ..self }
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(mut self, key: &str) -> Self {
        self.command.env_remove(key);
        self
    }

    /// Sets its working directory.
    pub fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Runs it and collects its output; an exit code other than 0 is no error here.
    pub fn finish(self) -> Result<Finished> {
        let shown = self.shown();
        let errors = if self.show_errors { Stdio::inherit() } else { Stdio::piped() };
        let mut command = self.with_limit();
        let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn();
        let output = output.and_then(|child| child.wait_with_output());
        let output = output.with_context(|| format!("cannot start {shown}"))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Finished {
            status: output.status,
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        })
    }

    /// Runs it; an exit code other than 0 is an error.
    pub fn run(self) -> Result<Finished> {
        let shown = self.shown();
        self.finish()?.success().with_context(|| shown)
    }

    /// Runs it on our terminal without a limit: the user can stop it. True for exit code 0.
    pub fn interactive(mut self) -> Result<bool> {
        let status =
            self.command.status().with_context(|| format!("cannot start {}", self.shown()))?;
        Ok(status.success())
    }

    fn shown(&self) -> String {
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// The same command under `timeout`, which ends a whole process group: ending only the direct
    /// child of a `cargo run` would leave the program running. On a terminal it stays in our group,
    /// so that Ctrl-C reaches all processes.
    fn with_limit(self) -> Command {
        if !cfg!(target_os = "linux") {
            return self.command;
        }
        let mut limited = Command::new("timeout");
        if std::io::stdin().is_terminal() {
            limited.arg("--foreground");
        }
        limited.args(["--kill-after=10".into(), OsString::from(self.limit.as_secs().to_string())]);
        limited.arg(self.command.get_program()).args(self.command.get_args());
        for (key, value) in self.command.get_envs() {
            match value {
                Some(value) => limited.env(key, value),
                None => limited.env_remove(key),
            };
        }
        if let Some(dir) = self.command.get_current_dir() {
            limited.current_dir(dir);
        }
        limited
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_ended_at_its_limit() {
        let finished =
            Process::new("sleep").args(["1000"]).limit(Duration::from_secs(1)).finish().unwrap();
        assert_eq!(finished.status.code(), Some(124));
    }

    #[test]
    fn an_error_holds_what_the_command_printed() {
        let error = Process::new("sh").args(["-c", "echo seen; exit 3"]).run().err().unwrap();
        let shown = format!("{error:#}");
        assert!(shown.contains("seen") && shown.contains("exit 3"), "{shown}");
    }
}
