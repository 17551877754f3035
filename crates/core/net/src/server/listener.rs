//! Accepts connections, authenticates their peers, and gives each to the handler on its own thread.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    AdmittedPeer, Authorizer, ServerConfig, admission, connection_limits::ConnectionLimits,
    receive_limit::Interfaces,
};
use crate::{
    tcp, tls,
    transport::{Transport, is_loopback},
};

/// Stack of a connection's thread; no handler recurses.
const STACK_BYTES: usize = 512 * 1024;
/// Pause after the system had no descriptor or memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Serves a connection until it ends.
pub trait Handler: Send + Sync + 'static {
    /// Runs on the connection's own thread.
    fn run(&self, admitted: AdmittedPeer);
}

/// Counters since the listener was bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Connections now open, including those in their handshake.
    pub connections: usize,
    /// Connections that proved their key.
    pub accepted: u64,
    /// Connections that ended in their handshake: garbage, wrong version, wrong key, silence.
    pub refused: u64,
    /// Connections refused by a limit: in total, of one user, or of one session.
    pub over_limit: u64,
}

/// A server's listening sockets and their connections.
#[derive(Debug)]
pub struct Listener {
    sockets: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    shared: Arc<ListenerState>,
    accepting: Mutex<Vec<JoinHandle<()>>>,
}

/// State that the listener, its accepting threads and its connections share.
pub(super) struct ListenerState {
    pub(super) config: ServerConfig,
    pub(super) node_id: AtomicU32,
    pub(super) authorizer: Arc<dyn Authorizer>,
    pub(super) tls: Arc<rustls::ServerConfig>,
    pub(super) interfaces: Interfaces,
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) over_limit: AtomicU64,
    stopping: AtomicBool,
    connection_limits: Arc<ConnectionLimits>,
}

impl std::fmt::Debug for ListenerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Listener {
    /// Listens on each of `addresses` (`host:port`; for port 0 the system chooses one).
    ///
    /// # Errors
    /// `cannot listen on ADDRESS: why; try: …` for the first address that fails.
    pub fn bind(
        addresses: &[String],
        config: ServerConfig,
        authorizer: Arc<dyn Authorizer>,
    ) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for address in addresses {
            sockets.extend(bind_one(address).map_err(|error| explain(address, &error))?);
        }
        if sockets.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no address to listen on; try: name one",
            ));
        }
        let addresses = sockets.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
        let tls = tls::server_config().map_err(io::Error::other)?;
        let shared = Arc::new(ListenerState::new(config, authorizer, tls));
        Ok(Self { sockets, addresses, shared, accepting: Mutex::default() })
    }

    /// The addresses that it listens on, with the ports that the system chose.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Sets the I/O daemon id that later connections get. A daemon learns its id at registration.
    pub fn set_node_id(&self, node_id: u32) {
        self.shared.node_id.store(node_id, Ordering::Release);
    }

    /// Starts to accept, on one thread for each address, and gives each connection to `handler`.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn serve(&self, handler: Arc<dyn Handler>) -> io::Result<()> {
        let mut accepting = lock(&self.accepting);
        for socket in &self.sockets {
            let (socket, shared, handler) =
                (socket.try_clone()?, Arc::clone(&self.shared), Arc::clone(&handler));
            let accept = move || accept_loop(&socket, &shared, &handler);
            accepting.push(thread::Builder::new().name("braid-accept".into()).spawn(accept)?);
        }
        Ok(())
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            connections: self.shared.connection_limits.connection_count(),
            accepted: count(&self.shared.accepted),
            refused: count(&self.shared.refused),
            over_limit: count(&self.shared.over_limit),
        }
    }

    /// Stops accepting, ends every connection, and waits for their threads up to the configured
    /// time. Returns whether all have ended. It may be called again.
    pub fn stop(&self) -> bool {
        self.shared.stopping.store(true, Ordering::SeqCst);
        let accepting = std::mem::take(&mut *lock(&self.accepting));
        if !accepting.is_empty() {
            self.addresses.iter().for_each(wake);
        }
        accepting.into_iter().for_each(|thread| drop(thread.join()));
        self.shared.connection_limits.close(Instant::now() + self.shared.config.stop_timeout)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

impl ListenerState {
    fn new(
        config: ServerConfig,
        authorizer: Arc<dyn Authorizer>,
        tls: Arc<rustls::ServerConfig>,
    ) -> Self {
        Self {
            node_id: AtomicU32::new(config.node_id),
            connection_limits: Arc::new(ConnectionLimits::new(
                config.connections_max,
                config.unauthenticated_max,
            )),
            config,
            authorizer,
            tls,
            interfaces: Interfaces::default(),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            over_limit: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        }
    }
}

fn accept_loop(socket: &TcpListener, shared: &Arc<ListenerState>, handler: &Arc<dyn Handler>) {
    while !shared.stopping.load(Ordering::SeqCst) {
        match socket.accept() {
            Ok((stream, address)) => {
                // a connection that cannot be served is closed; the listener continues
                let _ = start(stream, address, shared, handler);
            }
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
    }
}

fn start(
    stream: TcpStream,
    address: SocketAddr,
    shared: &Arc<ListenerState>,
    handler: &Arc<dyn Handler>,
) -> io::Result<()> {
    if is_loopback(&address) {
        tcp::accepted_near(&stream);
    }
    let transport = Arc::new(Transport::new(stream)?);
    let Some(permit) = shared.connection_limits.admit(&transport) else { return Ok(()) };
    let (shared, handler) = (Arc::clone(shared), Arc::clone(handler));
    let run = move || {
        // Dropped last, so that no handler runs when the listener has stopped.
        let permit = permit;
        if let Some(admitted) = admission::admit(&shared, transport, address, &permit) {
            handler.run(admitted);
        }
    };
    thread::Builder::new().name("braid-connection".into()).stack_size(STACK_BYTES).spawn(run)?;
    Ok(())
}

fn bind_one(address: &str) -> io::Result<Option<TcpListener>> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpListener::bind(address) {
            Ok(socket) => {
                tcp::accept_small(&socket);
                return Ok(Some(socket));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn explain(address: &str, error: &io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "choose another port, or stop what uses this one (ss -ltnp shows it)"
        }
        io::ErrorKind::PermissionDenied => "choose a port above 1023",
        io::ErrorKind::AddrNotAvailable => {
            "use an address of this machine (ip address shows them), or 0.0.0.0"
        }
        _ => "write it as HOST:PORT",
    };
    io::Error::new(error.kind(), format!("cannot listen on {address}: {error}; try: {hint}"))
}

/// Makes an accepting thread check `stopping`.
fn wake(address: &SocketAddr) {
    let mut address = *address;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            [0, 0, 0, 0, 0, 0, 0, 1].into()
        });
    }
    // the connection itself is not used
    let _ = TcpStream::connect_timeout(&address, Duration::from_secs(1));
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // no code here leaves a value half-changed when it panics
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn loopback(address: &SocketAddr) -> bool {
    is_loopback(address)
}
