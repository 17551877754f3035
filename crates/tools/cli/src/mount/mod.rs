//! A mount that this process serves.

pub mod background;
pub mod host_mounts;
pub mod mount_helper;
pub mod options;
pub mod watchdog;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use braid_fuse::{
    fs::FileSystem,
    kernel::{
        PoolOptions,
        mount::{MountError, MountOptions, Mounted, Unmount, unmount},
        uring::Transport,
    },
};
use braid_vfs::{FileIndex, Options, Vfs};

use self::{
    host_mounts::MountRecord,
    watchdog::{Watchdog, WatchdogOptions},
};
use crate::{
    config::Settings,
    connect,
    output::{Exit, Fault},
};

/// A mounted file system. Dropping it unmounts.
pub struct ActiveMount {
    mounted: Arc<Mounted>,
    watchdog: Option<Watchdog>,
    _record: Option<MountRecord>,
    vfs: Arc<Vfs>,
}

impl ActiveMount {
    /// Connects, reads the attributes of the root, and mounts. When it returns, the mount is
    /// usable.
    ///
    /// It does not read them through the mount: this process must never wait for its own mount. If
    /// it were killed in that wait, it would wait forever for a reply that none of its threads can
    /// give, and keep the device open.
    pub fn start(
        options: &MountOptions,
        settings: &Settings,
        behaviour: Options,
        watch: &WatchdogOptions,
    ) -> Result<Self, Fault> {
        let failed = |error| match error {
            braid_vfs::Error::Cluster(error) => error.into(),
            error => Fault::failed(format!("mounting on {}", options.point.display()), error),
        };
        let vfs = Vfs::with(connect::client(settings)?, behaviour).map_err(failed)?;
        vfs.attributes(FileIndex::ROOT, None).map_err(failed)?;
        let vfs = Arc::new(vfs);
        let mounted = Mounted::new(
            options,
            PoolOptions::default(),
            Arc::new(FileSystem::new(Arc::clone(&vfs))),
        );
        let mounted = mounted.map_err(|error| mount_fault(&options.point, &error))?;
        Ok(Self {
            watchdog: warden(&mounted, watch),
            _record: note(&mounted),
            mounted: Arc::new(mounted),
            vfs,
        })
    }

    /// The mount point.
    pub fn point(&self) -> &Path {
        self.mounted.point()
    }

    /// How the kernel's requests arrive.
    pub fn transport(&self) -> Transport {
        self.mounted.transport()
    }

    /// Unmounts, in bounded time.
    pub fn end(&self) {
        self.mounted.end();
    }

    /// Waits until the file system is unmounted, or until a signal comes and unmounts it. Processes
    /// that still use it get errors when this process ends.
    pub fn wait(&self, stop: mpsc::Receiver<()>) {
        let (over, ended) = mpsc::channel();
        let (waiting, gone) = (Arc::clone(&self.mounted), over.clone());
        std::thread::spawn(move || {
            waiting.wait();
            let _ = gone.send(());
        });
        let ending = Arc::clone(&self.mounted);
        std::thread::spawn(move || {
            if stop.recv().is_ok() {
                ending.end();
                let _ = over.send(());
            }
        });
        let _ = ended.recv();
    }
}

impl Drop for ActiveMount {
    fn drop(&mut self) {
        self.end();
        // Flushes files that programs still have open; only this process waits for that.
        self.vfs.flush_all();
        // Ends the session explicitly. The last thread that holds it may not run before the process
        // ends; then its leases would block other clients until they expire.
        self.vfs.end_session();
        // If the detached mount is still in use, the watchdog ends the rest.
        if self.mounted.wait_for(Duration::ZERO) {
            self.watchdog.take().into_iter().for_each(Watchdog::dismiss);
        }
    }
}

/// A mount works without it.
fn warden(mounted: &Mounted, watch: &WatchdogOptions) -> Option<Watchdog> {
    let started = Watchdog::start(mounted, watch);
    let failed = |error: &std::io::Error| {
        tracing::warn!(%error, "no watchdog: if this process is killed, programs may hang");
    };
    started.inspect_err(failed).ok()
}

/// `braid status` works without it.
fn note(mounted: &Mounted) -> Option<MountRecord> {
    let written = mounted
        .entry()
        .and_then(|entry| MountRecord::write(&entry, &mounted.transport().to_string()));
    written
        .inspect_err(|error| tracing::debug!(%error, "no record of this mount for braid status"))
        .ok()
}

/// A channel that gets a message at SIGINT or SIGTERM. A second signal detaches the mount and ends
/// the process immediately, so that no dead mount stays.
pub fn stop_signal(point: &Path) -> Result<mpsc::Receiver<()>, Fault> {
    let (send, receive) = mpsc::sync_channel(1);
    let (point, asked) =
        (std::path::absolute(point).unwrap_or_else(|_| point.to_owned()), AtomicBool::new(false));
    let handler = move || {
        if asked.swap(true, Ordering::AcqRel) {
            let _ = unmount(&point, Unmount::Lazy);
            std::process::exit(130);
        }
        let _ = send.try_send(());
    };
    ctrlc::set_handler(handler).map_err(|e| Fault::failed("waiting for signals", e))?;
    Ok(receive)
}

/// The text of the FUSE layer, with its advice if it has any.
pub fn mount_fault(point: &Path, error: &MountError) -> Fault {
    let exit = match error {
        MountError::NotAllowed => Exit::Refused,
        MountError::Point { why, .. } if why.kind() == std::io::ErrorKind::NotADirectory => {
            Exit::Usage
        }
        MountError::Point { .. } => Exit::NotFound,
        _ => Exit::Failed,
    };
    let text = error.to_string();
    let (why, hint) = text.split_once("; try: ").unwrap_or((&text, ""));
    let fault = Fault::new(exit, format!("mounting on {}", point.display()), why);
    if hint.is_empty() { fault } else { fault.hint(hint) }
}
