//! A metadata server and I/O daemons in the calling process, over loopback, for tests that use the
//! library or look into the servers.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use braid_client::{Client, Config, Credential, KeyFile, Secret, message::mds::KeyRights};
use braid_iod::{Iod, IodConfig};
use braid_mds::{Mds, MdsConfig, StartError};
use braid_store::LocalStore;
use braid_types::{ClusterUuid, Status, limits::SHARDS_DEFAULT};

use crate::{registration, wait::until};

const UUID: ClusterUuid = ClusterUuid([7; 16]);
/// Longer than a start or a registration takes on a busy machine.
const READY_MAX: Duration = Duration::from_secs(120);

/// A running cluster. The metadata server stops first, since it still needs the I/O daemons.
pub struct InProcessCluster {
    mds: Option<Mds>,
    iods: Vec<Iod>,
    addresses: Vec<String>,
    dir: PathBuf,
}

impl InProcessCluster {
    /// A new cluster whose metadata server and I/O daemons have directories in `dir`.
    ///
    /// # Errors
    /// A server does not start.
    pub fn start(dir: &Path, iods: usize) -> Result<Self> {
        let disks: Vec<PathBuf> = (0..iods).map(|iod| dir.join(format!("iod{iod}"))).collect();
        Self::start_on(dir, &disks)
    }

    /// The same, with the objects of the I/O daemons in these directories, which are created.
    ///
    /// # Errors
    /// A server does not start.
    pub fn start_on(dir: &Path, disks: &[PathBuf]) -> Result<Self> {
        let mut cluster = Self::start_mds_only(dir)?;
        for disk in disks {
            cluster.add_iod(disk, |config| config)?;
        }
        cluster.wait_until_up()?;
        Ok(cluster)
    }

    /// Without I/O daemons yet.
    ///
    /// # Errors
    /// The metadata server does not start.
    pub fn start_mds_only(dir: &Path) -> Result<Self> {
        let mut cluster =
            Self { mds: None, iods: Vec::new(), addresses: Vec::new(), dir: dir.to_owned() };
        Mds::init(&cluster.mds_dir(), UUID, SHARDS_DEFAULT).context("making a namespace")?;
        let listen = vec!["127.0.0.1:0".into()];
        let mds = Mds::start(MdsConfig::new(cluster.mds_dir(), listen, server_key()))?;
        cluster.addresses = mds.local_addrs().iter().map(ToString::to_string).collect();
        cluster.mds = Some(mds);
        Ok(cluster)
    }

    /// Starts one more I/O daemon, with objects in `disk` and a configuration that `change` may
    /// change. Returns the address that it listens on. It may register a little later:
    /// [`Self::wait_until_up`].
    ///
    /// # Errors
    /// It does not start.
    pub fn add_iod(
        &mut self,
        disk: &Path,
        change: impl FnOnce(IodConfig) -> IodConfig,
    ) -> Result<SocketAddr> {
        std::fs::create_dir_all(disk)?;
        LocalStore::init(disk, UUID, None).context("making an object directory")?;
        let config = IodConfig::on_loopback(disk, UUID, self.addresses.clone(), server_key());
        let iod = Iod::start(change(config))?;
        let address = iod.addresses()[0];
        self.iods.push(iod);
        Ok(address)
    }

    /// Waits until all I/O daemons are registered.
    ///
    /// # Errors
    /// After 120 s.
    pub fn wait_until_up(&self) -> Result<()> {
        registration::wait_until_up(&self.admin()?, self.iods.len(), READY_MAX)
    }

    /// The metadata server.
    ///
    /// # Panics
    /// It was stopped.
    pub fn mds(&self) -> &Mds {
        self.mds.as_ref().expect("the metadata server runs")
    }

    /// The I/O daemons.
    pub fn iods(&self) -> &[Iod] {
        &self.iods
    }

    /// The I/O daemons, to stop or remove them.
    pub fn iods_mut(&mut self) -> &mut Vec<Iod> {
        &mut self.iods
    }

    /// The addresses of the metadata server.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// A client with the server key, which may do everything.
    ///
    /// # Errors
    /// The metadata server is not reached.
    pub fn admin(&self) -> Result<Client> {
        Ok(Client::connect(self.config(Credential::ServerKey(server_key())))?)
    }

    /// Makes a client key.
    ///
    /// # Errors
    /// The metadata server refuses or is not reached.
    pub fn add_key(&self, name: &str, rights: KeyRights) -> Result<KeyFile> {
        let made = self.admin()?.key_add(name, rights)?;
        let secret = Secret::from_bytes(made.secret);
        Ok(KeyFile { id: made.key, name: name.to_owned(), admin: false, secret })
    }

    /// The configuration of a client that proves its identity by `credential`.
    pub fn config(&self, credential: Credential) -> Config {
        Config { cluster: Some(UUID), ..Config::new(self.addresses.clone(), credential) }
    }

    /// Stops the metadata server, until [`Self::start_mds`].
    pub fn stop_mds(&mut self) {
        self.mds = None;
    }

    /// Starts it again at the same addresses.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_mds(&mut self) -> Result<()> {
        // The store is in use until the last running call to an I/O daemon has ended.
        until("the metadata store is not in use", READY_MAX, || {
            let config = MdsConfig::new(self.mds_dir(), self.addresses.clone(), server_key());
            match Mds::start(config) {
                Err(error) if is_busy(&error) => return Ok(false),
                started => self.mds = Some(started?),
            }
            Ok(true)
        })
        .map(drop)
    }

    fn mds_dir(&self) -> PathBuf {
        self.dir.join("mds")
    }
}

impl Drop for InProcessCluster {
    fn drop(&mut self) {
        self.stop_mds();
        for iod in &mut self.iods {
            iod.stop();
        }
    }
}

fn server_key() -> Secret {
    Secret::from_bytes([9; 32])
}

fn is_busy(error: &StartError) -> bool {
    matches!(error, StartError::Directory { failure, .. } if failure.status == Status::Busy)
}
