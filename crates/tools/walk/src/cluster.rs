//! A metadata server and four I/O daemons in this process, over loopback.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use braid_client::{Client, Config, Credential, Secret, message::types::IodState};
use braid_iod::{Iod, IodConfig};
use braid_mds::{Mds, MdsConfig};
use braid_store::LocalStore;
use braid_types::{ClusterUuid, KeyId, limits::SHARDS_DEFAULT};
use braid_wire::message::mds::KeyRights;

const UUID: ClusterUuid = ClusterUuid([7; 16]);
const IODS: usize = 4;
/// Length of a key's secret.
pub const SECRET_BYTES: usize = 32;
/// How long the daemons may take to register.
const READY_WITHIN: Duration = Duration::from_secs(60);
const READY_POLL: Duration = Duration::from_millis(20);

/// A running cluster. The metadata server stops first.
pub struct Cluster {
    mds: Mds,
    iods: Vec<Iod>,
    /// Where the metadata server listens.
    pub address: String,
    /// A client key with all rights.
    pub key: KeyId,
    /// Its secret.
    pub secret: [u8; SECRET_BYTES],
}

impl Cluster {
    /// A new cluster in this directory.
    pub fn start(dir: &Path) -> Result<Self> {
        let key = Secret::from_bytes([9; SECRET_BYTES]);
        let home = dir.join("mds");
        Mds::init(&home, UUID, SHARDS_DEFAULT)?;
        let mds = Mds::start(MdsConfig::new(home, vec!["127.0.0.1:0".into()], key.clone()))?;
        let address: Vec<String> = mds.local_addrs().iter().map(ToString::to_string).collect();
        let iods = (0..IODS).map(|number| {
            let home = dir.join(format!("iod{number}"));
            std::fs::create_dir_all(&home)?;
            LocalStore::init(&home, UUID, None)?;
            Ok(Iod::start(IodConfig::on_loopback(home, UUID, address.clone(), key.clone()))?)
        });
        let iods = iods.collect::<Result<Vec<Iod>>>()?;
        let admin = Client::connect(Config::new(address.clone(), Credential::ServerKey(key)))?;
        wait_until_registered(&admin)?;
        let made = admin.key_add("walk", KeyRights::full())?;
        Ok(Self { mds, iods, address: address.concat(), key: made.key, secret: made.secret })
    }
}

fn wait_until_registered(admin: &Client) -> Result<()> {
    let deadline = Instant::now() + READY_WITHIN;
    let up = || -> Result<usize> {
        let map = admin.cluster_map()?;
        Ok(map.iods.iter().filter(|iod| iod.state == IodState::Up).count())
    };
    while up()? < IODS {
        ensure!(Instant::now() < deadline, "the I/O daemons did not register in {READY_WITHIN:?}");
        std::thread::sleep(READY_POLL);
    }
    Ok(())
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.mds.stop();
        self.iods.iter_mut().for_each(|iod| _ = iod.stop());
    }
}
