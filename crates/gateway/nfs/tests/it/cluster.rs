//! A cluster and a gateway in this process. The gateway reaches the metadata server through a proxy
//! that notes the name of each call, and that can hold calls back.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_nfs::{Listener, NfsServer};
use braid_share::cluster::ClusterShare;
use braid_testbed::in_process::InProcessCluster;
use braid_wire::message::mds::{KeyRights, MdsRequest};
use braid_wire::{FRAME_HEADER_BYTES, FrameHeader};
use tokio::sync::watch;

use crate::client::Connection;
use crate::mount::Mount;
use crate::server::config;

/// Calls that the library makes by itself, at any time. `Close` ends several opens together.
const BACKGROUND: [&str; 6] =
    ["OpenSession", "Renew", "DefineIdentity", "GetClusterMap", "AwaitRecalls", "Close"];

/// Runs tests, each of which gets a client, on a file system in memory and on a cluster.
macro_rules! on_both {
    ($($test:ident,)*) => {
        mod memory {
            $( #[tokio::test] async fn $test() {
                let server = crate::server::TestServer::start().await;
                super::$test(crate::mount::Mount::new(&server, "a").await).await;
            } )*
        }
        mod cluster {
            $( #[tokio::test(flavor = "multi_thread")] async fn $test() {
                let gateway = crate::cluster::GatewayOfCluster::start().await;
                super::$test(gateway.mount("a").await).await;
            } )*
        }
    };
}
pub(crate) use on_both;

/// A gateway of a cluster.
pub struct GatewayOfCluster {
    pub address: SocketAddr,
    proxy: Arc<Proxy>,
    _stop: watch::Sender<bool>,
    _cluster: InProcessCluster,
    _dir: tempfile::TempDir,
}

impl GatewayOfCluster {
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_owned();
        let started = tokio::task::spawn_blocking(move || {
            let cluster = InProcessCluster::start(&path, 2)?;
            let key = cluster.add_key("gateway", KeyRights::full())?;
            let config = cluster.config(key.into_credential());
            anyhow::Ok((cluster, config))
        });
        let (cluster, mut of_cluster) = started.await.expect("no panic").expect("a cluster");
        let server = cluster.mds().local_addrs()[0];
        let proxy = Proxy { server, calls: Mutex::default(), held: Mutex::default() };
        let proxy = Arc::new(proxy);
        of_cluster.mds = vec![proxy.listen().to_string()];
        let share = ClusterShare::connect(of_cluster).await.expect("a gateway");
        let server = NfsServer::new(share, config()).expect("a server");
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.expect("a listener");
        let address = listener.address();
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(listener.serve(server, stopped));
        Self { address, proxy, _stop: stop, _cluster: cluster, _dir: dir }
    }

    /// A client of the gateway.
    pub async fn mount(&self, owner: &str) -> Mount {
        Mount::over(self.connect().await, owner).await
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

/// Between the gateway and the metadata server.
struct Proxy {
    server: SocketAddr,
    calls: Mutex<Vec<&'static str>>,
    /// Locked for each frame that is passed on.
    held: Mutex<()>,
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
