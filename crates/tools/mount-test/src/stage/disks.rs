//! A small disk of its own: a file system in a file, which can be full, and whose power can fail.
//!
//! ```text
//!   NAME.image (sparse file) ── loop device ── ext4 on NAME/
//! ```
//!
//! A loss of power is the kernel's own: `EXT4_IOC_SHUTDOWN` without a flush of the journal stops everything at once. What
//! was not forced to the disk is gone, no more and no less; the next mount replays the journal, as after a real one.

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
/// All of it is for who asks: nothing is kept for root. One block size, whatever the size of the disk.
const FORMAT: &[&str] = &["-q", "-F", "-b", "4096", "-m", "0"];

/// A disk; unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    point: PathBuf,
}

impl Disk {
    /// A new one of so many bytes, mounted on `point`.
    pub fn make(point: &Path, bytes: u64) -> Result<Self> {
        std::fs::create_dir_all(point)?;
        let disk = Self { point: point.canonicalize()? };
        File::create(disk.image())?.set_len(bytes)?;
        run(Command::new("mkfs.ext4").args(FORMAT).arg(disk.image()))?;
        disk.mount()?;
        Ok(disk)
    }

    /// Why there can be none here, if so.
    pub fn missing(scratch: &Path) -> Option<String> {
        const TRIAL_BYTES: u64 = 4 << 20;
        let trial = Self::make(&scratch.join("trial"), TRIAL_BYTES);
        trial.err().map(|why| format!("a disk in a file cannot be made and mounted here: {why:#}"))
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// What was not forced to it is gone, and it is mounted again. Nobody may have anything open on it.
    pub fn lose_power(&mut self) -> Result<()> {
        let top = File::open(&self.point)?;
        // SAFETY: the call reads one 32-bit number, which lives as long as the call.
        let done = unsafe { libc::ioctl(top.as_raw_fd(), SHUTDOWN, &SHUTDOWN_WITHOUT_LOG) };
        ensure!(
            done == 0,
            "stopping {}: {}",
            self.point.display(),
            std::io::Error::last_os_error()
        );
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
        // Lazily: who still has something open there is of a test that failed.
        let _ = Command::new("umount").arg("-l").arg(&self.point).output();
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output =
        command.output().with_context(|| format!("starting {:?}", command.get_program()))?;
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
