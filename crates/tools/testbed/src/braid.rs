//! The `braid` command: found or built, run, and its daemons managed.

use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

/// Names the `braid` that tests and tools start; without it they ask cargo to build one.
pub const BRAID_BIN: &str = "BRAID_BIN";
/// A daemon prints this when it serves.
pub const READY: &str = "listens on";

/// The binary under test.
#[derive(Clone, Debug)]
pub struct Braid {
    path: PathBuf,
    /// A program and its arguments that run the binary elsewhere.
    before: Vec<String>,
}

impl Braid {
    /// This binary, run directly.
    pub fn at(path: PathBuf) -> Self {
        Self { path, before: Vec::new() }
    }

    /// The same binary; a command that exceeds `limit` is ended.
    pub fn with_limit(&self, limit: Duration) -> Self {
        let seconds = limit.as_secs().to_string();
        self.with_wrapper(["timeout".to_owned(), "--kill-after=10".to_owned(), seconds])
    }

    /// The same binary, run by another program, such as one that enters a namespace.
    pub fn with_wrapper(&self, before: impl IntoIterator<Item = String>) -> Self {
        Self { path: self.path.clone(), before: before.into_iter().collect() }
    }

    /// The binary named by `BRAID_BIN`, or the workspace's, built in the profile of this program.
    pub fn find() -> Result<Self> {
        if let Some(given) = std::env::var_os(BRAID_BIN) {
            return Ok(Self::at(given.into()));
        }
        let own = std::env::current_exe()?;
        let mut above = own.ancestors().skip(1);
        let folder = above
            .find(|dir| !dir.ends_with("deps"))
            .context("no directory of this program")?
            .to_owned();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--locked", "--package", "braid-cli", "--bin", "braid"]);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        let status = cargo.status().context("building braid")?;
        ensure!(status.success(), "building braid: {status}");
        let path = folder.join("braid");
        ensure!(
            path.is_file(),
            "building braid: {} does not exist; try: {BRAID_BIN}=FILE",
            path.display()
        );
        Ok(Self::at(path))
    }

    /// A command that runs it without the caller's own settings, which belong to another cluster.
    pub fn command(&self) -> Command {
        let mut words = self.words();
        let mut command = Command::new(words.next().expect("there is at least the binary"));
        without_own_settings(command.args(words));
        command
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `braid ARGUMENTS` to its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<Output> {
        let mut command = self.command();
        let output = command.args(arguments).stdin(Stdio::null()).output();
        output.with_context(|| format!("starting {}", self.path.display()))
    }

    /// Runs it and requires success.
    pub fn run_successfully<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<()> {
        let output = self.run(arguments)?;
        ensure!(output.status.success(), "{}", output_summary(&output));
        Ok(())
    }

    /// Starts a daemon and waits until it prints a line that contains `ready`. Its log is appended
    /// to `log`.
    pub fn daemon<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        ready: &str,
        log: &Path,
    ) -> Result<Daemon> {
        Daemon::start(self.command().args(arguments).stdin(Stdio::null()), ready, log)
    }

    /// Prepares a daemon that starts later, on command. Before Linux starts a program in a process,
    /// it closes the process's files on a mount, and their changes in memory are written first. A
    /// process with open files there would wait for the very daemon that it wants to start.
    pub fn prepared<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        log: &Path,
    ) -> Result<PreparedDaemon> {
        let mut command = Command::new("sh");
        command.args(["-c", r#"read -r go && exec "$@""#, "sh"]).args(self.words()).args(arguments);
        let command = without_own_settings(command.stdin(Stdio::piped()));
        let child = command.stdout(Stdio::piped()).stderr(log_file(log)?).spawn()?;
        Ok(PreparedDaemon { child: Some(child), log: log.to_owned() })
    }

    fn words(&self) -> impl Iterator<Item = &OsStr> {
        self.before.iter().map(OsStr::new).chain([self.path.as_os_str()])
    }
}

fn log_file(log: &Path) -> Result<File> {
    Ok(OpenOptions::new().create(true).append(true).open(log)?)
}

fn without_own_settings(command: &mut Command) -> &mut Command {
    let own = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BRAID_"));
    own.fold(command, |command, (name, _)| command.env_remove(name))
}

/// A daemon that has not started yet; dropping this cancels it.
#[derive(Debug)]
pub struct PreparedDaemon {
    child: Option<Child>,
    log: PathBuf,
}

impl PreparedDaemon {
    /// Starts it and waits until it prints a line that contains `ready`.
    pub fn start(mut self, ready: &str) -> Result<Daemon> {
        let mut child = self.child.take().context("it was started before")?;
        child.stdin.take().context("no input")?.write_all(b"\n")?;
        Daemon::until(child, ready, &self.log)
    }
}

impl Drop for PreparedDaemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A running daemon; killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Daemon {
    /// Starts a daemon by this command, and waits until it prints a line that contains `ready`. Its
    /// log, which is its standard error, is appended to `log`.
    ///
    /// # Errors
    /// With the end of the log, if it ends first.
    pub fn start(command: &mut Command, ready: &str, log: &Path) -> Result<Self> {
        let child = command.stdout(Stdio::piped()).stderr(log_file(log)?).spawn();
        Self::until(child.with_context(|| format!("starting {command:?}"))?, ready, log)
    }

    fn until(mut child: Child, ready: &str, log: &Path) -> Result<Self> {
        let lines = child.stdout.take().map(BufReader::new).context("no output")?;
        let mut daemon = Self { child, lines };
        let mut line = String::new();
        while !line.contains(ready) {
            line.clear();
            if daemon.lines.read_line(&mut line)? == 0 {
                let status = daemon.child.wait()?;
                bail!("a daemon did not start: {status}: {}", tail(log));
            }
        }
        Ok(daemon)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// Its status if it ended on its own.
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Both streams of a command, for a message.
pub fn output_text(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

/// Status and output of a command, in a line.
pub fn output_summary(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}: {} {}", output.status, out.trim(), err.trim())
}

/// The last lines of a log.
pub fn tail(log: &Path) -> String {
    const LINES: usize = 8;
    let Ok(file) = File::open(log) else { return "no log".to_owned() };
    let lines: Vec<String> = BufReader::new(file).lines().map_while(Result::ok).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_daemon_that_does_not_start_is_an_error_with_the_end_of_its_log() {
        let log = std::env::temp_dir().join(format!("braid-testbed-{}.log", std::process::id()));
        let mut command = shell("echo begins; echo the port is in use >&2; exit 3");
        let error = Daemon::start(&mut command, READY, &log).unwrap_err().to_string();
        std::fs::remove_file(log).unwrap();
        assert!(error.contains("exit status: 3: the port is in use"), "{error}");
    }

    #[test]
    fn a_daemon_that_is_ready_runs_until_it_is_dropped() {
        let mut command = shell("echo it listens on a port; exec sleep 1000");
        let mut daemon = Daemon::start(&mut command, READY, Path::new("/dev/null")).unwrap();
        let process = PathBuf::from(format!("/proc/{}", daemon.pid()));
        assert!(process.exists() && daemon.ended().is_none());
        drop(daemon);
        assert!(!process.exists());
    }
}
