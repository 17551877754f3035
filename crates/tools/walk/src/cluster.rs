//! A metadata server and four I/O daemons in this process, over loopback.

use std::path::Path;

use anyhow::Result;
use braid_client::message::mds::KeyRights;
use braid_testbed::in_process::InProcessCluster;
use braid_types::KeyId;

const IODS: usize = 4;
/// Length of a key's secret.
pub const SECRET_BYTES: usize = 32;

/// A running cluster.
pub struct Cluster {
    _servers: InProcessCluster,
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
        let servers = InProcessCluster::start(dir, IODS)?;
        let made = servers.admin()?.key_add("walk", KeyRights::full())?;
        let address = servers.addresses().concat();
        Ok(Self { _servers: servers, address, key: made.key, secret: made.secret })
    }
}
