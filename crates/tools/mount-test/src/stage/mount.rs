//! One mount by `braid mount` or `braid union up`, as a process that can be killed.

use std::{
    fs::OpenOptions,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use braid_testbed::{
    braid::{Braid, tail},
    mounts::is_mounted,
};
use rustix::process::{Pid, Signal, kill_process};

/// Maximum time of mounting, unmounting and ending.
const STEP_MAX: Duration = Duration::from_secs(45);
/// Poll interval meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A mount; unmounted when dropped.
pub struct Mount {
    point: PathBuf,
    log: PathBuf,
    arguments: Vec<String>,
    braid: Braid,
    process: Option<Child>,
}

impl Mount {
    /// Mounts on `point`, which is created, and waits until it answers.
    pub fn start(
        braid: &Braid,
        point: PathBuf,
        mds: &str,
        key: &Path,
        options: &[&str],
    ) -> Result<Self> {
        let (shown, key) = (point.display().to_string(), key.display().to_string());
        let mut arguments = vec!["mount", &shown, "--foreground", "--mds", mds, "--key", &key];
        options.iter().for_each(|option| arguments.extend(["-o", option]));
        Self::start_with(braid, point.clone(), &arguments)
    }

    /// Mounts the union whose metadata directory is `meta` on `point`, which is created.
    pub fn start_union(
        braid: &Braid,
        point: PathBuf,
        meta: &Path,
        options: &[&str],
    ) -> Result<Self> {
        let (shown, meta) = (point.display().to_string(), meta.display().to_string());
        let mut arguments = vec!["union", "up", "--foreground"];
        arguments.extend(options);
        arguments.extend([&*meta, &*shown]);
        Self::start_with(braid, point.clone(), &arguments)
    }

    fn start_with(braid: &Braid, point: PathBuf, arguments: &[&str]) -> Result<Self> {
        std::fs::create_dir_all(&point)?;
        let log = point.with_extension("log");
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        let mut mount = Self { point, log, arguments, braid: braid.clone(), process: None };
        mount.restart()?;
        Ok(mount)
    }

    /// The mount point.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// The resident memory of its process, in KiB.
    pub fn memory_kib(&self) -> Result<u64> {
        let process = self.process.as_ref().context("it does not run")?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()))?;
        let line =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// Sends SIGKILL to its process; calls on the mount then fail until it is mounted again.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Mounts again on the mount point of a killed process.
    pub fn restart(&mut self) -> Result<()> {
        self.detach();
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = self.braid.command();
        command.args(&self.arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut process = command.spawn().context("start braid mount")?;
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
            std::thread::sleep(POLL_INTERVAL);
        }
        self.process = Some(process);
        Ok(())
    }

    /// Sends SIGTERM, which must unmount and end it within the bound.
    pub fn stop(&mut self) -> Result<Duration> {
        let process = self.process.as_mut().context("it does not run")?;
        let pid =
            i32::try_from(process.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        kill_process(pid, Signal::TERM)?;
        let started = Instant::now();
        while process.try_wait()?.is_none() {
            ensure!(
                started.elapsed() < STEP_MAX,
                "it still runs {} s after SIGTERM",
                STEP_MAX.as_secs()
            );
            std::thread::sleep(POLL_INTERVAL);
        }
        ensure!(!is_mounted(&self.point)?, "it has ended, but is still mounted");
        self.process = None;
        Ok(started.elapsed())
    }

    /// An error with the end of its log, if it ended by itself.
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
