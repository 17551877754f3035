//! A mount that this process serves: made, looked at once, and ended in any case.

pub mod alias;
pub mod background;
pub mod options;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use braid_fuse::{
    fs::FileSystem,
    kernel::{
        PoolOptions,
        mount::{MountError, MountOptions, Mounted, Unmount, unmount},
    },
};
use braid_vfs::{Options, Vfs};

use crate::{
    config::Settings,
    connect,
    output::{Exit, Fault},
};

/// A file system in its place. Dropping it unmounts.
pub struct Served {
    mounted: Arc<Mounted>,
}

impl Served {
    /// Connects, mounts, and asks for the attributes of the root: whoever is told of it can use it.
    pub fn start(options: &MountOptions, settings: &Settings, behaviour: Options) -> Result<Self, Fault> {
        let vfs = Vfs::with(connect::client(settings)?, behaviour).map_err(|error| match error {
            braid_vfs::Error::Cluster(error) => error.into(),
            error => Fault::failed(format!("mounting on {}", options.point.display()), error),
        })?;
        let mounted = Mounted::new(options, PoolOptions::default(), Arc::new(FileSystem::new(Arc::new(vfs))));
        let served = Self { mounted: Arc::new(mounted.map_err(|error| told(&options.point, &error))?) };
        let seen = std::fs::metadata(served.point());
        seen.map_err(|e| Fault::failed(format!("mounting on {}", options.point.display()), e).hint("braid status"))?;
        Ok(served)
    }

    /// Where it is.
    pub fn point(&self) -> &Path {
        self.mounted.point()
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
    }
}

/// A channel that gets a message at SIGINT or SIGTERM. At a second one the mount is taken out of the tree
/// and the process ends at once: no dead mount stays behind.
pub fn stop_signal(point: &Path) -> Result<mpsc::Receiver<()>, Fault> {
    let (send, receive) = mpsc::sync_channel(1);
    let (point, asked) = (std::path::absolute(point).unwrap_or_else(|_| point.to_owned()), AtomicBool::new(false));
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
        MountError::Point { .. } => Exit::NotFound,
        _ => Exit::Failed,
    };
    let text = error.to_string();
    let (why, hint) = text.split_once("; try: ").unwrap_or((&text, ""));
    let fault = Fault::new(exit, format!("mounting on {}", point.display()), why);
    if hint.is_empty() { fault } else { fault.hint(hint) }
}
