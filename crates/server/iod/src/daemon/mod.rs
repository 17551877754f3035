//! The daemon in production: threads, sockets and a clock around the [`IodCore`].
//!
//! ```text
//!   accept ──> thread per connection (connection.rs) ─┬─ reads, writes: here, in slices (ADR 0001)
//!                                                     └─ blocking operations ──> workers ──> reply
//!   registrar (registrar.rs) ── one thread: register, heartbeat, apply fences
//!   metrics ── one thread, if configured
//! ```

mod clock;
mod config;
mod connection;
pub(crate) mod directory_id;
mod keys;
mod registrar;
mod socket_sink;
mod workers;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use braid_net::{
    metrics_http::MetricsServer,
    server::{Listener, ServerConfig},
};
use braid_store::{LocalOptions, LocalStore, ObjectStore, StoreError};
use braid_types::IodId;
use braid_wire::{NFS_ADDRESS_LABEL, NodeKind};

pub use config::IodConfig;
use config::advertised;

pub(crate) use self::clock::Clock;
use self::{connection::Connections, keys::Keys, registrar::Registrar, workers::Workers};
use crate::{
    iod_core::IodCore,
    nfs::NfsDataServer,
    registration::{Registration, RegistrationInfo},
};

/// Threads that block on the disk for clients. Flushes of one disk queue in the disk anyway; four
/// keep it busy.
const CLIENT_WORKERS: usize = 4;
/// The same for the metadata server, so that a truncate does not wait behind clients' flushes.
const MDS_WORKERS: usize = 2;

/// Why a daemon did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Its directory cannot be served.
    #[error("the I/O daemon cannot use its directory: {0}")]
    Store(#[from] StoreError),
    /// A socket, a thread or the directory's id cannot be created or read.
    #[error("the I/O daemon cannot start: {0}")]
    Io(#[from] io::Error),
}

/// A running I/O daemon. Dropping it stops it.
#[derive(Debug)]
pub struct Iod {
    daemon: Arc<Daemon>,
    listener: Arc<Listener>,
    registrar: Registrar,
    metrics: Option<MetricsServer>,
    nfs: Option<NfsDataServer>,
}

/// What the daemon's threads share.
#[derive(Debug)]
struct Daemon {
    core: Arc<IodCore<LocalStore>>,
    clock: Clock,
    client_workers: Workers,
    mds_workers: Workers,
    /// For flushes of the whole store, which run one at a time.
    flusher: Workers,
}

impl Iod {
    /// Opens the directory, listens, and begins to register. It returns before the metadata server
    /// has answered; until then no data is served.
    ///
    /// # Errors
    /// [`StartError`]: a missing or foreign directory, an address in use.
    pub fn start(config: IodConfig) -> Result<Self, StartError> {
        let store = LocalStore::open(&config.dir, config.cluster, LocalOptions::default())?;
        let directory = directory_id::read_or_make(&config.dir)?;
        let iod = store.identity().iod.unwrap_or_default();
        let clock = Clock::start();
        let core = IodCore::new(Arc::new(store), config.server_key.clone(), clock.now());
        let core = core.on_shared_device().map_err(|why| io::Error::other(why.to_string()))?;
        let core = Arc::new(core);

        let mut server = ServerConfig::new(NodeKind::Iod, iod.0, config.cluster);
        server.tls = config.tls;
        let listener =
            Listener::bind(&config.listen, server, Arc::new(Keys::new(config.server_key.clone())))?;
        let listener = Arc::new(listener);
        let addresses = advertised(&config.advertise, listener.local_addrs())?;
        tracing::info!(
            iod = (iod.0 != 0).then_some(iod.0),
            dir = %config.dir.display(),
            ?addresses,
            "I/O daemon started"
        );

        let daemon = Arc::new(Daemon {
            client_workers: Workers::start("client", CLIENT_WORKERS, &core, clock)?,
            mds_workers: Workers::start("mds", MDS_WORKERS, &core, clock)?,
            flusher: Workers::start("flush", 1, &core, clock)?,
            core,
            clock,
        });
        listener.serve(Arc::new(Connections::new(daemon.clone())))?;
        let metrics = config
            .prometheus
            .as_deref()
            .map(|address| serve_metrics(address, &daemon))
            .transpose()?;
        let nfs = match &config.nfs_listen[..] {
            [] => None,
            listen => Some(NfsDataServer::start(
                listen,
                daemon.core.clone(),
                clock,
                config.mds_endpoint(),
            )?),
        };
        let mut labels = config.labels.clone();
        if let Some(nfs) = &nfs {
            let advertised = advertised(&config.nfs_advertise, nfs.addresses())?;
            tracing::info!(addresses = ?advertised, "serves NFS clients with layouts");
            labels
                .extend(advertised.iter().map(|address| format!("{NFS_ADDRESS_LABEL}={address}")));
        }
        let introduction = RegistrationInfo {
            cluster: config.cluster,
            directory,
            addresses,
            labels,
            object_bytes_max: daemon.core.store().object_bytes_max(),
        };
        let registration = Registration::new(introduction, iod);
        let registrar = Registrar::start(
            daemon.clone(),
            listener.clone(),
            registration,
            config.mds_endpoint(),
        )?;
        Ok(Self { daemon, listener, registrar, metrics, nfs })
    }

    /// The daemon's id; 0 until the metadata server has assigned one.
    pub fn id(&self) -> IodId {
        self.daemon.core.iod()
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        self.listener.local_addrs()
    }

    /// Where it serves NFS clients with layouts; empty if it does not.
    pub fn nfs_addresses(&self) -> &[SocketAddr] {
        self.nfs.as_ref().map_or(&[], NfsDataServer::addresses)
    }

    /// Where its metrics are served, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::local_addr)
    }

    /// Whether it serves data now.
    pub fn serves(&self) -> bool {
        self.daemon.core.serves(self.daemon.clock.now())
    }

    /// Waits until it serves data, at most for `timeout`. Returns whether it does.
    pub fn wait_until_serving(&self, timeout: Duration) -> bool {
        self.registrar.wait_until_serving(timeout)
    }

    /// Why the metadata server last refused this daemon: its directory belongs to another cluster
    /// or was removed from the cluster, or its address is not reachable. Then it serves nothing,
    /// and continues to ask.
    pub fn refusal(&self) -> Option<String> {
        self.registrar.refusal()
    }

    /// The core, for an embedded cluster's status.
    pub fn core(&self) -> &Arc<IodCore<LocalStore>> {
        &self.daemon.core
    }

    /// Ends registration, connections and workers within a bounded time. Returns whether all have
    /// ended. A repeated call is harmless.
    pub fn stop(&mut self) -> bool {
        self.registrar.stop();
        if let Some(metrics) = &mut self.metrics {
            metrics.stop();
        }
        if let Some(nfs) = &mut self.nfs {
            nfs.stop();
        }
        self.daemon.core.serve_until(None);
        let ended = self.listener.stop();
        self.daemon.client_workers.stop();
        self.daemon.mds_workers.stop();
        self.daemon.flusher.stop();
        tracing::info!(iod = %self.id(), ended, "I/O daemon stopped");
        ended
    }
}

impl Drop for Iod {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve_metrics(address: &str, daemon: &Arc<Daemon>) -> io::Result<MetricsServer> {
    let daemon = daemon.clone();
    MetricsServer::start(address, move || daemon.core.prometheus(daemon.clock.now()))
}
