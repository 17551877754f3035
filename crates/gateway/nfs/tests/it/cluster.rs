//! A cluster and a gateway in this process. The gateway reaches the metadata server through a proxy
//! that notes the name of each call, and that can hold calls back.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use braid_client::{Client, Config, Credential};
use braid_iod::{Iod, IodConfig};
use braid_mds::{Mds, MdsConfig};
use braid_nfs::{Listener, NfsServer};
use braid_share::cluster::ClusterShare;
use braid_store::LocalStore;
use braid_types::{ClusterUuid, limits::SHARDS_DEFAULT};
use braid_wire::message::mds::{KeyRights, MdsRequest};
use braid_wire::message::types::IodState;
use braid_wire::{FRAME_HEADER_BYTES, FrameHeader, Secret};
use tokio::sync::watch;

use crate::client::Connection;
use crate::server::config;

const UUID: ClusterUuid = ClusterUuid([7; 16]);
const IODS: usize = 2;
/// How long the cluster may take to start.
const START_SECONDS_MAX: u64 = 120;
/// Calls that the library makes by itself, at any time. `Close` ends several opens together.
const BACKGROUND: [&str; 6] =
    ["OpenSession", "Renew", "DefineIdentity", "GetClusterMap", "AwaitRecalls", "Close"];

/// A gateway of a cluster.
pub struct GatewayOfCluster {
    pub address: SocketAddr,
    proxy: Arc<Proxy>,
    _stop: watch::Sender<bool>,
    mds: Option<Mds>,
    iods: Vec<Iod>,
    _dir: tempfile::TempDir,
}

impl GatewayOfCluster {
    /// `counting`: whether a proxy is between the gateway and the metadata server.
    pub async fn start(counting: bool) -> Self {
        let started = tokio::task::spawn_blocking(Cluster::start).await.expect("a cluster");
        let Cluster { mds, iods, dir, config: of_cluster, address } = started;
        let proxy = Arc::new(Proxy { server: address, ..Proxy::default() });
        let mut of_cluster = of_cluster;
        if counting {
            of_cluster.mds = vec![proxy.listen().to_string()];
        }
        let share = ClusterShare::connect(of_cluster).await.expect("a gateway");
        let server = NfsServer::new(share, config()).expect("a server");
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.expect("a listener");
        let address = listener.address();
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(listener.serve(server, stopped));
        Self { address, proxy, _stop: stop, mds: Some(mds), iods, _dir: dir }
    }

    pub async fn connect(&self) -> Connection {
        Connection::new(self.address).await
    }

    /// The names of the calls since the last time, without those that the library makes by itself.
    pub fn take_calls(&self) -> Vec<&'static str> {
        let mut calls = std::mem::take(&mut *lock(&self.proxy.calls));
        calls.retain(|name| !BACKGROUND.contains(name));
        calls
    }

    /// Holds all calls back until the guard is dropped.
    pub fn hold_calls(&self) -> MutexGuard<'_, ()> {
        self.proxy.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GatewayOfCluster {
    fn drop(&mut self) {
        self.mds = None;
        self.iods.iter_mut().for_each(|iod| _ = iod.stop());
    }
}

struct Cluster {
    mds: Mds,
    iods: Vec<Iod>,
    dir: tempfile::TempDir,
    config: Config,
    address: SocketAddr,
}

impl Cluster {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let key = Secret::from_bytes([9; 32]);
        Mds::init(&dir.path().join("mds"), UUID, SHARDS_DEFAULT).expect("a new cluster");
        let listen = vec!["127.0.0.1:0".into()];
        let mds = Mds::start(MdsConfig::new(dir.path().join("mds"), listen, key.clone()));
        let mds = mds.expect("a metadata server");
        let address = mds.local_addrs()[0];
        let servers = vec![address.to_string()];
        let iods = (0..IODS).map(|number| {
            let dir = dir.path().join(format!("iod{number}"));
            std::fs::create_dir_all(&dir).expect("a directory");
            LocalStore::init(&dir, UUID, None).expect("a store");
            let config = IodConfig::on_loopback(dir, UUID, servers.clone(), key.clone());
            Iod::start(config).expect("an I/O daemon")
        });
        let iods: Vec<Iod> = iods.collect();
        let admin = Client::connect(Config::new(servers.clone(), Credential::ServerKey(key)));
        let admin = admin.expect("a client");
        let begun = Instant::now();
        let is_up = |client: &Client| {
            let map = client.cluster_map().expect("the cluster map");
            map.iods.iter().filter(|iod| iod.state == IodState::Up).count() == IODS
        };
        while !is_up(&admin) {
            assert!(begun.elapsed() < Duration::from_secs(START_SECONDS_MAX), "no I/O daemons");
            std::thread::sleep(Duration::from_millis(2));
        }
        let made = admin.key_add("gateway", KeyRights::full()).expect("a key");
        let credential = Credential::Key { id: made.key, secret: Secret::from_bytes(made.secret) };
        let config = Config { cluster: Some(UUID), ..Config::new(servers, credential) };
        Self { mds, iods, dir, config, address }
    }
}

/// Between the gateway and the metadata server.
struct Proxy {
    server: SocketAddr,
    calls: Mutex<Vec<&'static str>>,
    /// Locked for each frame that is passed on.
    held: Mutex<()>,
}

impl Default for Proxy {
    fn default() -> Self {
        let server = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { server, calls: Mutex::default(), held: Mutex::default() }
    }
}

impl Proxy {
    /// Serves connections in threads, which end with them.
    fn listen(self: &Arc<Self>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let proxy = Arc::clone(self);
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let Ok(server) = TcpStream::connect(proxy.server) else { return };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).expect("a TCP stream");
                }
                let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut &from, &mut &to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                let proxy = Arc::clone(&proxy);
                std::thread::spawn(move || {
                    let _ = proxy.pass_frames(&client, &server);
                    let _ = server.shutdown(Shutdown::Both);
                });
            }
        });
        address
    }

    fn pass_frames(&self, mut client: &TcpStream, mut server: &TcpStream) -> std::io::Result<()> {
        loop {
            let mut head = [0; FRAME_HEADER_BYTES];
            client.read_exact(&mut head)?;
            let frame = FrameHeader::from_bytes(&head).expect("a frame without TLS");
            let bytes = frame.body_bytes as usize + frame.payload_bytes as usize;
            let mut message = [&head[..], &vec![0; bytes]].concat();
            client.read_exact(&mut message[FRAME_HEADER_BYTES..])?;
            let name = MdsRequest::CALLS.iter().find(|(op, _)| *op == frame.op);
            lock(&self.calls).extend(name.map(|(_, name)| *name));
            let _free = lock(&self.held);
            server.write_all(&message)?;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
