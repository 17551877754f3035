//! A gateway of a cluster.

use std::sync::Arc;

use braid_client::Config;
use braid_types::Status;

use super::{ClusterClient, loss::LossCounter, session::Session};
use crate::{
    CLIENT_RECORD_BYTES_MAX, ClientRecord, DataServer, Error, FileSystemId, Result, Share,
    ShareClient,
};

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
        let Some(cluster) = config.cluster else {
            let why = "the configuration does not name the cluster that the gateway serves";
            return Err(
                Error::new(Status::Invalid, why).with_hint("set cluster.uuid in braid.toml")
            );
        };
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
        let config = Config { client_name: record.name, ..(*self.config).clone() };
        let session = Session::begin(config, Arc::clone(&self.losses)).await?;
        Ok(ClusterClient::new(session))
    }
}
