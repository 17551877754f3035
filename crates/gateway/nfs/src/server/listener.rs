//! Accepts connections.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use braid_share::Share;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{NfsServer, StartError};
use crate::config::Transport;
use crate::connection::{Connection, serve};
use crate::ops::layout_recall;
use crate::tls::{self, HANDSHAKES_MAX, HANDSHAKES_PER_ADDRESS_MAX, Opened};

/// Pause after a failure of accept(2), such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often in a lease time the listener looks for silent clients.
const LOOKS_PER_LEASE: u32 = 4;
/// How long a call may run on after the listener's stop.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// A socket on which a server accepts connections.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Listens on `address`; port 0 chooses a free one.
    ///
    /// # Errors
    /// [`StartError::Listen`], for example when the port is in use.
    pub async fn bind(address: SocketAddr) -> Result<Self, StartError> {
        let failed = |error| StartError::Listen { address, error };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// The address with the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts and serves connections until `stop` becomes true; then closes them all, and ends all
    /// clients.
    pub async fn serve<S: Share>(self, server: Arc<NfsServer<S>>, mut stop: watch::Receiver<bool>) {
        let limits = server.config.limits;
        let counts =
            Arc::new(ConnectionCounts::new(limits.connections, limits.connections_per_address));
        let handshakes =
            Arc::new(ConnectionCounts::new(HANDSHAKES_MAX, HANDSHAKES_PER_ADDRESS_MAX));
        let mut tasks = JoinSet::new();
        let mut number = 0;
        // One message for each time that the limit is reached, not for each connection.
        let mut refusing = false;
        let (closing, close) = watch::channel(false);
        let mut layouts = pin!(layout_recall::watch(Arc::clone(&server)));
        let mut looks = interval(server.config.lease / LOOKS_PER_LEASE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let accepted = tokio::select! {
                () = &mut layouts => continue,
                accepted = self.socket.accept() => accepted,
                // A dropped sender is a stop too.
                _ = stop.wait_for(|stop| *stop) => break,
                Some(_) = tasks.join_next() => continue,
                _ = looks.tick() => {
                    let server = Arc::clone(&server);
                    tasks.spawn(async move { server.end_silent_clients().await });
                    continue;
                }
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(permit) = counts.admit(peer.ip()) else {
                if !std::mem::replace(&mut refusing, true) {
                    tracing::warn!(%peer, "connections are refused: there are too many");
                }
                continue;
            };
            refusing = false;
            number += 1;
            let (server, mut close) = (Arc::clone(&server), close.clone());
            let handshakes = Arc::clone(&handshakes);
            tasks.spawn(async move {
                let opened = tokio::select! {
                    opened = opened(&server, stream, peer, &handshakes) => opened,
                    () = async { drop(close.wait_for(|close| *close).await) } => None,
                };
                let Some(Opened { read, write, transport }) = opened else { return drop(permit) };
                let connection = Connection::new(number, peer, write).with_transport(transport);
                let connection = Arc::new(connection);
                let mut serving = pin!(serve(server, Arc::clone(&connection), read));
                let ended = tokio::select! {
                    () = &mut serving => true,
                    () = async { drop(close.wait_for(|close| *close).await) } => false,
                };
                if !ended {
                    connection.close();
                    // The call that runs is completed, if that does not take too long.
                    let _ = timeout(CLOSE_MAX, serving).await;
                }
                drop(permit);
            });
        }
        drop(self.socket);
        // Receivers exist in the tasks that are left.
        let _ = closing.send(true);
        while tasks.join_next().await.is_some() {}
    }
}

/// The halves of a connection, after the TLS handshake if the client asks for one. `None` if it
/// ended.
async fn opened<S: Share>(
    server: &NfsServer<S>,
    stream: TcpStream,
    peer: SocketAddr,
    handshakes: &Arc<ConnectionCounts>,
) -> Option<Opened> {
    // Replies are whole records: waiting for more data would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "TCP_NODELAY");
    }
    let Some(tls) = server.tls() else {
        let (read, write) = stream.into_split();
        let (read, write) = (Box::new(read), Box::new(write));
        return Some(Opened { read, write, transport: Transport::Plain });
    };
    match tls::open(tls, stream, || handshakes.admit(peer.ip())).await {
        Ok(opened) => Some(opened),
        Err(error) => {
            tls::report(tls, peer, &error);
            None
        }
    }
}

/// Counts connections, or handshakes of connections.
#[derive(Debug)]
struct ConnectionCounts {
    all_max: usize,
    per_address_max: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The right to have a connection.
#[derive(Debug)]
struct ConnectionPermit {
    counts: Arc<ConnectionCounts>,
    address: IpAddr,
}

impl ConnectionCounts {
    fn new(all_max: usize, per_address_max: usize) -> Self {
        Self { all_max, per_address_max, counts: Mutex::default() }
    }

    fn admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let address = address.to_canonical();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.all >= self.all_max || of_address >= self.per_address_max {
            return None;
        }
        counts.all += 1;
        counts.by_address.insert(address, of_address + 1);
        Some(ConnectionPermit { counts: Arc::clone(self), address })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut counts = self.counts.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all -= 1;
        match counts.by_address.get_mut(&self.address) {
            Some(1) | None => {
                counts.by_address.remove(&self.address);
            }
            Some(count) => *count -= 1,
        }
    }
}
