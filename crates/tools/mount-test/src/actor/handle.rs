//! An actor, as seen by the process that started it.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::locks::calls::Space;

/// Maximum time of an answer that nothing blocks: I8's bound and a reserve.
pub const ANSWER_MAX: Duration = Duration::from_secs(45);
/// How often the state of a process is polled while it should change.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Maximum number of unread answers.
const ANSWERS_MAX: usize = 16;

/// A running actor; killed when dropped.
#[derive(Debug)]
pub struct Handle {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Handle {
    /// Starts one.
    pub fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("actor")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting this program again")?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let (sender, answers) = sync_channel(ANSWERS_MAX);
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Self { child, input, answers })
    }

    /// Sends a command; `answer` returns its answer.
    pub fn send(&mut self, words: &[&str]) -> Result<()> {
        Ok(writeln!(self.input, "{}", words.join("\t"))?)
    }

    /// The answer to the oldest command without one.
    pub fn answer(&self) -> Result<String> {
        self.answer_within(ANSWER_MAX)?
            .with_context(|| format!("no answer in {} s", ANSWER_MAX.as_secs()))
    }

    /// The same, or `None` after `limit`.
    pub fn answer_within(&self, limit: Duration) -> Result<Option<String>> {
        match self.answers.recv_timeout(limit) {
            Ok(answer) => Ok(Some(answer)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the process has ended"),
        }
    }

    /// Sends a command and returns its answer.
    pub fn ask(&mut self, words: &[&str]) -> Result<String> {
        self.send(words)?;
        self.answer()
    }

    /// Sends a command whose answer must be `ok`; returns the rest of the answer.
    pub fn must(&mut self, words: &[&str]) -> Result<String> {
        let answer = self.ask(words)?;
        answer
            .strip_prefix("ok ")
            .map(str::to_owned)
            .with_context(|| format!("{words:?}: {answer}"))
    }

    /// Opens a file and returns its number.
    pub fn open(&mut self, path: &Path) -> Result<String> {
        self.must(&["open", path.to_str().context("the path is not UTF-8")?])
    }

    /// Requests a lock and waits for it; the answer is read later.
    pub fn begin_lock(&mut self, file: &str, space: Space, start: i64) -> Result<()> {
        self.send(&["lock", file, space.word(), "alone", "wait", &start.to_string(), "1"])
    }

    /// Tries a lock of one byte; returns `ok` or the error.
    pub fn try_lock(&mut self, file: &str, space: Space, mode: &str, start: i64) -> Result<String> {
        Ok(self
            .ask(&["lock", file, space.word(), mode, "try", &start.to_string(), "1"])?
            .trim_end()
            .to_owned())
    }

    /// Waits until it sleeps in a system call for a lock.
    pub fn until_it_waits(&self) -> Result<()> {
        let calls = [libc::SYS_fcntl, libc::SYS_flock].map(|call| format!("{call} "));
        let path = format!("/proc/{}/syscall", self.child.id());
        let started = Instant::now();
        loop {
            let state = std::fs::read_to_string(&path)?;
            if calls.iter().any(|call| state.starts_with(call.as_str())) {
                return Ok(());
            }
            if let Ok(answer) = self.answers.try_recv() {
                bail!("it should wait for a lock, but was answered immediately: {answer}");
            }
            ensure!(
                started.elapsed() < ANSWER_MAX,
                "it does not wait for a lock: {path}: {}",
                state.trim()
            );
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Sends a signal that interrupts its wait.
    pub fn interrupt(&self) -> Result<()> {
        Ok(kill_process(self.pid()?, Signal::USR1)?)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL; the process must end within the bound, whatever it waits for.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        let started = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(
                started.elapsed() < ANSWER_MAX,
                "killed, but not ended after {} s",
                ANSWER_MAX.as_secs()
            );
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn pid(&self) -> Result<Pid> {
        i32::try_from(self.id()).ok().and_then(Pid::from_raw).context("a process id")
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // A process that hangs in a dead mount must not block us.
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && started.elapsed() < ANSWER_MAX {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
