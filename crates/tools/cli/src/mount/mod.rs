//! A mount that this process serves: made, and ended in any case.

pub mod alias;
pub mod background;
pub mod local;
pub mod options;
pub mod warden;

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
    local::Note,
    warden::{Warden, Watch},
};
use crate::{
    config::Settings,
    connect,
    output::{Exit, Fault},
};

/// A file system in its place. Dropping it unmounts.
pub struct Served {
    mounted: Arc<Mounted>,
    warden: Option<Warden>,
    _note: Option<Note>,
    vfs: Arc<Vfs>,
}

impl Served {
    /// Connects, asks for the attributes of the root, and mounts: whoever is told of it can use it.
    ///
    /// Not through the mount: the only process that may never wait for it is this one. Killed while it did, it would wait for
    /// ever for an answer that none of its threads is left to give, and hold the device open by that.
    pub fn start(
        options: &MountOptions,
        settings: &Settings,
        behaviour: Options,
        watch: &Watch,
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
        let mounted = mounted.map_err(|error| told(&options.point, &error))?;
        Ok(Self {
            warden: warden(&mounted, watch),
            _note: note(&mounted),
            mounted: Arc::new(mounted),
            vfs,
        })
    }

    /// Where it is.
    pub fn point(&self) -> &Path {
        self.mounted.point()
    }

    /// How the kernel's requests come.
    pub fn transport(&self) -> Transport {
        self.mounted.transport()
    }

    /// Unmounts, in bounded time.
    pub fn end(&self) {
        self.mounted.end();
    }

    /// Until it is unmounted, by whom ever, or a signal comes, which unmounts it. Processes that still hold
    /// it then get errors, when this one ends.
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

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
        // Of files that programs still have open; nobody waits for it but this process.
        self.vfs.settle();
        // Not left to the last of the threads that hold it: the process would end before, and its leases be in everyone's way
        // until the server gives it up.
        self.vfs.leave();
        // Of one that is still in use, out of the tree, the warden has to end what is left.
        if self.mounted.wait_for(Duration::ZERO) {
            self.warden.take().into_iter().for_each(Warden::farewell);
        }
    }
}

/// A mount works without.
fn warden(mounted: &Mounted, watch: &Watch) -> Option<Warden> {
    let started = Warden::start(mounted, watch);
    started.inspect_err(|error| tracing::warn!(%error, "no warden: if this process is killed, programs may hang")).ok()
}

/// `braid status` works without.
fn note(mounted: &Mounted) -> Option<Note> {
    let written =
        mounted.entry().and_then(|entry| Note::write(&entry, &mounted.transport().to_string()));
    written
        .inspect_err(|error| tracing::debug!(%error, "no note of how this mount's requests come"))
        .ok()
}

/// A channel that gets a message at SIGINT or SIGTERM. At a second one the mount is taken out of the tree
/// and the process ends at once: no dead mount stays behind.
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

/// The layer's own words, with its advice where it has some.
fn told(point: &Path, error: &MountError) -> Fault {
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
