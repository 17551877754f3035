//! The configuration of a daemon.

use std::{io, net::SocketAddr, path::PathBuf};

use braid_net::{Endpoint, TlsPolicy};
use braid_types::ClusterUuid;
use braid_wire::{Credential, NodeKind, Role, Secret};

/// The configuration of an [`Iod`](super::Iod).
#[derive(Clone, Debug)]
pub struct IodConfig {
    /// Its object directory, created by [`LocalStore::init`](braid_store::LocalStore::init).
    pub dir: PathBuf,
    /// The cluster that the directory must belong to.
    pub cluster: ClusterUuid,
    /// Where it listens: `host:port`, one for each network interface. With port 0 the system
    /// chooses.
    pub listen: Vec<String>,
    /// Where others reach it, if that is not where it listens (`0.0.0.0`, or behind address
    /// translation); empty for the listening addresses.
    pub advertise: Vec<String>,
    /// Where it serves NFS clients with layouts, `host:port`; empty for nowhere.
    pub nfs_listen: Vec<String>,
    /// Where NFS clients reach it, if that is not where it listens.
    pub nfs_advertise: Vec<String>,
    /// Addresses of the metadata server, `host:port`.
    pub mds: Vec<String>,
    /// The server key.
    pub server_key: Secret,
    /// `key=value`, for placement.
    pub labels: Vec<String>,
    /// When connections use TLS, in both directions.
    pub tls: TlsPolicy,
    /// Where Prometheus reads the metrics, `host:port`; `None` for nowhere.
    pub prometheus: Option<String>,
}

impl IodConfig {
    /// A daemon on one machine: any port of loopback, no labels, no metrics.
    pub fn on_loopback(
        dir: impl Into<PathBuf>,
        cluster: ClusterUuid,
        mds: Vec<String>,
        server_key: Secret,
    ) -> Self {
        Self {
            dir: dir.into(),
            cluster,
            listen: vec!["127.0.0.1:0".to_owned()],
            advertise: Vec::new(),
            nfs_listen: Vec::new(),
            nfs_advertise: Vec::new(),
            mds,
            server_key,
            labels: Vec::new(),
            tls: TlsPolicy::default(),
            prometheus: None,
        }
    }

    pub(super) fn mds_endpoint(&self) -> Endpoint {
        Endpoint {
            node: NodeKind::Mds,
            node_id: 0,
            cluster: Some(self.cluster),
            addresses: self.mds.clone(),
            role: Role::Iod,
            credential: Credential::Server,
            secret: self.server_key.clone(),
            tls: self.tls,
        }
    }
}

/// The addresses to announce: those given, else those that it listens on.
///
/// # Errors
/// An address to which nobody can connect.
pub(super) fn advertised(given: &[String], listening: &[SocketAddr]) -> io::Result<Vec<String>> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    match listening.iter().find(|address| address.ip().is_unspecified()) {
        Some(address) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "nobody can connect to {address}; \
                 try: name the addresses to advertise, one for each network interface"
            ),
        )),
        None => Ok(listening.iter().map(SocketAddr::to_string).collect()),
    }
}
