//! A mount that this process serves.

use super::unmount::unmount_resolved;
use super::{
    MountEntry, MountError, MountOptions, Unmount, UnmountError, direct, fusermount, table,
};
use crate::kernel::connection::Connection;
use crate::kernel::uring::Transport;
use crate::kernel::worker::PoolOptions;
use crate::kernel::{Features, Handler, KernelFeatures};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long an unmount may write back dirty pages before it becomes lazy. Processes wait for this
/// one to end, and an init system kills it after 90 s.
const UNMOUNT_PATIENCE: Duration = Duration::from_secs(40);
/// How long the kernel may take to end the connection after that.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// A mount that is served until any process unmounts it. Dropping it unmounts.
#[derive(Debug)]
pub struct Mounted {
    point: PathBuf,
    connection: Arc<Connection>,
}

impl Mounted {
    /// Mounts and serves. The first request may run before it returns.
    pub fn new(
        options: &MountOptions,
        pool: PoolOptions,
        handler: Arc<dyn Handler>,
    ) -> Result<Self, MountError> {
        let (point, root_mode) = usable(&options.point)?;
        let device = match direct::mount(options, &point, root_mode)? {
            Some(device) => device,
            None => fusermount::mount(options, &point)?,
        };
        match Connection::start(device, handler, pool, options.io_uring) {
            Ok(connection) => {
                let mounted = Self { point, connection: Arc::new(connection) };
                mounted.set_read_ahead();
                Ok(mounted)
            }
            Err(error) => {
                // The device is closed, so no request is pending.
                let _ = unmount_resolved(&point, Unmount::Lazy);
                Err(error.into())
            }
        }
    }

    /// The mount point, as in the table of mounts.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Its entry in the table of mounts; ENOENT after its end.
    pub fn entry(&self) -> io::Result<MountEntry> {
        let number = self.connection.number();
        let is_it = |entry: &MountEntry| {
            entry.is_ours() && (number.is_none() || entry.connection() == number)
        };
        let found =
            table::entries()?.into_iter().rfind(|entry| entry.point == self.point && is_it(entry));
        Ok(found.ok_or(Errno::NOENT)?)
    }

    /// What the kernel offered.
    pub fn kernel(&self) -> &KernelFeatures {
        self.connection.kernel()
    }

    /// What was agreed on.
    pub fn features(&self) -> Features {
        self.connection.features()
    }

    /// The transport of requests.
    pub fn transport(&self) -> Transport {
        self.connection.transport()
    }

    /// Threads that serve it now.
    pub fn workers(&self) -> usize {
        self.connection.workers()
    }

    /// Waits until it is unmounted.
    pub fn wait(&self) {
        self.connection.wait();
    }

    /// As `wait`, for at most `time`. Whether it is unmounted.
    pub fn wait_for(&self, time: Duration) -> bool {
        self.connection.wait_for(time)
    }

    /// Unmounts as `umount` does: fails while it is in use.
    pub fn unmount(&self) -> Result<(), UnmountError> {
        unmount_resolved(&self.point, Unmount::Plain)
    }

    /// Ends the mount in any case, in bounded time (I8): by a plain unmount, or by a lazy one where
    /// that is refused or takes too long. Processes that still use it get errors when this process
    /// ends.
    pub fn end(&self) {
        if self.wait_for(Duration::ZERO) {
            return;
        }
        // On a separate thread: the kernel may wait for replies to its write-back.
        let point = self.point.clone();
        let (done, waiting) = std::sync::mpsc::channel();
        let plain = std::thread::Builder::new().name("fuse-unmount".into()).spawn(move || {
            let _ = done.send(unmount_resolved(&point, Unmount::Plain));
        });
        let result = plain.ok().map(|_| waiting.recv_timeout(UNMOUNT_PATIENCE));
        if !matches!(result, Some(Ok(Ok(())))) && entry_is_ours(&self.point) {
            tracing::warn!(
                point = %self.point.display(),
                "unmounted while in use: processes there will get errors"
            );
            let _ = unmount_resolved(&self.point, Unmount::Lazy);
        }
        self.wait_for(END_PATIENCE);
    }

    /// Sets the read-ahead. The kernel's default of 128 KiB is less than one stripe. Only root may
    /// set more; a mount of another user works without it.
    fn set_read_ahead(&self) {
        let Ok(entry) = self.entry() else { return };
        let kib = self.connection.read_ahead_bytes() >> 10;
        let _ = std::fs::write(
            format!("/sys/class/bdi/{}/read_ahead_kb", entry.device),
            kib.to_string(),
        );
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.end();
    }
}

fn entry_is_ours(point: &Path) -> bool {
    table::entry_at(point).ok().flatten().is_some_and(|entry| entry.is_ours())
}

/// Whether the directory is a mount whose process is gone. The kernel may still have its attributes
/// cached, so `stat` works; `statfs` always needs the process.
pub fn is_dead(point: &Path) -> bool {
    matches!(rustix::fs::statfs(point), Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// The directory as the table of mounts will show it, and its mode; or why it cannot be a mount
/// point.
fn usable(point: &Path) -> Result<(PathBuf, u32), MountError> {
    let unusable = |why: io::Error| MountError::Point { point: point.to_owned(), why };
    let resolved = table::resolve(point).map_err(unusable)?;
    if is_dead(&resolved) {
        return Err(MountError::Dead { point: resolved });
    }
    let stat = rustix::fs::stat(&resolved).map_err(|error| unusable(error.into()))?;
    // Also follows a link at the end of the path.
    let point = resolved.canonicalize().map_err(unusable)?;
    match table::entry_at(&point).map_err(unusable)? {
        Some(entry) if entry.is_ours() => {
            Err(MountError::Mounted { point, source_name: entry.source, kind: entry.kind })
        }
        _ if rustix::fs::FileType::from_raw_mode(stat.st_mode)
            != rustix::fs::FileType::Directory =>
        {
            Err(unusable(Errno::NOTDIR.into()))
        }
        _ => Ok((point, stat.st_mode)),
    }
}
