//! A gateway of a cluster.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use braid_client::{AdoptedSession, Config, GatewaySession};
use braid_types::Status;

use super::{ClusterClient, adoption, loss::LossCounter, session::Session};
use crate::{
    AdoptedClient, CLIENT_RECORD_BYTES_MAX, ClientRecord, DataServer, Error, FileSystemId, Result,
    Share, ShareClient,
};

/// How long a gateway waits for another one of its name to end. The metadata server takes one that
/// lost power for ended after 20 s.
const NAME_WAIT_MAX: Duration = Duration::from_secs(25);
/// How often it tries.
const NAME_WAIT: Duration = Duration::from_secs(2);

/// A gateway of a cluster. Clones are the same gateway.
#[derive(Clone, Debug)]
pub struct ClusterShare {
    config: Arc<Config>,
    file_system: FileSystemId,
    own: ClusterClient,
    losses: Arc<LossCounter>,
}

impl ClusterShare {
    /// Connects to a cluster. `config` has a client key or the server key, so that the gateway may
    /// act as any user, and names the cluster, so that the file system has a stable identity. Must
    /// be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Status::Invalid`] if the configuration does not name the cluster. [`Status::NotPermitted`]
    /// if the key may not act for users. Otherwise as
    /// [`braid_client::asynchronous::Client::connect`].
    pub async fn connect(config: Config) -> Result<Self> {
        Self::begin(config, None).await
    }

    /// As [`ClusterShare::connect`]. The sessions of the gateway's clients are continued by the
    /// next start that connects with the same name and key: [`Share::adopt_clients`].
    ///
    /// # Errors
    /// [`Status::Busy`] if another gateway of this name is connected, and still is after 25 s.
    pub async fn connect_as(config: Config, name: &str) -> Result<Self> {
        let (begun, mut waits) = (Instant::now(), false);
        loop {
            match Self::begin(config.clone(), Some(name)).await {
                // The earlier start may have lost power: its connection has not ended.
                Err(error) if error.status() == Status::Busy && begun.elapsed() < NAME_WAIT_MAX => {
                    if !std::mem::replace(&mut waits, true) {
                        tracing::warn!(%error, "waits at most 25 s for the other gateway to end");
                    }
                    tokio::time::sleep(NAME_WAIT).await;
                }
                connected => return connected,
            }
        }
    }

    async fn begin(mut config: Config, name: Option<&str>) -> Result<Self> {
        let Some(cluster) = config.cluster else {
            let why = "the configuration does not name the cluster that the gateway serves";
            return Err(
                Error::new(Status::Invalid, why).with_hint("set cluster.uuid in braid.toml")
            );
        };
        config.gateway = name.map(|name| GatewaySession {
            gateway: name.to_owned(),
            record: Vec::new(),
            adopted: None,
        });
        let losses = Arc::new(LossCounter::new());
        let session = Session::begin(config.clone(), Arc::clone(&losses)).await?;
        if !session.client().vouches().await? {
            session.end().await;
            let why = "a gateway acts for many users, which a ticket of one user does not allow";
            return Err(Error::new(Status::NotPermitted, why).with_hint("the key file of a client"));
        }
        let (config, own) = (Arc::new(config), ClusterClient::new(session));
        Ok(Self { config, file_system: FileSystemId(cluster.0), own, losses })
    }

    /// The configuration of a client's session.
    pub(super) fn client_config(
        &self,
        client_name: String,
        record: Vec<u8>,
        adopted: Option<AdoptedSession>,
    ) -> Config {
        let gateway = self.name().map(str::to_owned);
        let gateway = gateway.map(|gateway| GatewaySession { gateway, record, adopted });
        Config { client_name, gateway, ..(*self.config).clone() }
    }

    /// The name under which the next start finds the sessions of this one.
    pub(super) fn name(&self) -> Option<&str> {
        self.config.gateway.as_ref().map(|own| own.gateway.as_str())
    }

    pub(super) fn losses(&self) -> &Arc<LossCounter> {
        &self.losses
    }

    pub(super) fn own(&self) -> &ClusterClient {
        &self.own
    }
}

impl Share for ClusterShare {
    type Client = ClusterClient;

    fn file_system(&self) -> FileSystemId {
        self.file_system
    }

    /// The gateway's own session: a cluster never uses the number of a session again.
    fn gateway_id(&self) -> u64 {
        self.own.session().0
    }

    fn own_client(&self) -> ClusterClient {
        self.own.clone()
    }

    async fn data_servers(&self) -> Result<Vec<DataServer>> {
        self.own.data_servers().await
    }

    async fn begin_client(&self, record: ClientRecord) -> Result<ClusterClient> {
        if record.record.len() > CLIENT_RECORD_BYTES_MAX {
            let why = format!("a record of {} bytes", record.record.len());
            let hint = format!("at most {CLIENT_RECORD_BYTES_MAX}");
            return Err(Error::new(Status::LimitExceeded, why).with_hint(hint));
        }
        let config = self.client_config(record.name, record.record, None);
        let session = Session::begin(config, Arc::clone(&self.losses)).await?;
        Ok(ClusterClient::new(session))
    }

    async fn adopt_clients(&self) -> Result<Vec<AdoptedClient<ClusterClient>>> {
        adoption::adopt_clients(self).await
    }
}
