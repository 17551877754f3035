//! The NFSv4.1 data server of an I/O daemon (RFC 8881 13): clients with a layout read and write the
//! parts of files here, without a gateway between.
//!
//! ```text
//!   listener ──> thread per connection ──> compound.rs ──> DataServerFile ──> IodCore
//!                  (connection.rs)          sessions.rs: clients, sessions, slots
//!                                                  file_size.rs: asks the metadata server, where a
//!                                                  read passes the end of the object
//! ```
//!
//! It serves the operations that a client needs of a data server (RFC 8881 13.6), and refuses all
//! others. What a file handle allows, the metadata server has signed into it (ADR 0037); a session
//! of NFS gives no rights.

mod attributes;
mod compound;
mod connection;
mod file_size;
mod sessions;

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use braid_net::Endpoint;
use braid_store::LocalStore;

use self::{file_size::FileSizes, sessions::Sessions};
use crate::{daemon::Clock, iod_core::IodCore};

/// Connections of NFS clients (I9): each has a thread, and memory for one request of 1 MiB.
pub const CONNECTIONS_MAX: usize = 1024;
/// Of these, connections from one address: a client has one for each session, or with `nconnect`
/// 16. So no host takes all of them.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 256;
/// How long the listener waits after an error such as too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What all connections share.
#[derive(Debug)]
struct DataServer {
    core: Arc<IodCore<LocalStore>>,
    clock: Clock,
    sessions: Mutex<Sessions>,
    sizes: FileSizes,
    stopping: AtomicBool,
    /// The open connections: the peer, and the socket for the stop.
    connections: Mutex<HashMap<u64, (IpAddr, TcpStream)>>,
    next_connection: AtomicU64,
}

/// A running data server. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct NfsDataServer {
    shared: Arc<DataServer>,
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

impl NfsDataServer {
    /// Listens on these addresses, `host:port`.
    ///
    /// # Errors
    /// An address that is in use or does not exist.
    pub(crate) fn start(
        listen: &[String],
        core: Arc<IodCore<LocalStore>>,
        clock: Clock,
        mds: Endpoint,
    ) -> io::Result<Self> {
        let shared = Arc::new(DataServer {
            core,
            clock,
            sessions: Mutex::new(Sessions::new(random()?)),
            sizes: FileSizes::new(mds),
            stopping: AtomicBool::new(false),
            connections: Mutex::default(),
            next_connection: AtomicU64::new(1),
        });
        let mut server = Self { shared, addresses: Vec::new(), threads: Vec::new() };
        for address in listen {
            let listener = TcpListener::bind(address).map_err(|why| {
                io::Error::new(why.kind(), format!("cannot listen for NFS on {address}: {why}"))
            })?;
            server.addresses.push(listener.local_addr()?);
            let shared = server.shared.clone();
            let thread = thread::Builder::new()
                .name("nfs-accept".into())
                .spawn(move || shared.accept(&listener))?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Ends the listeners and all connections. A repeated call is harmless.
    pub(crate) fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        // A blocked `accept` returns for a connection.
        for address in &self.addresses {
            drop(TcpStream::connect_timeout(&reachable(*address), Duration::from_secs(1)));
        }
        for (_, connection) in self.shared.connections().values() {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Drop for NfsDataServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl DataServer {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while !self.stopping.load(Ordering::Acquire) {
            let accepted = listener.accept();
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            match accepted {
                Ok((stream, peer)) => {
                    if let Err(why) = self.serve(stream, peer) {
                        tracing::warn!(%peer, %why, "an NFS connection was not served");
                    }
                }
                Err(why) => {
                    tracing::warn!(%why, "an NFS connection was not accepted");
                    thread::sleep(ACCEPT_RETRY);
                }
            }
        }
    }

    /// Begins the thread of a connection.
    fn serve(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let number = self.next_connection.fetch_add(1, Ordering::Relaxed);
        {
            let mut connections = self.connections();
            if connections.len() >= CONNECTIONS_MAX {
                return Err(io::Error::other(format!("more than {CONNECTIONS_MAX} connections")));
            }
            let ip = peer.ip().to_canonical();
            if connections.values().filter(|(known, _)| *known == ip).count()
                >= CONNECTIONS_PER_ADDRESS_MAX
            {
                let why = format!("more than {CONNECTIONS_PER_ADDRESS_MAX} connections of {ip}");
                return Err(io::Error::other(why));
            }
            connections.insert(number, (ip, stream.try_clone()?));
        }
        // Removed when the thread ends, or when it does not begin.
        let entry = ConnectionSlot { server: self.clone(), number };
        thread::Builder::new().name("nfs-data".into()).spawn(move || {
            let why = connection::run(&entry.server, stream);
            tracing::debug!(%peer, %why, "NFS client disconnected");
            drop(entry);
        })?;
        Ok(())
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, HashMap<u64, (IpAddr, TcpStream)>> {
        self.connections.lock().unwrap_or_else(braid_types::poisoned)
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(braid_types::poisoned)
    }
}

/// The entry of a connection in the table.
struct ConnectionSlot {
    server: Arc<DataServer>,
    number: u64,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.server.connections().remove(&self.number);
    }
}

/// An address at which a listener is reached from this host.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Random bytes of the system.
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}
