//! NFS clients, a mount and a program with the library use the same files at the same time.
//!
//! ```text
//!   NfsMount ── gateway with delegations ─┐
//!            └─ data servers ─────────────┼── metadata server, two I/O daemons
//!   FUSE mount ───────────────────────────┤
//!   library ──────────────────────────────┘
//! ```
//!
//! Tests that run at the same time share one cluster, since none of them kills a process; each has
//! files of its own. Nothing here depends on time: where a call must wait for another client, that
//! client notes what it did before, and the call checks the note when it returns.
#![cfg(target_os = "linux")]

mod caches;
mod delegations;
mod directories;
mod kept_layouts;
mod layouts;
mod locks;
mod names;
mod shares;

use std::{
    fs::{File, OpenOptions},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use braid_client::Client;
use braid_mount_tests::stage::mount::Mount;
use braid_nfs_wire::nfs4::{FileHandle, NfsStatus, StableHow};
use braid_testbed::nfs::{NfsError, NfsFile, NfsMount};

use crate::{harness::binary, mount::can_mount, nfs::NfsProcesses};

/// A cluster with a gateway and a mount.
pub struct Mixed {
    // Before the servers, since an unmount sends requests to them.
    mount: Mount,
    processes: NfsProcesses,
}

/// The cluster of the tests that run now.
static SHARED: Mutex<Weak<Mixed>> = Mutex::new(Weak::new());

impl Mixed {
    /// The cluster; `None`, with the reason printed, where nothing can be mounted.
    pub fn shared() -> Option<Arc<Self>> {
        if !can_mount() {
            return None;
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let running = shared.upgrade().unwrap_or_else(|| Arc::new(Self::start()));
        *shared = Arc::downgrade(&running);
        Some(running)
    }

    fn start() -> Self {
        let mut processes = NfsProcesses::start(2, 0);
        processes.add_gateway_with(&["--delegations"]);
        let mount = mount(&processes, "mnt");
        Self { mount, processes }
    }

    /// A directory of the mount for one test, and the same for an NFS client.
    pub fn dir(&self, name: &str) -> (PathBuf, Nfs) {
        let path = self.mount.point().join(name);
        std::fs::create_dir(&path).unwrap();
        (path, self.nfs(name, "client"))
    }

    /// One more NFS client of a directory.
    pub fn nfs(&self, dir: &str, client: &str) -> Nfs {
        let mut mount = self.processes.mount(0, &format!("{client} of {dir}"));
        let root = mount.root.clone();
        let dir = mount.look_up(&root, dir).unwrap();
        Nfs { mount, dir }
    }

    /// A program with the library.
    pub fn library(&self) -> Client {
        Client::connect(self.processes.library()).unwrap()
    }

    /// `braid fsck` finds nothing.
    pub fn fsck(&self) {
        self.processes.cluster.ok(&["fsck"]);
    }
}

/// Mounts the file system of a cluster in the directory of this name.
pub fn mount(processes: &NfsProcesses, name: &str) -> Mount {
    let (mds, key) = processes.contact();
    let point = processes.cluster.dir.path().join(name);
    Mount::start(&binary(), point, &mds, &key, &[]).unwrap()
}

/// An NFS client, and a directory.
pub struct Nfs {
    pub mount: NfsMount,
    pub dir: FileHandle,
}

impl Nfs {
    /// Creates a file with this content, and closes it.
    pub fn create(&mut self, name: &str, content: &[u8]) -> FileHandle {
        let file = self.mount.open(&self.dir, name, true).unwrap();
        self.write(&file, 0, content);
        self.mount.close(&file).unwrap();
        file.handle
    }

    pub fn open(&mut self, name: &str) -> NfsFile {
        self.mount.open(&self.dir, name, false).unwrap()
    }

    /// Writes all of the bytes, without COMMIT.
    pub fn write(&mut self, file: &NfsFile, offset: u64, bytes: &[u8]) {
        let data = bytes.to_vec().into();
        let (count, _) = self.mount.write(file, offset, data, StableHow::Unstable).unwrap();
        assert_eq!(count as usize, bytes.len());
    }

    /// The content of an open file, as long as its size says.
    pub fn content(&mut self, file: &NfsFile) -> Vec<u8> {
        let size = self.mount.size(&file.handle).unwrap();
        // One byte more: the size is what READ finds, too.
        let read = self.mount.read(file, 0, size as u32 + 1).unwrap();
        assert_eq!(read.len() as u64, size, "the size and what READ returns");
        read.into()
    }

    /// Opens a file, reads it and closes it.
    pub fn read(&mut self, name: &str) -> Vec<u8> {
        let file = self.open(name);
        let content = self.content(&file);
        self.mount.close(&file).unwrap();
        content
    }
}

/// A file of the mount, open to read and write.
pub fn open_both(path: &std::path::Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

/// The status with which the server refused a call.
pub fn refused<T>(done: Result<T, NfsError>) -> Option<NfsStatus> {
    done.err().and_then(|error| error.status())
}

/// Runs a call that must wait for another client, in a thread of its own, and `meanwhile`, which
/// does for that client what the call waits for, and begins its last step with the given function.
#[track_caller]
pub fn waits_for<T: Send>(
    what: &str,
    call: impl FnOnce() -> T + Send,
    meanwhile: impl FnOnce(&dyn Fn()),
) -> T {
    let last_step = AtomicBool::new(false);
    let (done, waited) = thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let done = call();
            (done, last_step.load(Ordering::SeqCst))
        });
        meanwhile(&|| last_step.store(true, Ordering::SeqCst));
        calling.join().unwrap()
    });
    assert!(waited, "{what} did not wait");
    done
}
