//! One mount by `braid mount`, as a process that can be killed.

use std::{
    fs::OpenOptions,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use braid_crash_tests::braid::{Braid, tail};
use rustix::process::{Pid, Signal, kill_process};

/// The longest that mounting, unmounting and ending may take.
const STEP_MAX: Duration = Duration::from_secs(45);
/// How often it is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A mount; unmounted when dropped.
pub struct Mount {
    point: PathBuf,
    log: PathBuf,
    arguments: Vec<String>,
    braid: PathBuf,
    process: Option<Child>,
}

impl Mount {
    /// Mounts on `point`, which is made, and waits until it answers.
    pub fn start(
        braid: &Braid,
        point: PathBuf,
        mds: &str,
        key: &Path,
        options: &[&str],
    ) -> Result<Self> {
        std::fs::create_dir_all(&point)?;
        let log = point.with_extension("log");
        let mut arguments =
            vec!["mount".to_owned(), point.display().to_string(), "--foreground".to_owned()];
        arguments.extend([
            "--mds".to_owned(),
            mds.to_owned(),
            "--key".to_owned(),
            key.display().to_string(),
        ]);
        options.iter().for_each(|option| arguments.extend(["-o".to_owned(), (*option).to_owned()]));
        let mut mount =
            Self { point, log, arguments, braid: braid.path().to_owned(), process: None };
        mount.restart()?;
        Ok(mount)
    }

    /// Where it is.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// The memory of its process that is in use, in KiB.
    pub fn memory_kib(&self) -> Result<u64> {
        let process = self.process.as_ref().context("it does not run")?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()))?;
        let line =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// SIGKILL of its process; what is on the mount then fails until it is mounted again.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Mounts again, in place of what a killed process left.
    pub fn restart(&mut self) -> Result<()> {
        self.detach();
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.braid);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        std::env::vars_os()
            .filter(|(name, _)| name.to_string_lossy().starts_with("BRAID_"))
            .for_each(|(name, _)| {
                command.env_remove(name);
            });
        let mut process = command.spawn().context("starting braid mount")?;
        let started = Instant::now();
        while !is_mounted(&self.point)? {
            if let Some(status) = process.try_wait()? {
                bail!("braid mount: {status}: {}", tail(&self.log));
            }
            ensure!(
                started.elapsed() < STEP_MAX,
                "braid mount is not ready after {} s",
                STEP_MAX.as_secs()
            );
            std::thread::sleep(LOOK_EVERY);
        }
        self.process = Some(process);
        Ok(())
    }

    /// SIGTERM must unmount and end it, within the bound.
    pub fn stop(&mut self) -> Result<Duration> {
        let process = self.process.as_mut().context("it does not run")?;
        let pid =
            i32::try_from(process.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        kill_process(pid, Signal::TERM)?;
        let started = Instant::now();
        while process.try_wait()?.is_none() {
            ensure!(
                started.elapsed() < STEP_MAX,
                "SIGTERM, and it still runs after {} s",
                STEP_MAX.as_secs()
            );
            std::thread::sleep(LOOK_EVERY);
        }
        ensure!(!is_mounted(&self.point)?, "it has ended, and is still mounted");
        self.process = None;
        Ok(started.elapsed())
    }

    /// An error with its last words, if it ended though nobody killed it.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.process.as_mut().map(Child::try_wait).transpose()?.flatten() {
            Some(status) => {
                bail!(
                    "the mount on {} ended by itself: {status}: {}",
                    self.point.display(),
                    tail(&self.log)
                )
            }
            None => Ok(()),
        }
    }

    fn detach(&self) {
        while is_mounted(&self.point).unwrap_or(false) {
            let umount =
                Command::new("umount").arg("-l").arg(&self.point).stderr(Stdio::null()).status();
            if !umount.is_ok_and(|status| status.success()) {
                return;
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.kill();
        self.detach();
    }
}

/// Whether something is mounted there, by the kernel's table: asking the mount itself might hang.
fn is_mounted(point: &Path) -> Result<bool> {
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    let wanted = point.to_str().context("a path that is text")?;
    Ok(table.lines().any(|line| line.split(' ').nth(4) == Some(wanted)))
}
