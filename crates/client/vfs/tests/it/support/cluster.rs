//! A cluster of one metadata server and some I/O daemons in this process, and mounts of it.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_client::{Client, Config};
use braid_testbed::{in_process::InProcessCluster, wait};
use braid_vfs::{CacheInvalidator, FileIndex, Options, User, Vfs};
use braid_wire::message::{
    mds::KeyRights,
    quota::{QuotaBound, QuotaKind, QuotaLimits, QuotaOwner},
};

/// A gateway that caches nothing.
struct Forgetful;

impl CacheInvalidator for Forgetful {
    fn drop_names(&self, _: &[(FileIndex, Vec<FileIndex>)]) {}
    fn drop_attributes(&self, _: FileIndex) {}
    fn drop_data(&self, _: FileIndex, _: u64, _: u64) {}
}

/// A running cluster.
pub struct Cluster {
    servers: InProcessCluster,
    config: Config,
    admin: Client,
    _dir: tempfile::TempDir,
}

impl Cluster {
    pub fn start(iods: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let disks: Vec<PathBuf> =
            (0..iods).map(|number| dir.path().join(format!("disk{number}"))).collect();
        Self::on(dir, &disks.iter().map(PathBuf::as_path).collect::<Vec<_>>())
    }

    /// With an I/O daemon on each of these disks.
    pub fn start_on(disks: &[&Path]) -> Self {
        Self::on(tempfile::tempdir().unwrap(), disks)
    }

    fn on(dir: tempfile::TempDir, disks: &[&Path]) -> Self {
        let disks: Vec<PathBuf> = disks.iter().map(|disk| disk.join("iod")).collect();
        let servers = InProcessCluster::start_on(dir.path(), &disks).unwrap();
        let key = servers.add_key("mounts", KeyRights::full()).unwrap();
        let (config, admin) = (servers.config(key.into_credential()), servers.admin().unwrap());
        Self { servers, config, admin, _dir: dir }
    }

    /// Stops the metadata server, until [`Cluster::start_mds`].
    pub fn stop_mds(&mut self) {
        self.servers.stop_mds();
    }

    /// Starts it again at the same address.
    pub fn start_mds(&mut self) {
        self.servers.start_mds().unwrap();
    }

    /// Calls that the metadata server has received from all clients.
    pub fn calls(&self) -> u64 {
        self.admin.daemon_status().unwrap().calls
    }

    /// Files whose size is not recorded.
    pub fn sizes_in_objects(&self) -> u64 {
        self.admin.mds_status().unwrap().sizes_in_objects
    }

    /// Limits the inodes of a group.
    pub fn limit_group(&self, id: u64, inodes: u64) {
        let bound = |hard| QuotaBound { hard, soft: None };
        let limits =
            QuotaLimits { bytes: bound(None), inodes: bound(Some(inodes)), grace_seconds: 0 };
        self.admin.quota_set(QuotaOwner { kind: QuotaKind::Group, id }, limits).unwrap();
    }

    /// Bytes that the I/O daemons have received to write, and calls that they have answered.
    pub fn written(&self) -> (u64, u64) {
        let counters = self.servers.iods().iter().map(|iod| iod.core().counters());
        counters.fold((0, 0), |(bytes, calls), of_one| {
            (bytes + of_one.bytes_written.load(Relaxed), calls + of_one.calls.load(Relaxed))
        })
    }

    /// Bytes that each I/O daemon has received to write.
    pub fn written_to_each(&self) -> Vec<u64> {
        self.servers
            .iods()
            .iter()
            .map(|iod| iod.core().counters().bytes_written.load(Relaxed))
            .collect()
    }

    /// Bytes that each I/O daemon has sent to readers.
    pub fn read_from_each(&self) -> Vec<u64> {
        self.servers
            .iods()
            .iter()
            .map(|iod| iod.core().counters().bytes_read.load(Relaxed))
            .collect()
    }

    /// Calls that each I/O daemon has answered.
    pub fn answered_by_each(&self) -> Vec<u64> {
        self.servers.iods().iter().map(|iod| iod.core().counters().calls.load(Relaxed)).collect()
    }

    /// Stops the metadata server. The named I/O daemons continue to work; the others refuse calls.
    pub fn stop_metadata_server(&mut self, goes_on: &[usize]) {
        self.stop_mds();
        // Lets the effect of the last heartbeat end.
        for _ in 0..10 {
            for (number, iod) in self.servers.iods().iter().enumerate() {
                iod.core().serve_until(goes_on.contains(&number).then_some(Duration::MAX));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops the I/O daemons.
    pub fn stop_daemons(&mut self) {
        self.servers.iods_mut().iter_mut().for_each(|iod| _ = iod.stop());
    }

    /// Stops one of them.
    pub fn stop_daemon(&mut self, number: usize) {
        self.servers.iods_mut()[number].stop();
    }

    /// The configuration of a client.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// The same for a client that acts for one user only.
    pub fn config_of_a_user(&self, user: User) -> Config {
        let rights = KeyRights { squash: Some((user.uid, user.gid)), ..KeyRights::full() };
        self.servers.config(self.servers.add_key("user", rights).unwrap().into_credential())
    }

    /// A client that caches nothing.
    pub fn client(&self) -> Client {
        Client::connect(self.config.clone()).unwrap()
    }

    /// Another mount that takes leases, for a gateway that caches nothing.
    pub fn serving_mount(&self) -> Vfs {
        self.serving_mount_of(self.config())
    }

    /// The same, with this client configuration.
    pub fn serving_mount_of(&self, config: Config) -> Vfs {
        self.serving_mount_with(config, Options::default())
    }

    /// The same, with these options.
    pub fn serving_mount_with(&self, config: Config, options: Options) -> Vfs {
        let vfs = Vfs::with(Client::connect(config).unwrap(), options).unwrap();
        vfs.serve(Arc::new(Forgetful)).unwrap();
        vfs
    }

    /// Another mount, with its own session.
    pub fn mount(&self) -> Vfs {
        Vfs::new(Client::connect(self.config.clone()).unwrap()).unwrap()
    }
}

/// Waits for a condition that other threads bring about, with a limit.
pub fn wait_for(done: impl FnMut() -> bool) {
    wait::wait_for("the condition", done);
}
