//! A small disk: a file system in a file, which can be full and can lose its power.
//!
//! ```text
//!   NAME.image (sparse file) ── loop device ── ext4 on NAME/
//! ```
//!
//! The kernel simulates the loss of power: `EXT4_IOC_SHUTDOWN` without a flush of the journal stops
//! everything immediately. Exactly what was not forced to the disk is lost; the next mount replays
//! the journal, as after a real loss.

use std::{
    fs::File,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// `_IOR('X', 125, __u32)`, and "the journal is not flushed either" (fs/ext4/ext4.h).
const SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
const SHUTDOWN_WITHOUT_LOG: u32 = 2;
/// All space is for users: nothing is reserved for root. The block size does not depend on the
/// disk's size.
const FORMAT: &[&str] = &["-q", "-F", "-b", "4096", "-m", "0"];

/// A disk; unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    point: PathBuf,
}

impl Disk {
    /// Creates a disk of this size, mounted on `point`.
    pub fn make(point: &Path, bytes: u64) -> Result<Self> {
        std::fs::create_dir_all(point)?;
        let disk = Self { point: point.canonicalize()? };
        File::create(disk.image())?.set_len(bytes)?;
        run(Command::new("mkfs.ext4").args(FORMAT).arg(disk.image()))?;
        disk.mount()?;
        Ok(disk)
    }

    /// Why no disk can be made here, if so.
    pub fn missing(scratch: &Path) -> Option<String> {
        const TRIAL_BYTES: u64 = 4 << 20;
        let trial = Self::make(&scratch.join("trial"), TRIAL_BYTES);
        trial.err().map(|why| format!("make and mount a disk in a file: {why:#}"))
    }

    /// The mount point.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Loses everything that was not forced, and mounts it again. No process may have a file open
    /// on it.
    pub fn lose_power(&mut self) -> Result<()> {
        let top = File::open(&self.point)?;
        // SAFETY: the call reads one 32-bit number, which lives as long as the call.
        let done = unsafe { libc::ioctl(top.as_raw_fd(), SHUTDOWN, &SHUTDOWN_WITHOUT_LOG) };
        ensure!(done == 0, "stop {}: {}", self.point.display(), std::io::Error::last_os_error());
        drop(top);
        run(Command::new("umount").arg(&self.point))?;
        self.mount()
    }

    fn mount(&self) -> Result<()> {
        run(Command::new("mount").args(["-o", "loop"]).arg(self.image()).arg(&self.point))
    }

    fn image(&self) -> PathBuf {
        self.point.with_extension("image")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: open files there belong to a test that failed.
        let _ = Command::new("umount").arg("-l").arg(&self.point).output();
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("start {:?}", command.get_program()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{:?}: {}: {}",
        command.get_program(),
        output.status,
        said.trim()
    );
    Ok(())
}
