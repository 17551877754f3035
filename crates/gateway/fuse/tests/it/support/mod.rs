//! A cluster in this process, mounted by the kernel of this machine.
#![allow(dead_code, reason = "each test binary uses some of it")]

#[path = "../../../../../client/vfs/tests/it/support/cluster.rs"]
mod cluster;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use braid_fuse::{
    fs::FileSystem,
    kernel::{
        Handler, PoolOptions,
        mount::{MountOptions, Mounted},
    },
};
#[allow(unused_imports, reason = "each test binary uses some of it")]
pub use cluster::{Cluster, wait_for};

/// One mount. It is unmounted when dropped, before the cluster ends.
pub struct Mount {
    mounted: Mounted,
    file_system: Arc<FileSystem>,
    point: tempfile::TempDir,
}

impl Mount {
    pub fn new(cluster: &Cluster) -> Self {
        Self::with(cluster, PoolOptions::default())
    }

    pub fn with(cluster: &Cluster, pool: PoolOptions) -> Self {
        let point = tempfile::tempdir().unwrap();
        let mut options = MountOptions::new("braid", point.path());
        (options.suid, options.dev) = (true, true);
        options.io_uring = crate::harness::transport();
        let file_system = Arc::new(FileSystem::new(Arc::new(cluster.mount())));
        let handler: Arc<dyn Handler> = Arc::clone(&file_system) as _;
        let mounted = Mounted::new(&options, pool, handler).unwrap();
        Self { mounted, file_system, point }
    }

    /// Reads of the kernel that were served through a pipe.
    pub fn piped_reads(&self) -> u64 {
        self.file_system.piped_reads()
    }

    /// Programs that wait for a lock.
    pub fn lock_waits(&self) -> usize {
        self.file_system.lock_waits()
    }

    /// Calls the file system as at the end of the mount.
    pub fn tell_the_end(&self) {
        self.file_system.destroyed();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.point.path().join(name)
    }

    pub fn point(&self) -> &Path {
        self.point.path()
    }
}

/// Whether this machine can mount; prints why not.
pub fn can_mount() -> bool {
    let root = rustix::process::geteuid().is_root();
    let device = Path::new("/dev/fuse").exists();
    if !root || !device {
        eprintln!("skipped: a mount needs root (here: {root}) and /dev/fuse (here: {device})");
    }
    root && device
}
