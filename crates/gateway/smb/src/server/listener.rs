//! Accepts connections.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use braid_share::Share;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{SmbServer, StartError};
use crate::connection::{Connection, serve};
use crate::gateways;

/// Pause after a failure of accept(2), such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a request may run on after the listener's stop.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// How long a connection is silent before the kernel probes it.
#[cfg(target_os = "linux")]
const PROBE_AFTER: Duration = Duration::from_secs(60);
/// Time from one probe without an answer to the next.
#[cfg(target_os = "linux")]
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// Probes without an answer after which the connection ends.
#[cfg(target_os = "linux")]
const PROBES: u32 = 3;
/// How long bytes that were sent may stay without an acknowledgement.
#[cfg(target_os = "linux")]
const VANISHED_AFTER: Duration = Duration::from_secs(90);

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

    /// Accepts and serves connections until `stop` becomes true; then closes them all, with their
    /// sessions.
    pub async fn serve<S: Share>(self, server: Arc<SmbServer<S>>, mut stop: watch::Receiver<bool>) {
        let limits = server.config.limits;
        let counts =
            Arc::new(ConnectionCounts::new(limits.connections, limits.connections_per_address));
        let mut tasks = JoinSet::new();
        let mut number = 0;
        // One message for each time that the limit is reached, not for each connection.
        let mut refusing = false;
        let (closing, close) = watch::channel(false);
        tasks.spawn({
            let (server, mut close) = (Arc::clone(&server), close.clone());
            async move {
                tokio::select! {
                    () = gateways::watch(server) => {}
                    () = async { drop(close.wait_for(|close| *close).await) } => {}
                }
            }
        });
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                // A dropped sender is a stop too.
                _ = stop.wait_for(|stop| *stop) => break,
                Some(_) = tasks.join_next() => continue,
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
            if let Err(error) = set_options(&stream) {
                tracing::debug!(%peer, %error, "options of a socket");
            }
            let (server, mut close) = (Arc::clone(&server), close.clone());
            tasks.spawn(async move {
                let (read, write) = stream.into_split();
                let connection = Arc::new(Connection::new(number, peer, write));
                // In a box: the compiler limits how deep a future may be nested in others.
                let mut serving = Box::pin(serve(server, Arc::clone(&connection), read));
                let ended = tokio::select! {
                    () = &mut serving => true,
                    () = async { drop(close.wait_for(|close| *close).await) } => false,
                };
                if !ended {
                    connection.close();
                    // The request that runs is completed, if that does not take too long.
                    let _ = timeout(CLOSE_MAX, serving).await;
                }
                drop(permit);
            });
        }
        drop(self.socket);
        // Receivers exist in the tasks that are left.
        let _ = closing.send(true);
        while tasks.join_next().await.is_some() {}
        server.end_all_sessions().await;
    }
}

/// Sets the options of an accepted socket.
fn set_options(stream: &TcpStream) -> io::Result<()> {
    // Responses are whole frames: waiting for more data would only delay them.
    stream.set_nodelay(true)?;
    find_vanished(stream)
}

/// Lets the kernel end the connection of a machine that has vanished: its opens and locks would
/// exclude others for good.
#[cfg(target_os = "linux")]
fn find_vanished(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    // Without it, bytes that are not acknowledged are sent again for about 15 minutes.
    sockopt::set_tcp_user_timeout(stream, VANISHED_AFTER.as_millis() as u32)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn find_vanished(_: &TcpStream) -> io::Result<()> {
    Ok(())
}

/// Counts connections.
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::net::sockopt;

    use super::*;

    #[tokio::test]
    async fn the_kernel_finds_machines_that_have_vanished() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        set_options(&stream).unwrap();
        assert!(stream.nodelay().unwrap() && sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(60));
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), Duration::from_secs(10));
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), 3);
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 90_000);
    }
}
