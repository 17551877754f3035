//! One daemon as a process.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Time for a daemon to end normally before it is killed.
const STOP_SECONDS_MAX: u64 = 5;
/// Runs a program that dies with its parent, also when that is killed.
const DIES_WITH_PARENT: [&str; 4] = ["/usr/bin/setpriv", "--pdeathsig", "KILL", "--"];

/// A running daemon. Dropping it stops it.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// A command that runs `program`.
    pub fn command(program: &Path) -> Command {
        let [setpriv, arguments @ ..] = DIES_WITH_PARENT;
        if !Path::new(setpriv).exists() {
            return Command::new(program);
        }
        let mut command = Command::new(setpriv);
        command.args(arguments).arg(program);
        command
    }

    /// Starts it; its output is written to `log`.
    pub fn start(mut command: Command, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("start {command:?}"))?;
        Ok(Self { child, log: log.to_path_buf() })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error with the end of its log, if it has ended.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!(
                "a daemon ended ({status}): {}",
                fs::read_to_string(&self.log).unwrap_or_default().trim()
            );
        }
        Ok(())
    }

    /// `kill -9`.
    pub fn kill(&mut self) -> Result<()> {
        self.check()?;
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn ask_to_stop(&self) {
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            // A process that has ended meanwhile needs no signal.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.ask_to_stop();
        let deadline = Instant::now() + Duration::from_secs(STOP_SECONDS_MAX);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Resident memory of a process, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resident {
    /// Memory that the process allocated.
    pub own: u64,
    /// Mapped pages of files, also of those in `/dev/shm`: page cache, which is evicted when memory
    /// is needed.
    pub mapped: u64,
}

/// Resident memory of a process.
pub fn resident_bytes(pid: u32) -> Result<Resident> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    resident_of(&status).with_context(|| format!("{path} has no resident memory"))
}

fn resident_of(status: &str) -> Option<Resident> {
    let mapped = field(status, "RssFile:")? + field(status, "RssShmem:")?;
    Some(Resident { own: field(status, "RssAnon:")?, mapped })
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_daemon_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Daemon::command(Path::new("sleep"));
        command.arg("1000");
        let daemon = Daemon::start(command, &dir.path().join("log")).unwrap();
        let pid = daemon.pid();
        drop(daemon);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_daemon_that_has_ended_says_its_last_words() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo the port is in use; exit 1"]);
        let mut daemon = Daemon::start(command, &dir.path().join("log")).unwrap();
        daemon.child.wait().unwrap();
        assert!(daemon.check().unwrap_err().to_string().contains("the port is in use"));
    }

    #[test]
    fn resident_memory_is_in_bytes() {
        let status =
            "VmRSS:\t 1030 kB\nRssAnon:\t    1024 kB\nRssFile:\t  2 kB\nRssShmem:\t  4 kB\n";
        assert_eq!(resident_of(status), Some(Resident { own: 1 << 20, mapped: 6144 }));
        assert!(resident_bytes(std::process::id()).unwrap().own > 0);
    }
}
