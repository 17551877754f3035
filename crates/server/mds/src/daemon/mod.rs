//! The metadata server as a process: sockets and threads around [`MdsCore`].
//!
//! | thread | does |
//! |---|---|
//! | one for each address and connection | receives calls and answers them |
//! | `mds-tick` | [`MdsCore::tick`] every [`crate::TICK_MS`] |
//! | `mds-log` | syncs the log for the calls that wait |
//! | `mds-iod-ID`, two for each I/O daemon | sends calls to it |
//! | `braid-metrics` | answers Prometheus |

mod clock;
mod link;
mod log;

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use braid_meta::{Engine, EngineOptions, MetaStore, Namespace};
use braid_net::{
    TlsPolicy,
    metrics_http::MetricsServer,
    server::{CallHandler, Listener, ServerConfig},
};
use braid_types::{ClusterUuid, EndProcessOnPanic, Failure, Timestamp};
use braid_wire::{NodeKind, Secret};

use crate::{CoreConfig, Environment, MdsCore, TICK_MS};
use clock::SystemClock;
use link::SocketLink;
use log::LogThread;

/// How long a server that stops waits until closed files are on the daemons' disks (I8): half of
/// what systemd and users accept. Sizes that are not recorded by then are collected after the next
/// start.
const STOP_RECORD_SIZES_MAX: Duration = Duration::from_secs(10);
/// Interval of the checks whether that is done.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Configuration of a metadata server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MdsConfig {
    /// The directory of the namespace, made by [`Mds::init`].
    pub directory: PathBuf,
    /// The addresses that it listens on, `host:port`; port 0 lets the system choose.
    pub listen: Vec<String>,
    /// The addresses that clients use, if not those listened on: needed for a wildcard address.
    pub advertise: Vec<String>,
    /// The server key.
    pub server_key: Secret,
    /// When connections use TLS.
    pub tls: TlsPolicy,
    /// The address of the page for Prometheus, `host:port`.
    pub prometheus: Option<String>,
    /// Limit of open connections.
    pub connections_max: Option<usize>,
}

impl MdsConfig {
    /// A server of `directory` that listens on `listen`.
    pub fn new(directory: impl Into<PathBuf>, listen: Vec<String>, server_key: Secret) -> Self {
        Self {
            directory: directory.into(),
            listen,
            advertise: Vec::new(),
            server_key,
            tls: TlsPolicy::default(),
            prometheus: None,
            connections_max: None,
        }
    }
}

/// Why a metadata server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Its directory cannot be used.
    #[error("metadata directory {}: {failure}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// What is wrong with it.
        failure: Failure,
    },
    /// An address or a thread is not available.
    #[error("metadata server: {0}")]
    Io(#[from] io::Error),
}

