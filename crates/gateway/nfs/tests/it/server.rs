//! A server in this process.

use std::net::SocketAddr;
use std::sync::Arc;

use braid_nfs::config::{AddressRange, ExportConfig, Security, Squash};
use braid_nfs::{Listener, NfsConfig, NfsServer};
use braid_share::memory::MemoryShare;
use braid_share::{ClientRecord, SessionId, Share, ShareClient};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::Connection;

/// A running server with an empty file system.
pub struct TestServer {
    pub share: MemoryShare,
    pub server: Arc<NfsServer<MemoryShare>>,
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// An export to everybody, without squash.
pub fn export(path: &str) -> ExportConfig {
    ExportConfig {
        clients: vec![AddressRange::All],
        security: vec![Security::Sys],
        squash: Squash::None,
        ..ExportConfig::new(path)
    }
}

/// The configuration of most tests: the whole file system is exported.
pub fn config() -> NfsConfig {
    let mut config = NfsConfig::new("test:2049", [7; 32]);
    config.exports = vec![export("/")];
    config
}

impl TestServer {
    pub async fn start() -> Self {
        Self::with_config(config()).await
    }

    pub async fn with_config(config: NfsConfig) -> Self {
        Self::with_share(MemoryShare::new(), config).await
    }

    pub async fn with_share(share: MemoryShare, config: NfsConfig) -> Self {
        Self::over(share.clone(), NfsServer::new(share, config).unwrap()).await
    }

    pub async fn over(share: MemoryShare, server: Arc<NfsServer<MemoryShare>>) -> Self {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.address();
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(listener.serve(Arc::clone(&server), stopped));
        Self { share, server, address, stop, task }
    }

    /// The next start of this gateway. Drop this server after it: its own end would end the
    /// sessions, which a killed process does not do.
    pub async fn next_start(&self) -> Self {
        let share = self.share.next_start();
        let server = NfsServer::new(share.clone(), self.server.config.clone()).unwrap();
        server.recover().await.unwrap();
        Self::over(share, server).await
    }

    pub async fn connect(&self) -> Connection {
        Connection::new(self.address).await
    }

    /// Clients with a session at the metadata server, without the gateway itself.
    pub fn client_records(&self) -> Vec<(SessionId, ClientRecord)> {
        client_records(&self.share)
    }

    /// Stops the server and waits for its end.
    pub async fn stop(self) {
        self.stop.send(true).unwrap();
        self.task.await.unwrap();
    }
}

/// As [`TestServer::client_records`].
pub fn client_records(share: &MemoryShare) -> Vec<(SessionId, ClientRecord)> {
    let own = share.own_client().session();
    share.client_records().into_iter().filter(|(session, _)| *session != own).collect()
}