/// A running metadata server. Dropping it stops it.
#[derive(Debug)]
pub struct Mds {
    core: Arc<MdsCore>,
    listener: Listener,
    link: Arc<SocketLink>,
    log: Arc<LogThread>,
    metrics: Option<MetricsServer>,
    ticker: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Mds {
    /// Makes an empty namespace with `shards` shards for the cluster `uuid`.
    ///
    /// # Errors
    /// [`StartError::Directory`] when the directory cannot be made or holds a namespace already.
    pub fn init(directory: &Path, uuid: ClusterUuid, shards: u16) -> Result<(), StartError> {
        let explain = |failure| StartError::Directory { directory: directory.to_owned(), failure };
        let store = Engine::create(directory, EngineOptions::default())
            .map_err(|error| explain(error.into()))?;
        Namespace::format(&store, uuid, shards, Timestamp::now()).map_err(explain)
    }

    /// Starts the server: recovers the store, listens, and answers.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: MdsConfig) -> Result<Self, StartError> {
        let explain =
            |failure| StartError::Directory { directory: config.directory.clone(), failure };
        let store = Engine::open(&config.directory, EngineOptions::default())
            .map_err(|error| explain(error.into()))?;
        if let Some(cut) = store.torn_tail() {
            let (file, offset, first) = (cut.path.display(), cut.offset, cut.first_lost.0);
            tracing::warn!(
                "the torn end of {file} was cut at byte {offset}: \
                 batches from {first} on were never synced and are lost"
            );
        }
        let store: Arc<dyn MetaStore> = Arc::new(store);
        let link = Arc::new(SocketLink::new(config.server_key.clone(), config.tls));
        let log = Arc::new(LogThread::start()?);
        let env = Environment {
            link: link.clone(),
            spawner: log.clone(),
            clock: Arc::new(SystemClock::new()),
        };
        let mut made = CoreConfig::new(config.server_key.clone());
        made.namespace.boot = boot_id();
        let core = MdsCore::open(store, made, env).map_err(explain)?;
        if let Some(mark) = core.namespace.needs_fsck().map_err(explain)? {
            tracing::warn!("the file system must be checked: {mark}; try: braid fsck --mend");
        }
        link.set_cluster(core.cluster());
        let mut server = ServerConfig::new(NodeKind::Mds, 0, core.cluster());
        server.tls = config.tls;
        server.connections_max = config.connections_max.unwrap_or(server.connections_max);
        let listener = Listener::bind(&config.listen, server, core.clone())?;
        core.set_addresses(advertised(&config.advertise, listener.local_addrs()));
        listener.serve(Arc::new(CallHandler::new(core.clone())))?;
        let metrics = config
            .prometheus
            .as_deref()
            .map(|address| serve_metrics(address, &core))
            .transpose()?;
        let ticker = Some(start_ticker(core.clone())?);
        Ok(Self { core, listener, link, log, metrics, ticker })
    }

    /// The addresses that it listens on, with the ports that the system chose.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        self.listener.local_addrs()
    }

    /// The address of the page for Prometheus.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::local_addr)
    }

    /// The server itself.
    pub fn core(&self) -> &Arc<MdsCore> {
        &self.core
    }

    /// Records sizes, ends every connection and thread, in bounded time (I8), and syncs the log. A
    /// second call does nothing. The I/O daemons should still be running.
    pub fn stop(&mut self) {
        if let Some((stop, thread)) = self.ticker.take() {
            drop(stop);
            let _ = thread.join(); // a tick that panicked has ended the process
            self.record_sizes();
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.stop();
        }
        self.listener.stop();
        self.link.stop();
        self.log.stop();
        if let Err(failure) = self.core.sync() {
            crate::core::report("syncing the log at the end", &failure);
        }
    }
}

impl Mds {
    fn record_sizes(&self) {
        let deadline = Instant::now() + STOP_RECORD_SIZES_MAX;
        while !self.core.record_all_sizes() && Instant::now() < deadline {
            thread::sleep(STOP_POLL_INTERVAL);
        }
    }
}

impl Drop for Mds {
    fn drop(&mut self) {
        self.stop();
    }
}

fn advertised(wanted: &[String], listening: &[SocketAddr]) -> Vec<String> {
    if wanted.is_empty() {
        listening.iter().map(SocketAddr::to_string).collect()
    } else {
        wanted.to_vec()
    }
}

/// The id of this boot of the host, if the system has one.
fn boot_id() -> Option<u128> {
    // random(4): a UUID that is drawn once for each boot.
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
}

fn serve_metrics(address: &str, core: &Arc<MdsCore>) -> io::Result<MetricsServer> {
    let core = Arc::downgrade(core);
    MetricsServer::start(address, move || {
        core.upgrade().map_or_else(String::new, |core| core.prometheus())
    })
}

fn start_ticker(core: Arc<MdsCore>) -> io::Result<(mpsc::Sender<()>, JoinHandle<()>)> {
    let (stop, stopped) = mpsc::channel::<()>();
    let tick = Duration::from_millis(TICK_MS);
    let run = move || {
        let _guard = EndProcessOnPanic;
        while stopped.recv_timeout(tick) == Err(mpsc::RecvTimeoutError::Timeout) {
            core.tick();
        }
    };
    Ok((stop, thread::Builder::new().name("mds-tick".into()).spawn(run)?))
}
